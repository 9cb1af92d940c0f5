"""Dependence of x_i(t−lag) on x_j(t) for all pairs at once: each function gives one (symbol, symbol) matrix per lag.

All read the increments of one window (time, symbol) and compare its rows 0 … n−lag−1 with its rows lag … n−1, so that
a matrix agrees with pandas' `x_i.shift(lag).corr(x_j)` on the window. A part without variance depends on nothing: 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit
from pacesetter.leadlag.estimators.information import lagged_information
from pacesetter.leadlag.series import CONSTANT

__all__ = ["DEPENDENCES", "Dependence", "Inner", "distance", "kendall", "pearson", "squared_pearson"]

Dependence = Callable[[Array, Iterable[int]], Iterator[Array]]
Inner = Literal["pearson", "squared", "kendall", "distance", "mutual_information"]

BLOCK_NUMBERS = 4_000_000  # how many (time, time, symbol) numbers are in memory at once


def pearson(window: Array, lags: Iterable[int]) -> Iterator[Array]:
    """Pearson correlation over the overlap, by one matrix product per lag."""
    for lag in lags:
        yield _standardise(window[: len(window) - lag]).T @ _standardise(window[lag:])


def squared_pearson(window: Array, lags: Iterable[int]) -> Iterator[Array]:
    """Squared Pearson correlation."""
    return (correlation**2 for correlation in pearson(window, lags))


def kendall(window: Array, lags: Iterable[int]) -> Iterator[Array]:
    """Kendall's τ_b: the cosine between signs of differences over all pairs of times; ties count in its norm."""
    for lag in lags:
        yield _cosine(_signs, window[: len(window) - lag], window[lag:])


def distance(window: Array, lags: Iterable[int]) -> Iterator[Array]:
    """Distance correlation: the root of the cosine between double-centred distances over all pairs of times."""
    for lag in lags:
        # Never negative in theory; rounding can take a tiny one below 0.
        yield np.sqrt(np.maximum(_cosine(_distances, window[: len(window) - lag], window[lag:]), 0.0))


@njit(cache=True)
def _standardise(part: Array) -> Array:
    """(time, symbol) centred and of unit length, zero where constant."""
    bars, symbols = part.shape
    out = np.empty((bars, symbols))
    mean, square, raw = np.zeros((3, symbols))
    for t in range(bars):
        for i in range(symbols):
            mean[i] += part[t, i]
            raw[i] += part[t, i] * part[t, i]
    mean /= bars
    for t in range(bars):
        for i in range(symbols):
            out[t, i] = part[t, i] - mean[i]
            square[i] += out[t, i] * out[t, i]
    for i in range(symbols):
        square[i] = 1.0 / np.sqrt(square[i]) if square[i] > CONSTANT * raw[i] else 0.0
    for t in range(bars):
        for i in range(symbols):
            out[t, i] *= square[i]
    return out


def _signs(part: Array) -> Callable[[slice], Array]:
    return lambda rows: np.sign(part[rows, None] - part)


def _distances(part: Array) -> Callable[[slice], Array]:
    # Double centring (Székely, Rizzo and Bakirov 2007): less row and column means, plus the overall mean.
    means = np.concatenate([np.abs(part[rows, None] - part).mean(axis=1) for rows in _blocks(part)])
    overall = means.mean(axis=0)
    return lambda rows: np.abs(part[rows, None] - part) - means[rows, None] - means + overall


def _cosine(kernel: Callable[[Array], Callable[[slice], Array]], lead: Array, follow: Array) -> Array:
    """Σ_uv K_i K_j / √(Σ K_i² Σ K_j²) for a kernel K(u, v) over pairs of times, summed in blocks of rows u."""
    symbols = lead.shape[1]
    product, lead_square, follow_square = np.zeros((symbols, symbols)), np.zeros(symbols), np.zeros(symbols)
    lead_kernel, follow_kernel = kernel(lead), kernel(follow)
    for rows in _blocks(lead):
        a, b = (part(rows).reshape(-1, symbols) for part in (lead_kernel, follow_kernel))
        product += a.T @ b
        lead_square += np.einsum("ti,ti->i", a, a)
        follow_square += np.einsum("ti,ti->i", b, b)
    norm = np.sqrt(np.outer(lead_square, follow_square))
    return np.divide(product, norm, out=np.zeros_like(product), where=norm > 0)


def _blocks(part: Array) -> Iterator[slice]:
    # The kernel of all pairs of times is quadratic in the window, so it never exists as a whole.
    step = max(1, BLOCK_NUMBERS // part.size)
    return (slice(row, row + step) for row in range(0, len(part), step))


DEPENDENCES: dict[str, Dependence] = {
    "pearson": pearson,
    "squared": squared_pearson,
    "kendall": kendall,
    "distance": distance,
    "mutual_information": lagged_information,
}
