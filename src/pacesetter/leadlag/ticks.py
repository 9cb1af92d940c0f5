"""Lead–lag of ticks: Hayashi–Yoshida correlations of all pairs at every lag, their chance, and intervals for delays.

The lagged covariance U(θ) is a sum over blocks of time, U = Σ_b U_b. Where nothing is related, the sign of each block
is a coin toss: Σ_b ε_b U_b gives the null, in which each series keeps its own clock, its volatility and its
autocorrelation within a block. Drawing blocks with replacement gives the interval of the lag at which |U| peaks. Both
are one product of matrices for all lags, pairs and draws, and all pairs share their signs, so that p-values hold for
all of them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numba import njit, prange
from numpy.typing import NDArray

from pacesetter.data.ticks import TickSeries
from pacesetter.errors import ConfigError, DataError, check_range

__all__ = ["TickFinding", "TickStudy"]

Array = NDArray[Any]
SECOND = 10**9  # nanoseconds
GAPS = 20  # mean gaps of the slowest series that the longest lag spans, where none is given
BLOCK_LAGS, FEWEST_BLOCKS = 5, 20  # longest lags in a block of time; blocks that are needed
MOST_LAGS = 5000


@dataclass(frozen=True)
class TickStudy:
    """How ticks are compared; times in seconds.

    method    `hayashi_yoshida`: the ticks as they are; `previous_tick`: lagged correlations of the last price on a grid
    max_lag   longest lag, tried both ways; 20 mean gaps of the slowest series when left out
    step      between lags; the resolution of the stamps, or a fifth of the shortest mean gap, when left out; for
              `previous_tick` also the grid, and then the longest mean gap
    block     length of the blocks of time whose signs are flipped; 5 longest lags when left out
    draws     of the null and of the bootstrap           level   of the p-values and the intervals
    """

    method: Literal["hayashi_yoshida", "previous_tick"] = "hayashi_yoshida"
    max_lag: float | None = None
    step: float | None = None
    block: float | None = None
    draws: int = 999
    level: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        check_range(19, owner="lag", draws=self.draws)
        for name in ("max_lag", "step", "block"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"lag.{name}={value} must be above 0 seconds")
        if not 0 < self.level < 1:
            raise ConfigError(f"lag.level={self.level} must be between 0 and 1")

    def run(self, ticks: Mapping[str, TickSeries]) -> TickFinding:
        """Every pair of series over the time that all of them share."""
        if len(ticks) < 2:
            raise DataError(f"lead–lag needs two series of ticks or more, not {len(ticks)}")
        series = list(ticks.values())
        first, last = max(one.times[0] for one in series), min(one.times[-1] for one in series)
        if first >= last:
            raise DataError("the series share no time; give ticks of the same hours")
        step, max_lag = self._grid(series)
        forward = step * np.arange(1, round(max_lag / step) + 1)
        if len(forward) > MOST_LAGS:
            raise ConfigError(f"lag.max_lag={max_lag:g} and lag.step={step:g} make {len(forward):,} lags; take fewer")
        lags = np.concatenate([-forward[::-1], [0.0], forward])
        if self.method == "previous_tick":
            grid = np.arange(first, last + 1, round(step * SECOND))
            series = [_on_grid(one, grid) for one in series]
        block = self.block or BLOCK_LAGS * forward[-1]
        blocks = int((last - first) / SECOND / block)
        if blocks < FEWEST_BLOCKS:
            raise DataError(
                f"{(last - first) / SECOND:,.0f} s of ticks hold {blocks} blocks of {block:,.0f} s and {FEWEST_BLOCKS} "
                "are needed; give more ticks, a smaller lag.max_lag or lag.block"
            )
        parts, norms = _packed_blocks(series, first, block, blocks, lags)
        return self._judge(tuple(one.name for one in series), lags, parts / norms[:, None, None], ticks)

    def _grid(self, series: list[TickSeries]) -> tuple[float, float]:
        """Step and longest lag in seconds; refuses stamps of two resolutions where no step is given."""
        resolutions = {one.name: one.resolution / SECOND for one in series}
        coarse, fine = max(resolutions, key=resolutions.__getitem__), min(resolutions, key=resolutions.__getitem__)
        if self.step is None and resolutions[coarse] >= 10 * resolutions[fine] and resolutions[coarse] >= 1e-3:
            raise DataError(
                f"{coarse} is stamped every {resolutions[coarse]:g} s and {fine} every {resolutions[fine]:g} s; give "
                f"lag.step={resolutions[coarse]:g}, since a delay below the coarser stamp cannot be told"
            )
        gaps = [one.usual_gap / SECOND for one in series]
        unit = resolutions[coarse]
        # A grid finer than the ticks holds mostly prices that stand still, which relate to nothing (Epps 1979).
        usual = max(gaps) if self.method == "previous_tick" else min(gaps) / 5
        step = self.step or max(unit, unit * round(usual / unit))
        return step, self.max_lag or max(step * round(GAPS * max(gaps) / step), 10 * step)

    def _judge(self, names: tuple[str, ...], lags: Array, parts: Array, ticks: Mapping[str, TickSeries]) -> TickFinding:
        """Correlations, p-values and intervals from the blocks' parts (pair, block, lag)."""
        rng = np.random.default_rng(self.seed)
        pairs, blocks, _ = parts.shape
        rho, error = parts.sum(axis=1), np.sqrt((parts**2).sum(axis=1))
        size = np.abs(rho) / np.where(error > 0, error, np.inf)
        signs = rng.integers(0, 2, (self.draws, blocks)) * 2.0 - 1.0
        drawn_blocks = rng.multinomial(blocks, np.full(blocks, 1 / blocks), self.draws).astype(np.float64)
        above, largest = np.zeros(rho.shape), np.zeros((self.draws, pairs))
        low, high = np.empty(pairs), np.empty(pairs)
        for pair in range(pairs):
            scale = np.where(error[pair] > 0, error[pair], np.inf)
            flipped = np.abs(signs @ (parts[pair] / scale))
            above[pair] = (flipped >= size[pair]).sum(axis=0)
            largest[:, pair] = flipped.max(axis=1)
            peaks = lags[np.abs(drawn_blocks @ parts[pair]).argmax(axis=1)]
            low[pair], high[pair] = np.quantile(peaks, [self.level / 2, 1 - self.level / 2])
        if self.method == "previous_tick":  # when within its bar a price was made is not known
            low, high = low - (lags[1] - lags[0]), high + (lags[1] - lags[0])
        most = np.sort(largest.max(axis=1))
        family = (1 + self.draws - np.searchsorted(most, size.max(axis=1), side="left")) / (1 + self.draws)
        return TickFinding(self, names, lags, rho, (1 + above) / (1 + self.draws), family, low, high, dict(ticks))


@dataclass(frozen=True, eq=False)
class TickFinding:
    """All pairs i < j of `names`, in order; a positive lag says that i leads j.

    rho        (pair, lag) correlation                   p_values    (pair, lag) of each lag by itself
    family_p   (pair,) of the largest over all lags and pairs
    low, high  (pair,) interval of the lag of the peak
    """

    study: TickStudy
    names: tuple[str, ...]
    lags: Array
    rho: Array
    p_values: Array
    family_p: Array
    low: Array
    high: Array
    ticks: dict[str, TickSeries]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Names of each pair."""
        return [(a, b) for place, a in enumerate(self.names) for b in self.names[place + 1 :]]

    @property
    def resolution(self) -> float:
        """Seconds below which no delay can be told: the coarsest stamps."""
        return max(one.resolution for one in self.ticks.values()) / SECOND

    def table(self) -> pd.DataFrame:
        """One row a pair, the leader first: delay in seconds with its interval, correlation, p-value, ratio, verdict.

        `ratio` is Σρ² over the leader's lags by that over the follower's. A lead needs a p-value within the level and
        an interval that stays clear of zero by the resolution of the stamps.
        """
        rows = []
        ahead, behind = ((self.rho[:, side] ** 2).sum(axis=1) for side in (self.lags > 0, self.lags < 0))
        for k, (first, second) in enumerate(self.pairs):
            peak = int(np.abs(self.rho[k]).argmax())
            lag, low, high = self.lags[peak], self.low[k], self.high[k]
            ratio = ahead[k] / behind[k] if behind[k] > 0 else np.inf
            if lag < 0:
                first, second, lag, low, high, ratio = second, first, -lag, -high, -low, 1 / ratio if ratio else np.inf
            is_related = bool(self.family_p[k] <= self.study.level)
            leads = is_related and low >= self.resolution
            rows.append(
                {
                    "leader": first,
                    "follower": second,
                    "delay": lag,
                    "low": low,
                    "high": high,
                    "correlation": self.rho[k, peak],
                    "p_value": self.family_p[k],
                    "ratio": ratio,
                    "verdict": "leads" if leads else "at once" if is_related else "–",
                }
            )
        return pd.DataFrame(rows).sort_values("p_value", kind="stable", ignore_index=True)

    def at_lags(self) -> pd.DataFrame:
        """Correlation and p-value of every pair at every lag."""
        parts = [
            pd.DataFrame({"first": a, "second": b, "lag": self.lags, "correlation": self.rho[k], "p_value": p})
            for k, ((a, b), p) in enumerate(zip(self.pairs, self.p_values, strict=True))
        ]
        return pd.concat(parts, ignore_index=True)

    @property
    def notes(self) -> list[str]:
        """What a delay means here: ticks, resolution of the stamps, and latency."""
        counts = ", ".join(f"{name} {len(one.times):,}" for name, one in self.ticks.items())
        return [
            f"ticks with stamps of their own: {counts}",
            f"stamps are {self.resolution:g} s apart at least: a shorter delay cannot be told",
            "the latency of a source that reports late is part of its delay; take a known one off by data.latency",
        ]


def _on_grid(one: TickSeries, grid: Array) -> TickSeries:
    """The last price at each moment of the grid."""
    return TickSeries(one.name, grid, one.prices[np.searchsorted(one.times, grid, side="right") - 1])


def _packed_blocks(series: list[TickSeries], first: int, block: float, blocks: int, lags: Array) -> tuple[Array, Array]:
    """(pair, block, lag) parts of U in log prices, and the (pair,) products of the lengths of both series."""
    times = np.concatenate([(one.times - first) / SECOND for one in series])
    values = np.concatenate([np.log(one.prices) for one in series])
    offsets = np.cumsum([0, *(len(one.times) for one in series)])
    lengths = np.sqrt([(np.diff(np.log(one.prices)) ** 2).sum() for one in series])
    i, j = np.triu_indices(len(series), 1)
    norms = lengths[i] * lengths[j]
    if not (norms > 0).all():
        still = series[int(np.argmin(lengths))].name
        raise DataError(f"the price of {still} never changes; leave it out")
    return _block_contrasts(times, values, offsets, i, j, lags, block, blocks), norms


@njit(parallel=True, cache=True)
def _block_contrasts(
    times: Array, values: Array, offsets: Array, i: Array, j: Array, lags: Array, block: float, blocks: int
) -> Array:
    """Parts of U(lag) by the block in which the first series' interval ends; the merge of `estimators.ticks`."""
    parts = np.zeros((i.size, blocks, lags.size))
    for work in prange(i.size * lags.size):
        pair, k = work // lags.size, work % lags.size
        a, b = offsets[i[pair]], offsets[i[pair] + 1]
        c, d = offsets[j[pair]], offsets[j[pair] + 1]
        first, last = c + 1, c
        for t in range(a + 1, b):
            while first < d and times[first] - lags[k] <= times[t - 1]:
                first += 1
            while last + 1 < d and times[last] - lags[k] < times[t]:
                last += 1
            if first <= last:
                place = min(max(int(times[t] / block), 0), blocks - 1)
                parts[pair, place, k] += (values[t] - values[t - 1]) * (values[last] - values[first - 1])
    return parts
