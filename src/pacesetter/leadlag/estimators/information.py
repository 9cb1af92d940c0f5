"""Mutual information and transfer entropy between binned increments, in nats: all pairs by products of one-hot codes.

Each asset is cut at the quantiles of its own increments in the window (quartiles by default). Cells hold counts c, so
an entropy is log m − Σ c log c / m, and c log c is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from pacesetter.arrays import Array

__all__ = ["lagged_information", "lagged_transfer", "quantile_bins"]


def quantile_bins(window: Array, bins: int) -> Array:
    """(time, symbol) bin 0 … bins−1 of each increment among those of its asset; equal values share a bin."""
    edges = np.quantile(window, np.arange(1, bins) / bins, axis=0)
    return np.asarray((window[None] > edges[:, None]).sum(axis=0))


def lagged_information(window: Array, lags: Iterable[int], bins: int = 4) -> Iterator[Array]:
    """I(x_i(t−lag); x_j(t)) over one window (time, symbol), one (symbol, symbol) matrix per lag."""
    codes = _one_hot(quantile_bins(window, bins), bins)
    weigh = _count_entropy(len(window))
    for lag in lags:
        lead, follow = codes[: len(codes) - lag], codes[lag:]
        joint, m = _joint_sums(lead, follow, weigh), len(lead)
        own = [weigh[part.sum(axis=0).astype(np.intp)].sum(axis=1) for part in (lead, follow)]
        # H(x) + H(y) − H(x, y): of three log m one is left. Rounding may take it below 0.
        yield np.maximum(np.log(m) + (joint - own[0][:, None] - own[1]) / m, 0.0)


def lagged_transfer(window: Array, lags: Iterable[int], bins: int = 3) -> Iterator[Array]:
    """I(x_i(t−lag); x_j(t) | x_j(t−1)) over one window (time, symbol), one (symbol, symbol) matrix per lag."""
    labels = quantile_bins(window, bins)
    codes, weigh = _one_hot(labels, bins), _count_entropy(len(window))
    for lag in lags:
        past, source = codes[lag - 1 : -1], codes[: len(codes) - lag]
        # x_j(t) and x_j(t−1) as one label: pairwise products then count triples.
        both = _one_hot(labels[lag:] * bins + labels[lag - 1 : -1], bins * bins)
        alone = [weigh[part.sum(axis=0).astype(np.intp)].sum(axis=1) for part in (past, both)]
        # I(x; y | z) = H(x, z) + H(y, z) − H(x, y, z) − H(z), in which log m cancels.
        given = _joint_sums(source, both, weigh) - _joint_sums(source, past, weigh)
        yield np.maximum((given + alone[0] - alone[1]) / len(source), 0.0)


def _one_hot(labels: Array, bins: int) -> Array:
    """(time, symbol, bin) one where the label is the bin; float32 counts are exact below 2²⁴ rows."""
    return np.asarray(labels[..., None] == np.arange(bins), dtype=np.float32)


def _joint_sums(lead: Array, follow: Array, weigh: Array) -> Array:
    """(symbol, symbol) Σ c log c over the cells of each pair's contingency table."""
    m, symbols, bins = lead.shape
    counts = (lead.reshape(m, -1).T @ follow.reshape(m, -1)).astype(np.intp)
    return np.asarray(weigh[counts].reshape(symbols, bins, symbols, -1).sum(axis=(1, 3)))


def _count_entropy(most: int) -> Array:
    """(most + 1,) c log c of every count."""
    from scipy.special import xlogy  # here: it takes 0.3 s, and every command imports this module

    counts = np.arange(most + 1, dtype=np.float64)
    return np.asarray(xlogy(counts, counts))
