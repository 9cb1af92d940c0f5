"""Drifts: mean returns as weights that no penalty touches, where it is sure that there are any.

A penalty on the constant input takes a part of every drift and all of most: one of 0.05 of a bar's volatility is no
more than two standard errors in 1,800 bars, while those of ten symbols together are beyond doubt. Here every symbol has
its own mean, shrunk towards that of all (James and Stein 1961, Lindley's centre):

    d_j = m + (1 − (n − 3) / (T · Σ (m_j − m)²))₊ · (m_j − m)        n symbols, T bars, m_j means in units of volatility

Sparse weights are then fitted to what drifts leave over. They are used where they alone, estimated without a block of
bars, pay on it by `discovery.LEAST_GAIN` standard errors: else nothing is changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacesetter.arrays import Array
from pacesetter.methods.direct.discovery import gain
from pacesetter.methods.direct.sparse import blocks_of, purged_rows

__all__ = ["Drift", "fit_drift", "shrunk_means"]


class Drift(NamedTuple):
    """Drifts in units of volatility.

    mean (symbol,) of all bars        without   of all bars but each block        said   (bar, symbol) without its block
    sure      standard errors by which they alone raise the utility on held-out blocks
    """

    mean: Array
    without: list[Array]
    said: Array
    sure: float


def shrunk_means(y: Array) -> Array:
    """(symbol,) means of returns (bar, symbol) of unit variance, shrunk towards the mean of all."""
    mean, count = y.mean(0), y.shape[1]
    apart = mean - mean.mean()
    noise = max(count - 3, 0) / len(y)
    kept = max(1 - noise / max(float((apart**2).sum()), 1e-12), 0.0)
    shrunk: Array = mean.mean() + kept * apart
    return shrunk


def fit_drift(y: Array, *, folds: int, purge_bars: int) -> Drift:
    """Drifts of returns (bar, symbol) in units of volatility."""
    said, without = np.zeros_like(y), []
    for block in blocks_of(len(y), folds):
        kept = np.ones(len(y), dtype=bool)
        kept[purged_rows(block, purge_bars)] = False
        without.append(shrunk_means(y[kept]))
        said[block] = without[-1]
    return Drift(shrunk_means(y), without, said, gain(np.zeros_like(y), said, y))
