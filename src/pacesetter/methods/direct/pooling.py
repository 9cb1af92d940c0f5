"""One answer for all symbols: weights that are shared, so that a hundred symbols are a hundred times the data.

Two kinds of inputs mean the same to every symbol: its own (lags, features), and what everybody sees (any leader's
lags, the market's). With c_k a weight of all symbols for their own input k, and d_i one of all for the input i:

    d   sparse weights of the mean return of the symbols over all inputs
    c   least squares of what is left of every symbol's return over its own inputs, all symbols in one sum

Each symbol's own sparse weights are then fitted to what a `share` of these leaves over: deviations from the common
answer, shrunk towards it. Symbols that are not listed at a bar take no part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.methods.direct.sparse import LEAST_SURE, Sparse, blocks_of, fit_sparse, purged_rows, signal_utility

__all__ = ["SHARES", "common_weights", "fit_pooled"]

SHARES = (0.5, 1.0)  # of the common answer that deviations are fitted beside
RIDGE = 1e-3


def fit_pooled(x: Array, y: Array, own: Array, fit: Callable[..., Sparse], **options: Any) -> Sparse | None:
    """The sparse weights beside the share of the common answer that is best on held-out blocks; None where it has none.

    x, y   inputs (bar, p) and returns (bar, symbol), 0 where not listed
    own    (k, symbol) places of the inputs that are of a symbol itself
    fit    sparse weights beside those `given`: of all bars, and without each block
    """
    common = common_weights(x, y, own, **options)
    blocks = blocks_of(len(x), len(common) - 1)
    held_out = np.concatenate([x[block] @ each for block, each in zip(blocks, common[1:], strict=True)])
    if signal_utility(held_out, y)[1] < LEAST_SURE:
        return None
    fits = [fit(given=[share * each for each in common]) for share in SHARES]
    return max(fits, key=lambda each: each.utility)


def common_weights(x: Array, y: Array, own: Array, *, folds: int, purge_bars: int) -> list[Array]:
    """[(input, symbol)] the weights that all symbols share: of all bars, then without each block."""
    count, listed = y.shape[1], y != 0
    mean = y.sum(1, keepdims=True) / np.maximum(listed.sum(1, keepdims=True), 1)
    spread = max(float(mean.std()), 1e-9)
    # In units of its own deviation: penalties are those of returns of variance 1.
    average = fit_sparse(x, mean / spread, folds=folds, purge_bars=purge_bars)
    kept = [slice(0, 0), *(purged_rows(block, purge_bars) for block in blocks_of(len(x), folds))]
    made = []
    for left_out, weights in zip(kept, (average.weights, *average.without), strict=True):
        shared = np.repeat(weights * spread, count, axis=1)
        weights = _own_weights(x[:, own] * listed[:, None], (y - x @ shared) * listed, left_out)
        shared[own, np.arange(count)] += weights[:, None]
        made.append(shared)
    return made


def _own_weights(own: Array, rest: Array, left_out: slice) -> Array:
    """(k,) least squares of what is left of returns (bar, symbol) over own inputs (bar, k, symbol), if sure."""
    count = own.shape[1]
    products, response = (np.einsum("tkj,t...j->tk...", own, other) for other in (own, rest))
    products, response = (np.delete(part, left_out, axis=0) for part in (products, response))
    system = products.sum(0) + RIDGE * np.trace(products.sum(0)) * np.eye(count) / count
    weights = np.linalg.solve(system, response.sum(0))
    # By the spread over bars, since symbols of one bar are correlated.
    error = np.linalg.solve(system, (response - products @ weights).T)
    deviation = np.sqrt((error**2).sum(1))
    return np.where(np.abs(weights) > LEAST_SURE * deviation, weights, 0.0)
