"""Lévy areas: `levy_path`, of the cumulated path, and `levy_returns`, of the returns themselves. Two estimators.

The area of a curve Y between bars s and e is ½ Σ_{s<u≤e} (Y_i(u−1) − Y_i(s)) ΔY_j(u) − (i ↔ j). Running areas A from
the first bar give it as A(e) − A(s) − ½ (Y_i(s) G_j − Y_j(s) G_i), G = Y(e) − Y(s), whatever the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit, prange
from pacesetter.leadlag.estimators.estimator import Estimator, Resources, Scorer, WindowScorer
from pacesetter.leadlag.series import Series, inverse_deviations

__all__ = ["AreaGemm", "AreaTable", "LevyPath", "LevyReturns"]


@dataclass(frozen=True)
class LevyPath(Estimator):
    """Area of the cumulated paths, each over the deviation of its increments: the sum over all lags."""

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of the area from bar end−lookback to bar end."""
        return _area_scorer("levy_path", series, series.path, 0, resources)


@dataclass(frozen=True)
class LevyReturns(Estimator):
    """Area of the standardised returns taken as a path: lag-1 antisymmetric covariance less a boundary term."""

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of the area from the first increment of the window to its last; an area needs no mean removed."""
        return _area_scorer("levy_returns", series, series.x, 1, resources)


def _area_scorer(method: str, series: Series, curve: Array, offset: int, resources: Resources) -> Scorer:
    bars, symbols = curve.shape
    # Areas are antisymmetric, so the table holds the pairs i < j only.
    backend = resources.choose(method, bars * symbols * (symbols - 1) // 2 * 8)
    if backend == "table":
        return AreaTable(series, curve, offset)
    if backend == "gemm":
        return AreaGemm(series, curve, offset)
    from pacesetter.leadlag.estimators.torch_backend import TorchArea

    return TorchArea(series, curve, offset, resources)


class AreaTable(Scorer):
    """Areas from a table of running areas (time, pair i < j): two look-ups a pair."""

    batched: ClassVar[bool] = True
    backend = "table"

    def __init__(self, series: Series, curve: Array, offset: int) -> None:
        self.areas = _running_areas(curve)
        self.table_bytes = int(self.areas.nbytes)
        self._arguments = (self.areas, curve, series.totals, offset, series.minimum)

    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) for one window."""
        _area_window(*self._arguments, end, lookback, out)

    def score_many(self, ends: Array, lookbacks: Array, out: Array) -> None:
        """Fill `out` (window, symbol, symbol), windows in parallel."""
        _area_windows(*self._arguments, ends, lookbacks, out)


class AreaGemm(WindowScorer):
    """Areas by one matrix product a window."""

    def __init__(self, series: Series, curve: Array, offset: int) -> None:
        self.series, self.curve, self.offset = series, curve, offset

    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) for one window."""
        # `offset` is 0 for a path, which has one point more than it has returns, and 1 for the returns themselves.
        window = self.curve[end - lookback + self.offset : end + 1]
        second = (window[:-1] - window[0]).T @ np.diff(window, axis=0)
        weights = self.series.weights(end, lookback)
        out[:] = 0.5 * (second - second.T) * np.outer(weights, weights)


@njit(parallel=True, cache=True)
def _running_areas(curve: Array) -> Array:
    """(time, pair) Σ_{u≤t} ½ (Y_i(u−1) ΔY_j(u) − Y_j(u−1) ΔY_i(u)) for i < j, row after row of the upper triangle."""
    bars, symbols = curve.shape
    areas = np.zeros((bars, symbols * (symbols - 1) // 2))
    for i in prange(symbols - 1):  # rows write to separate columns of the table, so threads never meet
        pair = i * symbols - i * (i + 3) // 2 - 1  # where row i would have its column 0
        for t in range(1, bars):
            lead, step = curve[t - 1, i], curve[t, i] - curve[t - 1, i]
            for j in range(i + 1, symbols):
                follow = curve[t, j] - curve[t - 1, j]
                areas[t, pair + j] = areas[t - 1, pair + j] + 0.5 * (lead * follow - curve[t - 1, j] * step)
    return areas


@njit(cache=True)
def _area_window(
    areas: Array, curve: Array, totals: Array, offset: int, minimum: int, end: int, lookback: int, out: Array
) -> None:
    symbols = curve.shape[1]
    start = end - lookback + offset
    weights = np.empty(symbols)
    inverse_deviations(totals, end, lookback, minimum, weights)
    # Areas of the table start at the first bar of all; this term moves their origin to the window's first bar.
    base, gain = 0.5 * curve[start] * weights, (curve[end] - curve[start]) * weights
    begin, until = areas[start], areas[end]
    pair = 0
    for i in range(symbols):
        later = slice(i + 1, symbols)
        row, weight, gains, bases = out[i, later], weights[later], gain[later], base[later]
        for k in range(row.size):
            area = (until[pair + k] - begin[pair + k]) * weights[i] * weight[k]
            row[k] = area - (base[i] * gains[k] - bases[k] * gain[i])
        pair += row.size
        out[i, i] = 0.0 * weights[i]  # NaN for an asset that is not scored, as in its whole row
        for j in range(i):  # mirrored row by row, while the column is still in the cache
            out[i, j] = -out[j, i]


@njit(parallel=True, cache=True)
def _area_windows(
    areas: Array, curve: Array, totals: Array, offset: int, minimum: int, ends: Array, lookbacks: Array, out: Array
) -> None:
    for k in prange(ends.size):
        _area_window(areas, curve, totals, offset, minimum, ends[k], lookbacks[k], out[k])
