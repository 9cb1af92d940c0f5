"""Lead–lag of ticks: Hayashi–Yoshida correlations of all pairs at every lag, their chance, and intervals for delays.

The lagged covariance U(θ) is a sum over blocks of time, U = Σ_b U_b. For the null the second series is shifted: a draw
compares each block of the first with the second as it was another whole number of blocks later, around the end of the
day where need be. Each series keeps its own clock, volatility and autocorrelation; what they did at the same time is
gone. The statistic is |Σ U_b| / √Σ U_b², of the data and of each draw, since hours of high volatility that coincide in
the data do not in a draw. Its largest over all lags and pairs is compared. Drawing blocks with replacement gives the
interval of the lag at which |U| peaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.compiled import njit, prange
from pacesetter.data.ticks import TickSeries
from pacesetter.errors import ConfigError, DataError, check_range

__all__ = ["TickFinding", "TickStudy"]

SECOND = 10**9  # nanoseconds
GAPS = 20  # mean gaps of the slowest series that the longest lag spans, where none is given
BLOCK_LAGS, FEWEST_BLOCKS = 5, 20  # longest lags in a block of time; blocks that are needed
MOST_SHIFTS = 24  # distances in blocks that a draw chooses from, each block for itself: 24^20 draws or more
MOST_LAGS = 5000


@dataclass(frozen=True)
class TickStudy:
    """How ticks are compared; times in seconds.

    method    `hayashi_yoshida`: the ticks as they are; `previous_tick`: lagged correlations of the last price on a grid
    max_lag   longest lag, tried both ways; 20 mean gaps of the slowest series when left out
    step      between lags; the resolution of the stamps, or a fifth of the shortest mean gap, when left out; for
              `previous_tick` also the grid, and then the longest mean gap
    block     length of the blocks of time that are shifted; 5 longest lags when left out
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
        for name, value in (("max_lag", self.max_lag), ("step", self.step), ("block", self.block)):
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
        packed = _pack(series, first)
        return self._judge(tuple(one.name for one in series), lags, packed, block, blocks, ticks)

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

    def _judge(
        self,
        names: tuple[str, ...],
        lags: Array,
        packed: PackedTicks,
        block: float,
        blocks: int,
        ticks: Mapping[str, TickSeries],
    ) -> TickFinding:
        """Correlations, p-values and intervals of all pairs."""
        rng = np.random.default_rng(self.seed)
        shifts = np.unique(np.linspace(1, blocks - 1, min(MOST_SHIFTS, blocks - 1)).astype(np.int64))
        distances = np.concatenate([[0], shifts])
        pairs = np.column_stack(np.triu_indices(len(names), 1))
        rho, p_values = np.empty((2, len(pairs), len(lags)))
        largest, low, high, size = np.empty((self.draws, len(pairs))), *np.empty((3, len(pairs)))
        for pair, (i, j) in enumerate(pairs):
            parts = packed.block_parts(i, j, lags, block, blocks, distances)
            rho[pair] = parts[0].sum(axis=0)
            own = _sizes(rho[pair], (parts[0] ** 2).sum(axis=0))
            drawn = self._shifted_sizes(parts[1:], rng)
            p_values[pair] = (1 + (drawn >= own).sum(axis=0)) / (1 + self.draws)
            size[pair], largest[:, pair] = own.max(), drawn.max(axis=1)
            counts = rng.multinomial(blocks, np.full(blocks, 1 / blocks), self.draws).astype(np.float64)
            peaks = lags[np.abs(counts @ parts[0]).argmax(axis=1)]
            low[pair], high[pair] = np.quantile(peaks, [self.level / 2, 1 - self.level / 2])
        if self.method == "previous_tick":  # when within its bar a price was made is not known
            low, high = low - (lags[1] - lags[0]), high + (lags[1] - lags[0])
        most = np.sort(largest.max(axis=1))
        family = (1 + self.draws - np.searchsorted(most, size, side="left")) / (1 + self.draws)
        return TickFinding(self, names, lags, rho, p_values, family, low, high, dict(ticks))

    def _shifted_sizes(self, parts: Array, rng: np.random.Generator) -> Array:
        """(draw, lag) statistics where each block has one of its parts (shift, block, lag), drawn by itself."""
        shifts, blocks, lags = parts.shape
        chosen = rng.integers(0, shifts, (self.draws, blocks)) * blocks + np.arange(blocks)
        # 0 and 1 for each part: all sums of all draws are one product of matrices.
        picks = np.zeros((self.draws, shifts * blocks))
        np.put_along_axis(picks, chosen, 1.0, axis=1)
        flat = parts.reshape(shifts * blocks, lags)
        return _sizes(picks @ flat, picks @ flat**2)


def _sizes(sums: Array, squares: Array) -> Array:
    """|Σ U_b| / √Σ U_b², 0 where nothing overlaps."""
    return np.asarray(np.abs(sums) / np.sqrt(np.where(squares > 0, squares, np.inf)))


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


@dataclass(frozen=True, eq=False)
class PackedTicks:
    """All series one after another: times in seconds, log prices, where each begins, and its length √ΣΔX²."""

    times: Array
    values: Array
    offsets: Array
    lengths: Array

    def block_parts(self, i: int, j: int, lags: Array, block: float, blocks: int, distances: Array) -> Array:
        """(distance, block, lag) parts of the correlation of i and j, with j taken so many blocks later."""
        (a, b), (c, d) = self.offsets[i : i + 2], self.offsets[j : j + 2]
        parts = _shifted_contrasts(
            self.times[a:b], self.values[a:b], self.times[c:d], self.values[c:d], lags, block, blocks, distances
        )
        return np.asarray(parts / (self.lengths[i] * self.lengths[j]))


def _pack(series: list[TickSeries], first: int) -> PackedTicks:
    times = np.concatenate([(one.times - first) / SECOND for one in series])
    values = np.concatenate([np.log(one.prices) for one in series])
    lengths = np.sqrt([(np.diff(np.log(one.prices)) ** 2).sum() for one in series])
    if not (lengths > 0).all():
        raise DataError(f"the price of {series[int(np.argmin(lengths))].name} never changes; leave it out")
    return PackedTicks(times, values, np.cumsum([0, *(len(one.times) for one in series)]), lengths)


@njit(parallel=True, cache=True)
def _shifted_contrasts(
    times: Array,
    values: Array,
    other_times: Array,
    other_values: Array,
    lags: Array,
    block: float,
    blocks: int,
    distances: Array,
) -> Array:
    """Parts of U(lag) by the block in which the first series' interval ends; the merge of `estimators.ticks`.

    Block b meets the other series around block (b + distance) mod blocks, moved to where b is.
    """
    parts = np.zeros((distances.size, blocks, lags.size))
    for work in prange(distances.size * lags.size):
        shift, k = work // lags.size, work % lags.size
        distance, is_around = distances[shift], False
        ahead = lags[k] + distance * block
        first, last = 1, 0
        for t in range(1, times.size):
            place = min(max(int(times[t] / block), 0), blocks - 1)
            if place + distance >= blocks and not is_around:  # from here on it meets the beginning of the other
                is_around, first, last = True, 1, 0
                ahead -= blocks * block
            while first < other_times.size and other_times[first] - ahead <= times[t - 1]:
                first += 1
            while last + 1 < other_times.size and other_times[last] - ahead < times[t]:
                last += 1
            if first <= last:
                parts[shift, place, k] += (values[t] - values[t - 1]) * (other_values[last] - other_values[first - 1])
    return parts
