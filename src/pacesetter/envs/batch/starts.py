"""Where episodes start: any usable bar, one of a regime drawn first, or always the same bar."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array, Booleans, Integers
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.market.jit import jitable

if TYPE_CHECKING:
    from pacesetter.envs.batch.bank import Bank

__all__ = ["Start", "Starts", "chosen_rows", "draw_below", "draw_start", "next_stream", "whole_seeds"]

WHOLE = (int, np.integer)
KINDS = ("random", "stratified", "fixed")
GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # the odd step of SplitMix64 (Steele, Lea, Flood 2014), as an int64


class Start(IntEnum):
    """Columns of a pool of starts."""

    BLOCK = 0  # of the bank
    TIME = 1  # bar
    LAST = 2  # bar of the block


@dataclass(frozen=True, eq=False)
class Starts:
    """Bars at which an episode may start, in groups of which each is drawn equally often.

    pool       (start, Start) int64
    offsets    (group + 1,) int64: group g is pool[offsets[g] : offsets[g + 1]]
    is_fixed   environment e always takes the first start of group e modulo groups
    """

    pool: Array
    offsets: Array
    is_fixed: bool

    @classmethod
    def of(cls, kind: str, bank: Bank, window_bars: int, episode_bars: int | None = None) -> Starts:
        """The starts of one kind; a start has a whole known window before it and room for the episode after it.

        random       every usable bar of every block equally often
        stratified   a regime first, then one of its bars
        fixed        the earliest usable bar of each block
        """
        if kind not in KINDS:
            raise ConfigError(f"starts='{kind}' is unknown{did_you_mean(str(kind), KINDS)}")
        # At least one bar must follow, to fill the first order in.
        usable = bank.usable(window_bars, episode_bars or 1)
        blocks, bars = np.nonzero(usable)
        if len(blocks) == 0:
            raise DataError(bank.why_unusable(window_bars, episode_bars))
        pool = np.stack([blocks, bars, bank.lasts[blocks]], axis=1)
        if kind == "random":
            return cls._from_groups([pool])
        if kind == "fixed":
            # Grouped by block, so that environment e always plays block e modulo their number.
            return cls._from_groups([pool[blocks == block][:1] for block in range(len(usable))], is_fixed=True)
        labels = bank.regimes[usable]
        return cls._from_groups([pool[labels == label] for label in np.unique(labels)])

    def keep_starts(self, is_kept: Array) -> Starts:
        """The starts marked by (start,) booleans, in their groups; refuses to keep none."""
        if not is_kept.any():
            raise DataError("no start is left; relax the stage, or give more bars")
        cuts = self.offsets[1:-1]
        parts = zip(np.split(self.pool, cuts), np.split(is_kept, cuts), strict=True)
        return self._from_groups([group[kept] for group, kept in parts], self.is_fixed)

    @classmethod
    def _from_groups(cls, groups: Sequence[Array], is_fixed: bool = False) -> Starts:
        kept = [group for group in groups if len(group)]
        return cls(np.concatenate(kept), np.cumsum([0, *map(len, kept)]), is_fixed)


def chosen_rows(marks: ArrayLike | None, env_count: int) -> Booleans:
    """(env,) booleans from an array or a list of them, all True from None; refuses other kinds and shapes."""
    with suppress(ValueError):  # NumPy's, of a ragged list
        is_chosen = np.ones(env_count, dtype=bool) if marks is None else np.array(marks)
        if is_chosen.dtype == bool and is_chosen.shape == (env_count,):
            return is_chosen
    raise ConfigError(f"this reset mask is not {env_count} booleans; give one for each environment")


def whole_seeds(seeds: ArrayLike, env_count: int) -> list[int]:
    """The seeds (env,) as whole numbers from 0 on; refuses others."""
    given = np.array(seeds, dtype=object)
    if given.shape != (env_count,) or not all(isinstance(seed, WHOLE) and seed >= 0 for seed in given):
        raise ConfigError(
            f"these seeds are not {env_count} whole numbers from 0 on; give one seed, or one per environment"
        )
    return [int(seed) for seed in given]


@jitable
def next_stream(stream: int) -> int:
    """The following state of a row's own random stream."""
    return stream + GOLDEN


@jitable
def draw_below(stream: int, count: int) -> int:
    """A whole number in [0, count) from a stream's state: SplitMix64's mix of it, as a fraction of 2⁵³."""
    z = np.uint64(stream)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    # The upper 53 bits are exact in float64; the bias is about count/2⁵³.
    return int(float(z >> np.uint64(11)) * 2.0**-53 * count)


@jitable
def draw_start(e: int, stream: int, offsets: Integers, is_fixed: bool) -> tuple[int, int]:
    """Place in the pool of environment e's next start, and the stream after it."""
    if is_fixed:
        return offsets[e % (offsets.shape[0] - 1)], stream
    stream = next_stream(stream)  # two draws from two states: one state would tie the bar to its group
    group = draw_below(stream, offsets.shape[0] - 1)
    stream = next_stream(stream)
    return offsets[group] + draw_below(stream, offsets[group + 1] - offsets[group]), stream
