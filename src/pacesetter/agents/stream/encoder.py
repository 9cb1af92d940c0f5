"""The stream encoder: each bar is encoded once, from itself and the bars before it, whatever account looks at it.

Every layer lets a bar look at the `span` bars that end with it, so that an answer depends on exactly the last
layers · (span − 1) + 1 of them. Whether a window is encoded alone, a long sequence in one pass, or bars as they come
with the keys and values of earlier ones kept, the answers are the same to rounding. The account joins after it.

Read `StreamEncoder.encode` first; `append` is the same for one more bar.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.agents.attention import check_heads
from pacesetter.agents.encoders import NETWORKS, Encoder, Network
from pacesetter.agents.initialise import shrink
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.agents.stream.following import Following
from pacesetter.arrays import Array
from pacesetter.errors import check_range

__all__ = ["STREAM", "BarFollower", "Memory", "Stream", "StreamEncoder", "follower_of"]

STREAM = "stream"  # entry (width,) of an observation whose window was encoded already
CHUNK = 32  # queries that share their keys: those of their chunk and of the one before it
FIRST_GAIN = 0.1  # of what blocks add to a bar's embedding, when learning begins
NEVER = -1e9  # score of a key that is not there; finite, so that a gradient through it is 0

Pair = Sequence[torch.Tensor]  # keys, and values


class Memory(NamedTuple):
    """What a server keeps of the last bars of some rows.

    keys_values   (row, layer, 2, span − 1, width), in any order of the bars
    ages          (row, span − 1) bars since each was the newest, from 1; `span` where there is none
    """

    keys_values: torch.Tensor
    ages: torch.Tensor


class BandedAttention(nn.Module):
    """Attention of each bar to the `span` bars that end with it; a learned number for each age and head."""

    def __init__(self, width: int, heads: int, span: int) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads, self.span = heads, span
        self.query = nn.Linear(width, width)
        self.pair = nn.Linear(width, 2 * width)  # keys and values
        self.output = nn.Linear(width, width)
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)  # the first heads look at the newest bars
        # ALiBi's slopes (Press et al. 2022) as a start: a penalty that grows with age, steeper in the first heads.
        self.bias = nn.Parameter(-slopes[:, None] * torch.arange(span))

    def forward(self, x: torch.Tensor, count: int) -> torch.Tensor:
        """(batch, count, width) what the last `count` of the bars (batch, bar, width) take from those before them."""
        # No query reaches further back, so older bars are not even projected.
        known = min(x.shape[1], count + self.span - 1)
        query = self.query(x[:, -count:]).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        parts = self.pair(x[:, -known:]).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        key, value = parts.unbind(0)  # (batch, head, bar, width of a head)
        size = max(min(CHUNK, count), self.span - 1, 1)  # a key reaches no further than the next chunk
        chunks = -(-count // size)
        query = torch.unflatten(_in_front(query, chunks * size), 2, (chunks, size))
        key, value = (_with_previous(_in_front(part, (chunks + 1) * size), size) for part in (key, value))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        shares = (scores + self._bias(chunks, size, known)).softmax(-1).to(value.dtype)
        mixed = (shares @ value).flatten(2, 3)[:, :, -count:]
        return self.output(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _bias(self, chunks: int, size: int, known: int) -> torch.Tensor:
        """(head, chunk, query, key): the number of each age; `NEVER` outside the span and before the first bar."""
        device = self.bias.device
        ages = torch.arange(self.span, device=device)
        age = size + torch.arange(size, device=device)[:, None] - torch.arange(2 * size, device=device)
        is_of = age == ages[:, None, None]  # (age, query, key); a sum, whose gradient adds up in one order on a GPU too
        bias = torch.where(is_of, self.bias[:, :, None, None], 0.0).sum(1)
        bias = torch.where(is_of.any(0), bias, NEVER)[:, None]
        missing = (chunks + 1) * size - known
        first = missing - size * torch.arange(chunks, device=device)[:, None]
        is_there = torch.arange(2 * size, device=device) >= first
        return torch.where(is_there[:, None], bias, NEVER)

    def append(self, x: torch.Tensor, earlier: Pair, ages: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What the newest bar (row, width) takes, and its own keys and values (row, 2, width).

        `earlier` are keys and values (row, span − 1, width) of those before it, `ages` as in `Memory`.
        """
        query, own = self.query(x).unflatten(-1, (1, self.heads, -1)), self.pair(x).unflatten(-1, (2, -1))
        # (row, bar, head, width of a head): sums over axes as they lie, since a server would copy what is transposed
        key, value = (torch.unflatten(part, -1, (self.heads, -1)) for part in earlier)
        own_key, own_value = own.unflatten(-1, (self.heads, -1)).unbind(1)
        scores = torch.cat([(query * key).sum(-1), (query[:, 0] * own_key).sum(-1).unsqueeze(1)], dim=1)
        numbers = F.embedding(ages, torch.cat([self.bias, torch.full_like(self.bias[:, :1], NEVER)], dim=1).T)
        bias = torch.cat([numbers, self.bias[:, 0].expand(x.shape[0], 1, -1)], dim=1)
        shares = (scores / math.sqrt(query.shape[-1]) + bias).softmax(1).unsqueeze(-1)
        mixed = (shares[:, :-1] * value).sum(1) + shares[:, -1] * own_value
        return self.output(mixed.flatten(1)), own


def _in_front(bars: torch.Tensor, length: int) -> torch.Tensor:
    """(…, bar, width) with zeros in front, `length` bars in all."""
    return F.pad(bars, (0, 0, length - bars.shape[2], 0))


def _with_previous(bars: torch.Tensor, size: int) -> torch.Tensor:
    """(…, chunk, 2 · size, width) each chunk of bars after the one before it; the first is only a predecessor."""
    chunks = torch.unflatten(bars, 2, (-1, size))
    return torch.cat([chunks[:, :, :-1], chunks[:, :, 1:]], dim=3)


class BandedBlock(nn.Module):
    """Banded attention, then a feed-forward of `expansion` · width, each after a norm and with a residual."""

    def __init__(self, width: int, heads: int, expansion: int, span: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = BandedAttention(width, heads, span)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, expansion * width), nn.GELU(), nn.Linear(expansion * width, width)
        )

    def forward(self, x: torch.Tensor, count: int) -> torch.Tensor:
        """(batch, count, width) of the last `count` bars."""
        x = x[:, -count:] + self.attention(self.attention_norm(x), count)
        return x + self.feed_forward(x)  # type: ignore[no-any-return]

    def append(self, x: torch.Tensor, earlier: Pair, ages: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The same of one bar (row, width) more; see `BandedAttention.append`."""
        taken, own = self.attention.append(self.attention_norm(x), earlier, ages)
        x = x + taken
        return x + self.feed_forward(x), own


class StreamEncoder(Encoder):
    """Bars by banded causal attention; the account, and all else that is not a bar, is fused with their encoding."""

    def _build_window(self, bars: int, features: int) -> None:
        config = self.config
        self.embed = nn.Linear(features, self.width)
        sizes = (self.width, config.heads, config.expansion, config.span)
        self.blocks = nn.ModuleList(BandedBlock(*sizes) for _ in range(config.layers))
        self.fusion = nn.Sequential(
            nn.LayerNorm(self.width), nn.Linear(self.width, self.width), nn.GELU(), nn.Linear(self.width, self.width)
        )

    def begin_small(self) -> None:
        """Let the encoding of a bar begin as an embedding of the bar itself; what blocks add begins small.

        With Xavier's weights blocks add unit variance of the bars before it, six times what the account and the
        lead–lag features have that join afterwards: what those say was learned late or not at all.
        """
        for block in self.blocks:
            assert isinstance(block, BandedBlock)
            shrink(block.attention.output, FIRST_GAIN)
            shrink(block.feed_forward[-1], FIRST_GAIN)  # type: ignore[arg-type]

    def forward(self, observation: Tensors) -> torch.Tensor:
        """(batch, width) of observations with a window, or with what `encode` or `append` made of it as `stream`."""
        if STREAM not in observation:
            return super().forward(observation)
        rest = self.normaliser(observation, without=self.layout.window)
        return self.norm(self._fuse_context(observation[STREAM], self._context(rest, observation)))  # type: ignore[no-any-return]

    def _summarise(self, window: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        return self._fuse_context(self._encode_band(window, 1)[:, 0], context)

    def _fuse_context(self, encoded: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        summary = encoded + context.to(encoded.dtype)
        return summary + self.fusion(summary)  # type: ignore[no-any-return]

    def encode(self, bars: torch.Tensor, count: int) -> torch.Tensor:
        """(batch, count, width) of the last `count` of raw bars (batch, bar, feature).

        With `config.memory_bars` − 1 more bars than `count` they are what they are in any longer sequence.
        """
        return self._encode_band(self.normaliser.scale_entry(self.config.window, bars), count)

    def _encode_band(self, bars: torch.Tensor, count: int) -> torch.Tensor:
        """The same of normalised bars."""
        reach = self.config.span - 1
        # Each layer reaches span − 1 bars further back, so the first one needs the most and each later one fewer.
        needed = min(bars.shape[1], count + len(self.blocks) * reach)
        x = self.embed(bars[:, -needed:])
        for place, block in enumerate(self.blocks, start=1):
            x = block(x, min(x.shape[1], count + (len(self.blocks) - place) * reach))
        return x  # type: ignore[no-any-return]

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """(layer, 2, bar, width) keys and values that a row keeps of earlier bars."""
        return (self.config.layers, 2, self.config.span - 1, self.width)

    # ---- one bar at a time ----------------------------------------------------------------------------------------

    def empty_memory(self, rows: int) -> Memory:
        """The memory of `rows` rows that have not seen a bar yet."""
        span, device = self.config.span, self.start.device
        keys_values = torch.zeros(rows, *self.memory_shape, dtype=self.start.dtype, device=device)
        return Memory(keys_values, torch.full((rows, span - 1), span, device=device))

    def append(self, bar: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        """What `encode` gives a raw bar (row, feature) after those of the memory, (row, width); and its keys and
        values (row, layer, 2, width), which `remember` keeps."""
        return self.append_to(bar, [layer.unbind(1) for layer in memory.keys_values.unbind(1)], memory.ages)

    def append_to(
        self, bar: torch.Tensor, earlier: Sequence[Pair], ages: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same with keys and values (row, span − 1, width) of each layer apart, so that none is cut out of all."""
        x, kept = self.embed(self.normaliser.scale_entry(self.config.window, bar)), []
        for block, pair in zip(self.blocks, earlier, strict=True):
            x, own = block.append(x, pair, ages)  # type: ignore[operator]
            kept.append(own)
        return x, torch.stack(kept, dim=1)

    def remember(self, memory: Memory, own: torch.Tensor) -> Memory:
        """The memory with one bar more, in place of the oldest."""
        # A ring by age: keys need no order, since their age decides which number is added to their score.
        oldest = memory.ages.argmax(1)
        rows = torch.arange(len(oldest), device=oldest.device)
        keys_values = memory.keys_values.clone()
        keys_values[rows, :, :, oldest] = own
        ages = (memory.ages + 1).clamp(max=self.config.span)
        ages[rows, oldest] = 1
        return Memory(keys_values, ages)


class BarFollower:
    """Encodings of windows that mostly follow one another, as those of a backtest or a paper trader do.

    It notices weights that were changed in place, as by an optimiser.
    """

    def __init__(self, encoder: StreamEncoder) -> None:
        self.encoder, self.following, self._version = encoder, Following(encoder.memory_shape), -1

    @torch.no_grad()
    def __call__(self, window: Array) -> torch.Tensor:
        """(row, width) of windows (row, bar, feature) that hold all that the encoder remembers."""
        tensors = (*self.encoder.parameters(), *self.encoder.buffers())
        version, device = sum(tensor._version for tensor in tensors), self.encoder.start.device
        if version != self._version:
            self.following.reset()
            self._version = version

        def step(bar: int, memory: Array, ages: Array) -> tuple[torch.Tensor, Array]:
            kept = Memory(torch.as_tensor(memory, device=device), torch.as_tensor(ages, device=device).long())
            encoded, own = self.encoder.append(torch.tensor(window[:, bar], device=device), kept)
            return encoded, own.cpu().numpy()

        return self.following(np.asarray(window), step)


def follower_of(encoder: Encoder, window_bars: int) -> BarFollower | None:
    """What follows windows of so many bars; None where the encoder is another, or remembers more than they hold."""
    if not isinstance(encoder, StreamEncoder) or window_bars < encoder.config.memory_bars:
        return None
    return BarFollower(encoder)


@dataclass(frozen=True)
class Stream(Network):
    """Sizes of a stream encoder: each layer lets a bar look at the `span` bars that end with it."""

    encoder: ClassVar[type[Encoder]] = StreamEncoder
    layers: int = 4
    heads: int = 8
    expansion: int = 4
    span: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(2, owner="network", span=self.span)

    def build(self, shapes: Shapes) -> Encoder:
        encoder = super().build(shapes)
        if encoder.layout.window:
            assert isinstance(encoder, StreamEncoder)
            encoder.begin_small()
        return encoder

    @property
    def memory_bars(self) -> int:
        """Bars that an answer depends on."""
        return self.layers * (self.span - 1) + 1


NETWORKS.add("stream", Stream())
NETWORKS.add("stream_small", Stream(width=64, layers=2, heads=4))
