"""How a trainer makes features of compact observations: each window for itself, or each bar once.

A stream encoder's answers depend on bars alone. `BarsOnce` encodes all bars of the market before a round; environments
then gather rows. Where gradients are asked for, rows come in segments of following bars, and a segment is encoded in
one pass with the bars that its first one remembers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

import torch

from pacesetter.agents.fleet import Fleet
from pacesetter.agents.layout import Tensors
from pacesetter.agents.stream.encoder import STREAM, StreamEncoder
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.gather import INDEX, Tables
from pacesetter.learning.fleet.method import Agents, Market
from pacesetter.learning.fleet_config import FleetConfig

__all__ = ["BarsOnce", "Encoding", "WindowEncoding", "encode_table", "make_encoding", "make_look", "streams"]

BARS_AT_ONCE = 512  # of a block, behind those that the first of them remembers
ROWS_AT_ONCE = 131_072  # bars of all blocks that are encoded in one pass


Taken = ParamSpec("Taken")
Given = TypeVar("Given")


class Encoding(Protocol):
    """Compact observations to (row, width) float32 features; `room` and `needs` as those of `BarsOnce`."""

    room: int | None

    def needs(self, index: torch.Tensor, orders: torch.Tensor) -> int | None:
        """Room that minibatches need."""

    def begin_round(self) -> None:
        """The encoder's weights are those of the round now."""

    def __call__(self, observation: Tensors) -> torch.Tensor: ...


def streams(encoder: object) -> bool:
    """Whether an encoder's answers depend on bars alone, so that each needs to be encoded once."""
    return isinstance(encoder, StreamEncoder) and bool(encoder.layout.window)


def make_encoding(
    fleet: Agents, market: Market, config: FleetConfig, segment_bars: int | None, batch_rows: int
) -> Encoding:
    """Bars once, where the encoder can and the method learns from segments of so many bars; else windows."""
    if segment_bars is None or not streams(fleet.encoder):
        return WindowEncoding(fleet, market, config)
    return BarsOnce(fleet, market, config, segment_bars, batch_rows)


class WindowEncoding:
    """Every window for itself, gathered when it is needed; `compile` fuses gathering and encoder."""

    def __init__(self, fleet: Agents, market: Market, config: FleetConfig) -> None:
        self.fleet, self.market, self.config, self.device = fleet, market, config, market.device
        self._run = compile_function(self._encode, config.compile)

    room: int | None = None

    def begin_round(self) -> None:
        """Nothing is kept."""

    def needs(self, index: torch.Tensor, orders: torch.Tensor) -> int | None:
        """No room: rows do not hang together."""
        return 0

    def __call__(self, observation: Tensors) -> torch.Tensor:
        return self._run(observation)

    def _encode(self, observation: Tensors) -> torch.Tensor:
        with autocast(self.device, self.config):
            return self.fleet.encoder(self.market.tables(observation)).float()


class BarsOnce:
    """Each bar of the market once a round; with gradients, segments of `segment_bars` rows in the order of time.

    `table` (block, bar, width) holds what the encoder made of each bar, in the encoder's precision.
    """

    def __init__(self, fleet: Agents, market: Market, config: FleetConfig, segment_bars: int, batch_rows: int) -> None:
        assert isinstance(fleet.encoder, StreamEncoder)
        assert isinstance(market.tables, Tables)
        assert market.batch is not None  # stored rows are drawn one by one
        self.encoder, self.tables = fleet.encoder, market.tables
        self.market, self.config, self.device, self.segment_bars = market, config, market.device, segment_bars
        self.batch_rows, self.memory_bars = batch_rows, self.encoder.config.memory_bars
        if market.batch.window_bars < self.memory_bars:
            raise ConfigError(
                f"task.window_bars={market.batch.window_bars} is less than the {self.memory_bars} bars that "
                f"network=stream reads; give task.window_bars={self.memory_bars}"
            )
        # In the precision that encoded it: float32 would double the table and add no digit.
        dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
        blocks, _, bars, _ = self.tables.windows.shape
        self.table = torch.zeros(blocks, bars, self.encoder.width, dtype=dtype, device=self.device)
        self.room: int | None = None  # for broken segments of a batch; None looks how many there are, and waits for it
        self._encode, self._fuse = (
            compile_function(self._encode_bars, config.compile),
            compile_function(self._fuse_rows, config.compile),
        )

    @torch.no_grad()
    def begin_round(self) -> None:
        """Encode every bar by the weights of now."""
        encode_table(self._encode, self.tables, self.memory_bars, self.table)

    def __call__(self, observation: Tensors) -> torch.Tensor:
        rest = {name: entry for name, entry in observation.items() if name != INDEX}
        index = observation[INDEX].long()
        # The table is of the round's first weights: right for acting, but an update has to encode by those of now.
        encoded = self._segments(index) if torch.is_grad_enabled() else self.table[index[:, 0], index[:, 1]]
        return self._fuse(encoded, self.tables.context_at(index) | rest)

    # ---- with gradients -------------------------------------------------------------------------------------------

    def _segments(self, index: torch.Tensor) -> torch.Tensor:
        """(row, width) of places (row, 2) that come in segments; rows behind the end of an episode are elsewhere."""
        places = index.view(-1, self.segment_bars, 2)
        encoded, broken = self._from(places[:, 0]).flatten(0, 1), _mark_broken(places)
        room = self.room
        if room is None:
            # Rounded up to whole passes; int() waits for the device.
            room = -(-int(_mark_beginnings(places, broken).sum()) // self.most_broken) * self.most_broken
        return self._encode_broken(encoded, places, broken, room) if room else encoded

    def _encode_broken(
        self, encoded: torch.Tensor, places: torch.Tensor, broken: torch.Tensor, room: int
    ) -> torch.Tensor:
        """The same with the `broken` (segment, bar) rows encoded where they are, by at most `room` segments more."""
        begins, index = _mark_beginnings(places, broken).flatten(), places.flatten(0, 1)
        # The first `room` rows at which a run of bars begins; behind the true ones come fillers, which no row points
        # to.
        pieces = index[begins.byte().argsort(descending=True, stable=True)[:room]]
        states = torch.cat([self._from(part) for part in torch.split(pieces, self.most_broken)])
        # Each broken row belongs to the latest beginning at or before it; the clamps serve rows that are not broken.
        piece = (begins.cumsum(0) - 1).clamp(0, len(pieces) - 1)
        offset = (index[:, 1] - pieces[piece, 1]).clamp(0, self.segment_bars - 1)
        return torch.where(broken.flatten()[:, None], states[piece, offset], encoded)

    @property
    def most_broken(self) -> int:
        """Segments of a pass for those that are broken off: every pass has one shape, compiled once."""
        # An eighth of a batch's segments: episodes end rarely within one.
        return max(self.batch_rows * len(self.market.symbols) // self.segment_bars // 8, 8)

    def needs(self, index: torch.Tensor, orders: torch.Tensor) -> int | None:
        """Room for broken segments in any of the minibatches `orders` (minibatch, row) of `index` (symbol, row, 2).

        0, or `most_broken`, or None where they are more than that.
        """
        places = torch.unflatten(index[:, orders].long(), 2, (-1, self.segment_bars))
        begins = _mark_beginnings(places, _mark_broken(places))
        most = int(begins.sum((0, 2, 3)).max())
        return 0 if most == 0 else self.most_broken if most <= self.most_broken else None

    def _from(self, first: torch.Tensor) -> torch.Tensor:
        """(piece, segment bar, width) of the segments that begin at `first` (piece, 2)."""
        # Before the segment stand the bars that its first one remembers.
        back = torch.arange(1 - self.memory_bars, self.segment_bars, device=self.device)
        bars = (first[:, 1:] + back).clamp(max=self.tables.windows.shape[2] - 1)  # behind the last nothing is read
        return self._encode(self.tables.windows[first[:, :1], 0, bars], self.segment_bars)

    # ---- what is compiled -----------------------------------------------------------------------------------------

    def _encode_bars(self, bars: torch.Tensor, count: int) -> torch.Tensor:
        with autocast(self.device, self.config):
            return self.encoder.encode(bars, count).to(self.table.dtype)

    def _fuse_rows(self, encoded: torch.Tensor, rest: Tensors) -> torch.Tensor:
        with autocast(self.device, self.config):
            features: torch.Tensor = self.encoder({**rest, STREAM: encoded}).float()
        return features


def _mark_broken(places: torch.Tensor) -> torch.Tensor:
    """(…, segment, bar) True where a row is not so many bars behind the first of its segment (…, segment, bar, 2)."""
    steps = torch.arange(places.shape[-2], device=places.device)
    apart = places - places[..., :1, :]
    return (apart[..., 0] != 0) | (apart[..., 1] != steps)


def _mark_beginnings(places: torch.Tensor, broken: torch.Tensor) -> torch.Tensor:
    """Where in a broken part of a segment the bars follow one another from: at its first row, and behind each jump."""
    apart = places[..., 1:, :] - places[..., :-1, :]
    jumps = (apart[..., 0] != 0) | (apart[..., 1] != 1)
    begins = broken.clone()
    begins[..., 1:] &= jumps | ~broken[..., :-1]
    return begins


def make_look(fleet: Fleet, market: SymbolMarket) -> Callable[[Tensors], dict[str, torch.Tensor]]:
    """Compact observations to what the fleet takes, to play a market once: its bars are encoded ahead where they can.

    Weights must stay as they are while it is used.
    """
    encoder, tables = fleet.encoder, market.tables
    if not (isinstance(encoder, StreamEncoder) and streams(encoder)):
        return tables
    if market.batch.window_bars < encoder.config.memory_bars:
        return tables
    # Bars before the earliest start are history alone: they are read, never encoded.
    first = int(market.pool[:, 1].min())
    blocks, _, bars, _ = tables.windows.shape
    table = torch.zeros(blocks, bars - first, encoder.width, device=market.device)
    encode_table(encoder.encode, tables, encoder.config.memory_bars, table)

    def look(observation: Tensors) -> dict[str, torch.Tensor]:
        rest = {name: entry for name, entry in observation.items() if name != INDEX}
        index = observation[INDEX].long()
        encoded = {STREAM: table[index[:, 0], index[:, 1] - first]}
        return {**rest, **tables.context_at(index), **encoded}

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
    for part in torch.split(pieces, size):
        padded = torch.cat([part, part[:1].expand(size - len(part), 2)])  # one shape, compiled once
        encoded = encode(windows[padded[:, :1], (padded[:, 1:] + back).clamp(0, last)], at_once)[: len(part)]
        for place, (block, first) in enumerate(part.tolist()):
            out[block, first : first + at_once] = encoded[place, : bars - first]


def compile_function(function: Callable[Taken, Given], is_fused: bool) -> Callable[Taken, Given]:
    """The function, fused by torch where `is_fused`; what was compiled is kept for later runs."""
    # Beside the user's other caches: the default is a temporary folder, which a restart empties.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path.home() / ".cache" / "pacesetter" / "compiled"))
    return torch.compile(function, dynamic=False) if is_fused else function


def autocast(device: torch.device, config: FleetConfig) -> torch.autocast:
    """Matrix products in bfloat16 where the options ask for it; weights stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")
