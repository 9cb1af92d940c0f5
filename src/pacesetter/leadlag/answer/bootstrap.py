"""Leadership in resampled windows: how often each bar is drawn instead of copies of the bars.

A bar that is drawn brings its own past with it: the product x_i(t−l)·x_j(t) is resampled, not the two series, so that
no product runs across the seam between two blocks. All draws of a delay are then one matrix product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.leadlag.answer.strength import StrengthMeasure, fold_in, weigh_directions
from pacesetter.leadlag.observed import ratio

__all__ = ["Resampled"]

Array = NDArray[Any]
BLOCK_BYTES = 32 * 2**20  # of products in memory at once


class Resampled:
    """Leadership (draw, i, j) by correlations of one window (time, symbol) whose bars are drawn `counts` times."""

    def __init__(self, window: Array, gauge: StrengthMeasure) -> None:
        self.gauge = gauge
        x = np.nan_to_num(window)
        # single precision is plenty for an interval, once all symbols have the same scale
        self.x = (x * np.nan_to_num(ratio(1.0, x.std(axis=0)))).astype(np.float32)
        self.unscored = gauge.mark_unscored(window[None])[0]

    def __call__(self, counts: Array) -> Array:
        """(draw, i, j) leadership for `counts` (draw, time)."""
        counts = counts.astype(np.float32)
        draws, (bars, symbols) = len(counts), self.x.shape
        strength = np.zeros((draws, symbols * symbols), dtype=np.float32)
        for lag in range(1, min(self.gauge.max_lag, bars - 2) + 1):
            fold_in(strength, self._correlations(counts[:, lag:], lag), self.gauge.score_fold)
        folded = strength.reshape(draws, symbols, symbols)
        return np.asarray(weigh_directions(folded, self.gauge.weighing) + self.unscored.astype(np.float32))

    def _correlations(self, weights: Array, lag: int) -> Array:
        """(draw, i·j) correlations at one delay of bars drawn `weights` (draw, time − lag) times."""
        x, symbols = self.x, self.x.shape[1]
        total = np.maximum(weights.sum(axis=1), 1.0)
        products = np.zeros((len(weights), symbols * symbols), dtype=np.float32)
        step = max(BLOCK_BYTES // (4 * symbols * symbols), 1)
        for start in range(0, weights.shape[1], step):
            rows = slice(start, start + step)
            block = x[:-lag][rows, :, None] * x[lag:][rows, None, :]
            products += weights[:, rows] @ block.reshape(-1, symbols * symbols)
        products /= total[:, None]
        lead, lead_scale = _moments(weights, x[:-lag], total)
        follow, follow_scale = _moments(weights, x[lag:], total)
        cube = products.reshape(len(weights), symbols, symbols)
        cube -= lead[:, :, None] * follow[:, None, :]
        cube *= lead_scale[:, :, None]
        cube *= follow_scale[:, None, :]
        return products


def _moments(weights: Array, part: Array, total: Array) -> tuple[Array, Array]:
    """(draw, symbol) mean and 1/deviation of the drawn bars; 0 for the latter where they do not vary."""
    mean = weights @ part / total[:, None]
    variance = weights @ (part * part) / total[:, None] - mean**2
    return mean, np.nan_to_num(np.sqrt(ratio(1.0, np.where(variance > 1e-6, variance, 0.0)))).astype(np.float32)
