"""How sure a figure is: intervals and paired differences by the stationary block bootstrap.

Blocks of random length keep the dependence between bars (Politis, Romano 1994). Their mean length is chosen by the
dependence of the returns (Patton, Politis, White 2009), which suits every statistic of the gain: Sharpe ratio, return,
profit factor. Risk lasts longer than trends do: for volatility, value at risk and drawdowns give blocks that suit the
squared returns, `block_bars=block_length(returns**2)`.

Intervals are percentiles of the draws: over simulated returns that is as close to the nominal coverage as the basic,
bias-corrected and normal ones, and it never leaves the range of the statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.statistics.metrics import alpha_beta, check_returns, sharpe

__all__ = [
    "Difference",
    "Interval",
    "Statistic",
    "alpha_interval",
    "block_length",
    "interval",
    "intervals",
    "paired_difference",
    "paired_differences",
]

Statistic = Callable[[Array], Array]  # (time, many) -> (many,)
BATCH_BYTES = 32 * 2**20  # of indices at a time
FEWEST_BARS = 20  # that show dependence; arch itself takes more than ten


class Interval(NamedTuple):
    """A figure, and the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


class Difference(NamedTuple):
    """How much a figure is above another, the ends of that interval, and the two-sided p-value of no difference."""

    value: float
    low: float
    high: float
    p_value: float

    def __str__(self) -> str:
        return f"{Interval(*self[:3])}, p = {self.p_value:.2g}"


def interval(
    returns: ArrayLike,
    statistic: Statistic = sharpe,
    *,
    level: float = 0.95,
    draws: int = 1000,
    block_bars: int | None = None,
    seed: int = 0,
) -> Interval:
    """The statistic of returns (time,) with its interval at `level`; blocks as long as the returns ask for."""
    return intervals([returns], [statistic], level=level, draws=draws, block_bars=block_bars, seed=seed)[0]


def intervals(
    samples: Sequence[ArrayLike],
    statistics: Sequence[Statistic],
    *,
    level: float = 0.95,
    draws: int = 1000,
    block_bars: int | None = None,
    seed: int = 0,
) -> list[Interval]:
    """`interval` of each sample by its own statistic; blocks of one length are drawn once for all that ask for them."""
    checked = [check_returns(sample) for sample in samples]
    lengths = [block_length(sample) if block_bars is None else block_bars for sample in checked]
    drawn: list[list[Array]] = [[] for _ in checked]
    for (bars, length), members in _alike(map(len, checked), lengths).items():
        for rows in _rows(bars, length, draws, seed):
            for k in members:
                drawn[k].append(statistics[k](checked[k][rows]))
    return [
        Interval(float(statistic(sample)), *_interval_ends(np.concatenate(each), level))
        for sample, statistic, each in zip(checked, statistics, drawn, strict=True)
    ]


def paired_difference(
    returns: ArrayLike,
    other: ArrayLike,
    statistic: Statistic = sharpe,
    *,
    other_statistic: Statistic | None = None,
    level: float = 0.95,
    draws: int = 1000,
    block_bars: int | None = None,
    seed: int = 0,
) -> Difference:
    """Statistic of `returns` (time,) minus that of `other` over the same bars, both redrawn by the same blocks.

    `other_statistic` is that of `other` where it is not the same. The p-value counts the draws that stray from the
    difference found by as much as it is away from zero.
    """
    options: dict[str, Any] = {"level": level, "draws": draws, "block_bars": block_bars, "seed": seed}
    return paired_differences(returns, [other], statistic, [other_statistic or statistic], **options)[0]


def paired_differences(
    returns: ArrayLike,
    others: Sequence[ArrayLike],
    statistic: Statistic,
    other_statistics: Sequence[Statistic],
    *,
    level: float = 0.95,
    draws: int = 1000,
    block_bars: int | None = None,
    seed: int = 0,
) -> list[Difference]:
    """`paired_difference` to each of `others`; blocks of one length are drawn once for all that ask for them."""
    first, seconds = check_returns(returns), [check_returns(other) for other in others]
    odd = next((second for second in seconds if second.shape != first.shape), None)
    if odd is not None:
        raise DataError(f"{len(first)} bars cannot be paired with {len(odd)}; compare over the same period")
    # The same rows for both keep the bars paired; the longer memory of the two decides, so that neither is broken up.
    own = block_length(first) if block_bars is None else block_bars
    lengths = [max(own, block_length(second)) if block_bars is None else own for second in seconds]
    drawn: list[list[Array]] = [[] for _ in seconds]
    for (bars, length), members in _alike([len(first)] * len(seconds), lengths).items():
        for rows in _rows(bars, length, draws, seed):
            redrawn = statistic(first[rows])
            for k in members:
                drawn[k].append(redrawn - other_statistics[k](seconds[k][rows]))
    value = statistic(first)
    return [
        _difference(float(value - beside(second)), np.concatenate(each), level)
        for second, beside, each in zip(seconds, other_statistics, drawn, strict=True)
    ]


def _difference(gap: float, drawn: Array, level: float) -> Difference:
    # Draws are centred on the difference found; shifted to 0 they are the null. +1, so that p is never 0.
    p_value = (1 + np.sum(np.abs(drawn - gap) >= abs(gap))) / (1 + len(drawn))
    return Difference(gap, *_interval_ends(drawn, level), float(p_value))


def _alike(bars: Iterable[int], lengths: Iterable[int]) -> dict[tuple[int, int], list[int]]:
    """(bars, length of a block) -> places of the samples that have them."""
    members: dict[tuple[int, int], list[int]] = {}
    for place, key in enumerate(zip(bars, lengths, strict=True)):
        members.setdefault(key, []).append(place)
    return members


def alpha_interval(
    returns: ArrayLike,
    benchmark: ArrayLike,
    bars_per_year: float,
    *,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Interval:
    """Annualised alpha of returns (time,) to a benchmark's, its beta estimated in every draw."""
    own, other = check_returns(returns), check_returns(benchmark)
    rows = _rows(len(own), max(block_length(own), block_length(other)), draws, seed)
    drawn = np.concatenate([alpha_beta(own[chosen], other[chosen], bars_per_year)[0] for chosen in rows])
    return Interval(float(alpha_beta(own, other, bars_per_year)[0]), *_interval_ends(drawn, level))


def block_length(series: Array) -> int:
    """Mean bars of a block that keeps the dependence in a series (time,); 1 where it is too short or never changes."""
    if len(series) < FEWEST_BARS or np.ptp(series) == 0:
        return 1
    length = float(_arch().optimal_block_length(series)["stationary"].iloc[0])
    # Rounded up: blocks that are too short lose dependence and make intervals too narrow.
    return min(max(math.ceil(length), 1), len(series)) if math.isfinite(length) else 1


def _rows(bars: int, block_bars: int, draws: int, seed: int) -> Iterator[Array]:
    """(time, draw) bars of each draw, in batches."""
    if draws < 1 or not 1 <= block_bars <= bars:
        raise ConfigError(f"draws={draws} must be 1 or more, and block_bars={block_bars} in 1 … {bars}, the bars")
    scheme = _arch().StationaryBootstrap(block_bars, np.empty(bars), seed=seed)
    size = max(BATCH_BYTES // (8 * bars), 1)
    for start in range(0, draws, size):
        # Indices only, so that one statistic can be applied to a whole batch of draws at once.
        yield np.stack([scheme.update_indices() for _ in range(min(size, draws - start))]).T


def _arch() -> Any:
    """The bootstraps of arch, looked up late, as they take seconds to import."""
    import arch.bootstrap

    return arch.bootstrap


def _interval_ends(drawn: Array, level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ConfigError(f"level={level} must be between 0 and 1, e.g. 0.95")
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
