"""How a trainer makes features of compact observations: each window for itself, or each bar once.

A stream encoder's answers hang on bars alone. `BarsOnce` encodes all bars of the market before a round; environments
then gather rows. Where gradients are asked for, rows come in segments of following bars, and a segment is encoded in
one pass with the bars that its first one remembers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from pacesetter.agents.layout import Tensors
from pacesetter.agents.stream import STREAM, StreamEncoder
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.gather import INDEX, Tables

__all__ = ["BarsOnce", "Encoding", "Windows", "encode_table", "looking", "make_encoding", "streams"]

BARS_AT_ONCE = 512  # of a block, behind those that the first of them remembers
ROWS_AT_ONCE = 131_072  # bars of all blocks that are encoded in one pass
LEAST_BROKEN = 8  # segments of such a pass
SHARE_OF_BROKEN = 8  # one pass encodes this part of a batch's segments more, for episodes that end inside them


class Encoding(Protocol):
    """Compact observations to (row, width) float32 features."""

    def begin_round(self) -> None:
        """The encoder's weights are those of the round now."""

    def __call__(self, observation: Tensors) -> torch.Tensor: ...


def streams(encoder: Any) -> bool:
    """Whether an encoder's answers hang on bars alone, so that each needs to be encoded once."""
    return isinstance(encoder, StreamEncoder) and bool(encoder.layout.window)


def make_encoding(fleet: Any, market: Any, config: Any, segment_bars: int | None) -> Encoding:
    """Bars once, where the encoder can and the method learns from segments of so many bars; else windows."""
    if segment_bars is None or not streams(fleet.encoder):
        return Windows(fleet, market, config)
    return BarsOnce(fleet, market, config, segment_bars)


class Windows:
    """Every window for itself, gathered when it is needed; `compile` fuses gathering and encoder."""

    def __init__(self, fleet: Any, market: Any, config: Any) -> None:
        self.fleet, self.market, self.config, self.device = fleet, market, config, market.device
        self._run = compiled(self._encode, config)

    def begin_round(self) -> None:
        """Nothing is kept."""

    def __call__(self, observation: Tensors) -> torch.Tensor:
        return self._run(observation)  # type: ignore[no-any-return]

    def _encode(self, observation: Tensors) -> torch.Tensor:
        with narrow(self.device, self.config):
            features: torch.Tensor = self.fleet.encoder(self.market.tables(observation)).float()
        return features


class BarsOnce:
    """Each bar of the market once a round; with gradients, segments of `segment_bars` rows in the order of time.

    `table` (block, bar, width) holds what the encoder made of each bar, in the encoder's precision.
    """

    def __init__(self, fleet: Any, market: Any, config: Any, segment_bars: int) -> None:
        self.encoder: StreamEncoder = fleet.encoder
        self.market, self.config, self.device, self.segment_bars = market, config, market.device, segment_bars
        self.tables: Tables = market.tables
        self.memory_bars = self.encoder.config.memory_bars
        if market.batch.window_bars < self.memory_bars:
            raise ConfigError(
                f"task.window_bars={market.batch.window_bars} is less than the {self.memory_bars} bars that "
                f"network=stream reads; give task.window_bars={self.memory_bars}"
            )
        dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
        blocks, _, bars, _ = self.tables.windows.shape
        self.table = torch.zeros(blocks, bars, self.encoder.width, dtype=dtype, device=self.device)
        self._encode, self._fuse = compiled(self._encode_bars, config), compiled(self._fuse_rows, config)

    @torch.no_grad()
    def begin_round(self) -> None:
        """Encode every bar by the weights of now."""
        encode_table(self._encode, self.tables, self.memory_bars, self.table)

    def __call__(self, observation: Tensors) -> torch.Tensor:
        rest = {name: entry for name, entry in observation.items() if name != INDEX}
        index = observation[INDEX].long()
        encoded = self._segments(index) if torch.is_grad_enabled() else self.table[index[:, 0], index[:, 1]]
        return self._fuse(encoded, self.tables.context_at(index) | rest)  # type: ignore[no-any-return]

    # ---- with gradients -------------------------------------------------------------------------------------------

    def _segments(self, index: torch.Tensor) -> torch.Tensor:
        """(row, width) of places (row, 2) that come in segments; rows behind the end of an episode are elsewhere."""
        places = index.view(-1, self.segment_bars, 2)
        steps = torch.arange(self.segment_bars, device=self.device)
        first = places[:, :1]
        follows = (places[..., 0] == first[..., 0]) & (places[..., 1] - first[..., 1] == steps)
        encoded = self._from(first[:, 0]).flatten(0, 1)
        if bool(follows.all()):
            return encoded
        return self._mended(encoded, index, ~follows)

    def _mended(self, encoded: torch.Tensor, index: torch.Tensor, broken: torch.Tensor) -> torch.Tensor:
        """The same with the `broken` (segment, bar) rows encoded from the bars where they are."""
        places = index.view(*broken.shape, 2)
        jumps = (places[:, 1:] - places[:, :-1] != torch.tensor([0, 1], device=self.device)).any(-1)
        begins = broken.clone()
        begins[:, 1:] &= jumps | ~broken[:, :-1]
        pieces, rows = places[begins], torch.nonzero(broken.flatten()).squeeze(1)
        piece = begins.flatten().cumsum(0)[rows] - 1
        size = max(len(broken) // SHARE_OF_BROKEN, LEAST_BROKEN)
        missing = -len(pieces) % size  # every pass has one shape, for which it is compiled once
        padded = torch.cat([pieces, pieces[:1].expand(missing, 2)])
        found = torch.cat([self._from(part) for part in padded.split(size)])
        return encoded.index_copy(0, rows, found[piece, index[rows, 1] - pieces[piece, 1]])

    def _from(self, first: torch.Tensor) -> torch.Tensor:
        """(piece, segment bar, width) of the segments that begin at `first` (piece, 2)."""
        back = torch.arange(1 - self.memory_bars, self.segment_bars, device=self.device)
        bars = (first[:, 1:] + back).clamp(max=self.tables.windows.shape[2] - 1)  # behind the last nothing is read
        return self._encode(self.tables.windows[first[:, :1], 0, bars], self.segment_bars)  # type: ignore[no-any-return]

    # ---- what is compiled -----------------------------------------------------------------------------------------

    def _encode_bars(self, bars: torch.Tensor, count: int) -> torch.Tensor:
        with narrow(self.device, self.config):
            return self.encoder.encode(bars, count).to(self.table.dtype)

    def _fuse_rows(self, encoded: torch.Tensor, rest: Tensors) -> torch.Tensor:
        with narrow(self.device, self.config):
            features: torch.Tensor = self.encoder({**rest, STREAM: encoded}).float()
        return features


def looking(fleet: Any, market: Any) -> Callable[[Tensors], dict[str, torch.Tensor]]:
    """Compact observations to what the fleet takes, to play a market once: its bars are encoded ahead where they can.

    Weights must stay as they are while it is used.
    """
    encoder, tables = fleet.encoder, market.tables
    if not streams(encoder) or market.batch.window_bars < encoder.config.memory_bars:
        return tables  # type: ignore[no-any-return]
    first = int(market.pool[:, 1].min())
    blocks, _, bars, _ = tables.windows.shape
    table = torch.zeros(blocks, bars - first, encoder.width, device=market.device)
    encode_table(encoder.encode, tables, encoder.config.memory_bars, table)

    def look(observation: Tensors) -> dict[str, torch.Tensor]:
        rest = {name: entry for name, entry in observation.items() if name != INDEX}
        index = observation[INDEX].long()
        return rest | tables.context_at(index) | {STREAM: table[index[:, 0], index[:, 1] - first]}

    return look


def encode_table(
    encode: Callable[[torch.Tensor, int], torch.Tensor], tables: Tables, memory_bars: int, out: torch.Tensor
) -> None:
    """Write what `encode` makes of the last bars of the tables into `out` (block, bar, width).

    A block's first bars, which remember less than others, are encoded with its first bar again and again before them.
    Nothing reads them: no window of `memory_bars` ends there.
    """
    windows, (blocks, bars) = tables.windows[:, 0], out.shape[:2]
    last, at_once = windows.shape[1] - 1, min(BARS_AT_ONCE, bars)
    back = torch.arange(1 - memory_bars, at_once, device=out.device) + windows.shape[1] - bars
    firsts = torch.arange(0, bars, at_once, device=out.device)
    pieces = torch.cartesian_prod(torch.arange(blocks, device=out.device), firsts)
    size = min(max(ROWS_AT_ONCE // at_once, 1), len(pieces))
    for part in pieces.split(size):
        padded = torch.cat([part, part[:1].expand(size - len(part), 2)])  # one shape, compiled once
        encoded = encode(windows[padded[:, :1], (padded[:, 1:] + back).clamp(0, last)], at_once)[: len(part)]
        for place, (block, first) in enumerate(part.tolist()):
            out[block, first : first + at_once] = encoded[place, : bars - first]


def compiled(function: Callable[..., Any], config: Any) -> Callable[..., Any]:
    """The function, fused by torch where the options ask for it."""
    return torch.compile(function, dynamic=False) if config.compile else function


def narrow(device: torch.device, config: Any) -> torch.autocast:
    """Matrix products in bfloat16 where the options ask for it; weights stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")
