"""Hayashi–Yoshida: lead and lag of series that are not observed at the same moments.

U(θ) = Σ ΔX_I ΔY_J over increments with I ∩ (J − θ) ≠ ∅, intervals open on the left; ρ = U / √(ΣΔX² ΣΔY²). X leads Y by
the θ > 0 at which |U| peaks. Merging the two sequences of intervals costs O(n + m) per θ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.compiled import njit, prange
from pacesetter.errors import ConfigError, DataError, check_range
from pacesetter.leadlag.estimators.correlation import RELATIVE, SQUARED_SUM, ScorerByLag, ScoreRecipe
from pacesetter.leadlag.estimators.estimator import Estimator, Resources, Scorer
from pacesetter.leadlag.series import Series

__all__ = ["HayashiYoshida", "TickLeadLag", "TickWindows", "hayashi_yoshida", "tick_lead_lag"]

Ticks = tuple[ArrayLike, ArrayLike]


class TickLeadLag(NamedTuple):
    """Lead–lag of asynchronous series, antisymmetric (symbol, symbol) matrices.

    score  (Σ_{θ>0} ρ² − Σ_{θ<0} ρ²) / (Σ_{θ>0} ρ² + Σ_{θ<0} ρ²), positive where i leads j
    lag    θ of the largest |ρ|, in the unit of the times
    ratio  LLR = Σ_{θ>0} ρ² / Σ_{θ<0} ρ²
    """

    symbols: tuple[str, ...]
    score: Array
    lag: Array
    ratio: Array


def hayashi_yoshida(first: Ticks, second: Ticks, lags: ArrayLike) -> Array:
    """(lag,) correlation ρ(θ) of two tick series (times, values); a peak at θ > 0 says the first leads by θ."""
    times, values, offsets = _pack({"first": first, "second": second})
    grid = np.asarray(lags, dtype=np.float64)
    return np.asarray(_all_pairs(times, values, offsets, grid)[0, 1])


def tick_lead_lag(ticks: Mapping[str, Ticks], lags: ArrayLike) -> TickLeadLag:
    """Lead–lag of all pairs of tick series over positive `lags`, which are tried in both directions and with 0."""
    forward = np.asarray(lags, dtype=np.float64)
    if forward.ndim != 1 or len(forward) == 0 or not (forward > 0).all() or not (np.diff(forward) > 0).all():
        raise ConfigError("lags must be positive and increasing, e.g. range(1, 301); both directions are tried")
    return TickLeadLag(tuple(ticks), *_summary(*_pack(ticks), forward))


def _summary(times: Array, values: Array, offsets: Array, forward: Array) -> tuple[Array, Array, Array]:
    """Score, lag and ratio matrices of packed ticks over the lags −forward, 0, forward."""
    grid = np.concatenate([-forward[::-1], [0.0], forward])
    rho = _all_pairs(times, values, offsets, grid)
    # θ < 0 for (i, j) is θ > 0 for (j, i): the transpose is the other side.
    ahead = (rho[..., len(forward) + 1 :] ** 2).sum(axis=-1)
    behind, total = ahead.T, ahead + ahead.T
    score = np.divide(ahead - behind, total, out=np.zeros_like(ahead), where=total > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = ahead / behind
    lag = grid[np.abs(rho).argmax(axis=-1)]
    upper = np.triu(lag, 1)  # at a tie argmax takes the first of the grid, which is another for the transpose
    return score, upper - upper.T, ratio


def _pack(ticks: Mapping[str, Ticks]) -> tuple[Array, Array, Array]:
    """All times and values one after another, with the offset of each series; refuses what is not a tick series."""
    if len(ticks) < 2:
        raise DataError(f"lead–lag needs at least two tick series, not {len(ticks)}")
    series = [_check_ticks(name, *pair) for name, pair in ticks.items()]
    offsets = np.cumsum([0, *(len(times) for times, _ in series)])
    return np.concatenate([times for times, _ in series]), np.concatenate([values for _, values in series]), offsets


def _check_ticks(name: str, times: ArrayLike, values: ArrayLike) -> tuple[Array, Array]:
    moments, levels = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if moments.ndim != 1 or moments.shape != levels.shape or len(moments) < 2:
        raise DataError(f"ticks of '{name}' need two equally long rows of at least 2 times and values")
    if not (np.diff(moments) > 0).all() or not np.isfinite(levels).all():
        raise DataError(f"ticks of '{name}' must have increasing times and finite values; sort and clean them first")
    return moments, levels


@dataclass(frozen=True)
class HayashiYoshida(Estimator):
    """Hayashi–Yoshida on bars: an asset's ticks are its observed bars, so gaps are spanned and nothing is filled."""

    spans_gaps = True
    max_lag: int = 5

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of lags −max_lag … max_lag in bars."""
        resources.refuse_backends("hayashi_yoshida")
        check_range(1, owner="lag", max_lag=self.max_lag)
        return TickWindows(series, self.max_lag)


class TickWindows(ScorerByLag):
    """Hayashi–Yoshida scores of one window of bars at a time."""

    def __init__(self, series: Series, max_lag: int) -> None:
        self.series, self.forward = series, np.arange(1.0, max_lag + 1)
        self.recipe = ScoreRecipe(max_lag, SQUARED_SUM, RELATIVE)

    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) for one window."""
        out[:] = self._answers(end, lookback)[0]

    def lags(self, end: int, lookback: int) -> Array:
        """(symbol, symbol) lag in bars at the peak of |U|: positive where i leads j, NaN where not scored."""
        return self._answers(end, lookback)[1]

    def correlations(self, end: int, lookback: int) -> Array:
        """(lag, symbol, symbol) ρ(θ) at θ = 1 … max_lag: how x_j(t) goes with x_i(t − θ)."""
        grid = np.concatenate([-self.forward[::-1], [0.0], self.forward])
        rho = _all_pairs(*self._ticks(end, lookback), grid)
        return np.moveaxis(rho[..., len(self.forward) + 1 :], -1, 0)

    def _ticks(self, end: int, lookback: int) -> tuple[Array, Array, Array]:
        """Observed bars of one window as packed ticks."""
        is_known = self.series.is_known[end - lookback : end + 1].T
        columns, bars = np.nonzero(is_known)
        values = self.series.path[end - lookback : end + 1].T[is_known]
        return bars.astype(np.float64), values, np.searchsorted(columns, np.arange(len(is_known) + 1))

    def _answers(self, end: int, lookback: int) -> tuple[Array, Array]:
        """Score and lag matrices of one window, NaN where not scored."""
        score, lag, _ = _summary(*self._ticks(end, lookback), self.forward)
        weights = self.series.weights(end, lookback)
        unscored = 0.0 * np.add.outer(weights, weights)
        return score + unscored, lag + unscored


@njit(parallel=True, cache=True)
def _all_pairs(times: Array, values: Array, offsets: Array, lags: Array) -> Array:
    """(symbol, symbol, lag) ρ of every pair; symmetric lags make the lower triangle the upper one reversed."""
    symbols = offsets.size - 1
    rho = np.zeros((symbols, symbols, lags.size))
    lengths = np.array([_length(values[offsets[i] : offsets[i + 1]]) for i in range(symbols)])
    for i in prange(symbols):
        first = slice(offsets[i], offsets[i + 1])
        for j in range(i + 1, symbols):
            second = slice(offsets[j], offsets[j + 1])
            norm = lengths[i] * lengths[j]
            for k in range(lags.size):
                product = _contrast(times[first], values[first], times[second], values[second], lags[k])
                rho[i, j, k] = rho[j, i, lags.size - 1 - k] = product / norm if norm > 0.0 else 0.0
    return rho


@njit(cache=True)
def _length(values: Array) -> float:
    """√ΣΔX²."""
    square = 0.0
    for k in range(1, values.size):
        square += (values[k] - values[k - 1]) ** 2
    return float(np.sqrt(square))


@njit(cache=True)
def _contrast(times: Array, values: Array, other_times: Array, other_values: Array, lag: float) -> float:
    """U(lag) of two tick series by one merge of their intervals."""
    product = 0.0
    first, last = 1, 0  # the intervals first … last of the other series overlap the current one
    for i in range(1, times.size):
        # Open on the left: an interval that ends where the current one begins does not overlap it.
        while first < other_times.size and other_times[first] - lag <= times[i - 1]:
            first += 1
        while last + 1 < other_times.size and other_times[last] - lag < times[i]:
            last += 1
        # The overlapping intervals are consecutive, so the sum of their increments is one difference.
        if first <= last:
            product += (values[i] - values[i - 1]) * (other_values[last] - other_values[first - 1])
    return product
