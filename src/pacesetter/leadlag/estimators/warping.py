"""`dtw`: dynamic time warping, by how many bars one series is stretched behind the other.

The path through the window that pairs the standardised increments of i and j with the least squared difference may step
ahead in one of them, up to `max_lag` bars (Sakoe and Chiba 1978). Its mean offset, in units of `max_lag`, is the score:
positive where j's bars are paired with earlier ones of i, so that i leads. The delay may change inside the window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit, prange
from pacesetter.errors import check_range
from pacesetter.leadlag.estimators.estimator import Estimator, Resources, Scorer, WindowScorer
from pacesetter.leadlag.series import Series

__all__ = ["DynamicTimeWarping", "WarpedWindows"]

AHEAD, BOTH, BEHIND = 1, 0, -1  # the step by which the path came: in j alone, in both, in i alone


@dataclass(frozen=True)
class DynamicTimeWarping(Estimator):
    """Mean offset of the warping path, over max_lag: (1/|path|) Σ (place in j − place in i) / max_lag."""

    max_lag: int = 5

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of paths that stay within max_lag bars of the diagonal."""
        resources.refuse_backends("dtw")
        check_range(1, owner="lag", max_lag=self.max_lag)
        return WarpedWindows(series, self.max_lag)


class WarpedWindows(WindowScorer):
    """Warping paths of one window at a time."""

    def __init__(self, series: Series, max_lag: int) -> None:
        self.series, self.max_lag = series, max_lag

    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) for one window."""
        out[:] = self.lags(end, lookback) / self.max_lag

    def lags(self, end: int, lookback: int) -> Array:
        """(symbol, symbol) mean offset in bars: positive where i leads j, NaN where not scored."""
        weights = self.series.weights(end, lookback)
        window = self.series.window(end, lookback)
        z = np.ascontiguousarray(((window - window.mean(axis=0)) * np.nan_to_num(weights)).T)
        return _mean_offsets(z, min(self.max_lag, lookback - 1)) + 0.0 * np.add.outer(weights, weights)


@njit(parallel=True, cache=True)
def _mean_offsets(z: Array, band: int) -> Array:
    """(symbol, symbol) mean offset of the paths of all pairs of rows (symbol, time)."""
    symbols = z.shape[0]
    out = np.zeros((symbols, symbols))
    for i in prange(symbols):
        for j in range(i + 1, symbols):
            out[i, j] = _mean_offset(z[i], z[j], band)
    for i in range(symbols):
        for j in range(i):
            out[i, j] = -out[j, i]
    return out


@njit(cache=True)
def _mean_offset(x: Array, y: Array, band: int) -> float:
    """Mean of (place in y − place in x) over the path of least cost; column k of a row t is the place t + k − band."""
    bars, width = x.size, 2 * band + 1
    cost, came = np.full(width + 1, np.inf), np.zeros((bars, width), np.int8)
    for t in range(bars):
        left = np.inf
        for k in range(width):
            place = t + k - band
            if place < 0 or place >= bars:
                cost[k] = left = np.inf
                continue
            # In the row before, the diagonal neighbour is in the same column and the one above in the next.
            both, above = cost[k], cost[k + 1]
            if t == 0 and place == 0:
                both = 0.0
            best, step = both, BOTH
            if left < best:
                best, step = left, AHEAD
            if above < best:
                best, step = above, BEHIND
            left = best + (x[t] - y[place]) ** 2
            cost[k], came[t, k] = left, step
    t, k, total, count = bars - 1, band, 0.0, 0
    while True:
        total += k - band
        count += 1
        if t == 0 and k == band:
            return total / count
        step = came[t, k]
        if step == AHEAD:
            k -= 1
        elif step == BEHIND:
            t -= 1
            k += 1
        else:
            t -= 1
