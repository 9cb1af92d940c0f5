"""Trailing-window statistics and smoothing along the last axis, compiled.

A running sum would be shorter, but carries the rounding of every bar before: a window is folded lag by lag instead, so
that a server which knows just this window gets the same number. Results are NaN until the first whole window. Kernels
see (bar, symbol), as panels hold them: the innermost loop runs over symbols, side by side in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

__all__ = [
    "change",
    "lagged",
    "ratio",
    "rolling_correlation",
    "rolling_max",
    "rolling_mean",
    "rolling_min",
    "rolling_rank",
    "rolling_std",
    "rolling_sum",
    "run_kernel",
    "smoothed",
]

Array = NDArray[Any]


def lagged(x: Array, bars: int = 1) -> Array:
    """x(t−bars)."""
    values = np.full_like(x, np.nan)
    values[..., bars:] = x[..., : max(x.shape[-1] - bars, 0)]
    return values


def change(x: Array, bars: int = 1) -> Array:
    """x(t) − x(t−bars)."""
    values = np.full_like(x, np.nan)
    values[..., bars:] = x[..., bars:] - x[..., : max(x.shape[-1] - bars, 0)]
    return values


def rolling_sum(x: Array, bars: int) -> Array:
    """Sum over the latest `bars` bars."""
    return run_kernel(_sum, (x,), bars)


def rolling_max(x: Array, bars: int) -> Array:
    """Largest of the latest `bars` bars."""
    return run_kernel(_largest, (x,), bars)


def rolling_min(x: Array, bars: int) -> Array:
    """Smallest of the latest `bars` bars."""
    return -rolling_max(-x, bars)


def rolling_mean(x: Array, bars: int) -> Array:
    """Mean of the latest `bars` bars; exactly x where x stands still."""
    return x + run_kernel(_distances, (x,), bars) / bars


def rolling_std(x: Array, bars: int, ddof: int = 0) -> Array:
    """Standard deviation over the latest `bars` bars; exactly 0 where x stands still."""
    return np.sqrt(_squares(x, bars) / (bars - ddof))


def rolling_correlation(x: Array, y: Array, bars: int) -> Array:
    """Pearson correlation of x and y over the latest `bars` bars; 0 where one of them stands still."""
    scale = np.sqrt(_squares(x, bars)) * np.sqrt(_squares(y, bars))
    return np.clip(ratio(run_kernel(_products, (x, y), bars), scale), -1.0, 1.0)


def rolling_rank(x: Array, bars: int) -> Array:
    """Share of the latest `bars` bars that lie below x(t), a tie counting half; in [0, 1]."""
    return (1 - run_kernel(_signs, (x,), bars) / (bars - 1)) / 2


def smoothed(x: Array, bars: int, weight: float) -> Array:
    """Exponential smoothing that gives the newest bar `weight`, begun by the mean of the first `bars` known values."""
    return run_kernel(_smooth, (x,), bars, weight)


def ratio(numerator: Array, denominator: Array, flat: float = 0.0) -> Array:
    """numerator / denominator, with `flat` where both are 0: nothing moved or traded, so nothing can be compared."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.asarray(numerator / denominator)
    np.copyto(values, flat, where=(numerator == 0) & (denominator == 0))
    return values


def _squares(x: Array, bars: int) -> Array:
    """Σ(x − x̄)² over each window."""
    return np.maximum(run_kernel(_products, (x, x), bars), 0.0)


def run_kernel(kernel: Callable[..., None], inputs: tuple[Array, ...], *options: float) -> Array:
    """What `kernel` writes for (…, bar) inputs, NaN where it writes nothing."""
    columns = [np.require(np.atleast_2d(x).T, np.float64, ("C", "W")) for x in inputs]  # one type, compiled once
    out = np.full_like(columns[0], np.nan)
    kernel(*columns, *options, out)
    return out.T.reshape(inputs[0].shape)


# ---- kernels: (bar, symbol) in, (bar, symbol) out --------------------------------------------------------------------


def _folded(fold: Callable[[float, float, float], float], start: float = 0.0) -> Callable[..., None]:
    """A kernel that folds each whole window from its latest bar back: result so far, a bar, the latest bar."""
    fold = register_jitable(fold)

    @njit(cache=True)
    def kernel(x: Array, bars: int, out: Array) -> None:
        for t in range(bars - 1, len(x)):
            out[t] = start
            for lag in range(bars):
                for k in range(x.shape[1]):
                    out[t, k] = fold(out[t, k], x[t - lag, k], x[t, k])

    return kernel


_sum = _folded(lambda total, past, latest: total + past)
_distances = _folded(lambda total, past, latest: total + (past - latest))  # exact zeros where x stands still
_signs = _folded(lambda total, past, latest: total + np.sign(past - latest))  # bars above less bars below
_largest = _folded(lambda best, past, latest: past if past > best or np.isnan(past) else best, -np.inf)


@njit(cache=True)
def _products(x: Array, y: Array, bars: int, out: Array) -> None:
    """Σ(x − x̄)(y − ȳ) over each window, as Σab − ΣaΣb/n of the distances from the latest bar.

    The latest bar is at most √n deviations from the mean, so this cancels no more than a factor n, unlike Σxy − ΣxΣy/n.
    """
    sums = np.empty((3, x.shape[1]))
    for t in range(bars - 1, len(x)):
        sums[:] = 0.0
        for lag in range(1, bars):
            for k in range(x.shape[1]):
                a, b = x[t - lag, k] - x[t, k], y[t - lag, k] - y[t, k]
                sums[0, k] += a
                sums[1, k] += b
                sums[2, k] += a * b
        out[t] = sums[2] - sums[0] * sums[1] / bars


@njit(cache=True)
def _smooth(x: Array, bars: int, weight: float, out: Array) -> None:
    """level ← level + weight·(x − level), from the mean of a symbol's first `bars` known values on; NaN before."""
    for k in range(x.shape[1]):
        first = 0
        while first < len(x) and np.isnan(x[first, k]):
            first += 1
        if first + bars <= len(x):
            out[first + bars - 1, k] = x[first : first + bars, k].sum() / bars
    for t in range(1, len(x)):
        for k in range(x.shape[1]):
            level = out[t - 1, k] + weight * (x[t, k] - out[t - 1, k])
            out[t, k] = out[t, k] if np.isnan(level) else level
