"""From a lead–lag matrix to who leads: scores, ranks, and how long leaders stay leaders.

Every function takes one matrix (N, N) or a stack (…, N, N) with S[i, j] > 0 where i leads j; an asset whose row is
NaN was not observed and gets NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from pacesetter.arrays import Array, Booleans, Floats
from pacesetter.errors import ConfigError, check_range
from pacesetter.leadlag.observed import mean_observed, observed_assets, ratio
from pacesetter.registry import Registry

__all__ = [
    "RANKINGS",
    "mark_leaders",
    "rank_autocorrelation",
    "ranks",
    "row_mean",
    "serial_rank",
]

RANKINGS: Registry[Callable[[Array], Array]] = Registry("ranking")


@RANKINGS.register("row_mean")
def row_mean(matrices: Array) -> Floats:
    """(…, N) mean lead of each asset over the other observed ones; higher leads more."""
    return ratio(np.nansum(matrices, axis=-1), np.isfinite(matrices).sum(axis=-1) - 1)  # less the zero diagonal


@RANKINGS.register("serial_rank")
def serial_rank(matrices: Array) -> Array:
    """(…, N) SerialRank score (Fogel, d'Aspremont, Vojnovic): the Fiedler vector of ½(n·11ᵀ + CCᵀ), C = sign S.

    Only the signs of S count. The vector's free sign is set so that leaders are high, as in `row_mean`.
    """
    matrices = np.asarray(matrices, dtype=np.float64)
    stack = matrices.reshape(-1, *matrices.shape[-2:])
    scores = np.full(stack.shape[:2], np.nan)
    for score, matrix, observed in zip(scores, stack, observed_assets(stack), strict=True):
        if observed.sum() > 1:
            score[observed] = _fiedler(np.nan_to_num(matrix[np.ix_(observed, observed)]))
    return scores.reshape(matrices.shape[:-1])


def _fiedler(matrix: Array) -> Array:
    signs = np.sign(matrix) + np.eye(len(matrix))  # an asset compares equal to itself with +1, as in the paper
    similarity = (len(matrix) + signs @ signs.T) / 2
    laplacian = np.diag(similarity.sum(axis=1)) - similarity
    # The smallest eigenvalue belongs to the constant vector; Fiedler's is the next.
    vector: Array = np.linalg.eigh(laplacian)[1][:, 1]
    return vector if vector @ signs.sum(axis=1) >= 0 else -vector


def ranks(scores: Floats) -> Floats:
    """(…, N) ranks, 1 for the strongest leader; ties share their mean rank, NaN stays NaN."""
    scores = np.asarray(scores, dtype=np.float64)
    # Not by scipy.stats, which takes a second to import.
    ranked: Array = pd.DataFrame(-scores.reshape(-1, scores.shape[-1])).rank(axis=1).to_numpy()
    return ranked.reshape(scores.shape)


def mark_leaders(scores: Floats, quantile: float) -> Booleans:
    """(…, N) True for the top `quantile` of the observed assets, at least one where any is observed."""
    if not 0 < quantile <= 0.5:
        raise ConfigError(f"quantile={quantile} must be in (0, 0.5], e.g. 0.2 for the top fifth")
    count = np.isfinite(scores).sum(axis=-1, keepdims=True)
    order = np.argsort(np.argsort(-np.asarray(scores), axis=-1, kind="stable"), axis=-1)  # NaN sorts last
    top: Array = order < np.where(count > 1, np.maximum(np.floor(quantile * count), 1), 0)
    return top


def rank_autocorrelation(scores: Floats, lag: int = 1) -> Floats:
    """(windows − lag,) Spearman correlation of the ranking (windows, N) with itself `lag` windows before.

    Assets seen in both windows count; NaN where fewer than two are, or all tie.
    """
    scores = np.asarray(scores)
    check_range(1, len(scores) - 1, lag=lag)
    before, after = scores[:-lag], scores[lag:]
    both = np.isfinite(before) & np.isfinite(after)
    first, second = (_centre_rows(ranks(np.where(both, part, np.nan))) for part in (before, after))
    return ratio((first * second).sum(axis=-1), np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1)))


def _centre_rows(values: Floats) -> Floats:
    """Rows less their mean over observed entries, zero where unobserved."""
    centred: Array = np.nan_to_num(values - mean_observed(values, axis=-1)[..., None])
    return centred
