"""Trailing-window statistics along the last axis, each from its own window only.

A running sum would be shorter, but carries the rounding of every bar before: a window is folded lag by lag instead, so
that a server which knows just this window gets the same number. Results are NaN until the first whole window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np
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
]

Array = NDArray[Any]


def lagged(x: Array, bars: int = 1) -> Array:
    """x(t−bars)."""
    return _behind_warmup(x[..., : max(x.shape[-1] - bars, 0)], x)


def change(x: Array, bars: int = 1) -> Array:
    """x(t) − x(t−bars)."""
    return x - lagged(x, bars)


def rolling_sum(x: Array, bars: int) -> Array:
    """Sum over the latest `bars` bars."""
    return _fold(np.add, x, bars)


def rolling_max(x: Array, bars: int) -> Array:
    """Largest of the latest `bars` bars."""
    return _fold(np.maximum, x, bars)


def rolling_min(x: Array, bars: int) -> Array:
    """Smallest of the latest `bars` bars."""
    return _fold(np.minimum, x, bars)


def rolling_mean(x: Array, bars: int) -> Array:
    """Mean of the latest `bars` bars; exactly x where x stands still."""
    return x + _behind_warmup(_sum(_distances(x, bars)) / bars, x)


def rolling_std(x: Array, bars: int, ddof: int = 0) -> Array:
    """Standard deviation over the latest `bars` bars; exactly 0 where x stands still."""
    return np.sqrt(_squares(x, x, bars) / (bars - ddof))


def rolling_correlation(x: Array, y: Array, bars: int) -> Array:
    """Pearson correlation of x and y over the latest `bars` bars; 0 where one of them stands still."""
    scale = np.sqrt(_squares(x, x, bars)) * np.sqrt(_squares(y, y, bars))
    return np.clip(ratio(_squares(x, y, bars), scale), -1.0, 1.0)


def rolling_rank(x: Array, bars: int) -> Array:
    """Share of the latest `bars` bars that lie below x(t), a tie counting half; in [0, 1]."""
    above = _behind_warmup(_sum(map(np.sign, _distances(x, bars))), x)  # bars above less bars below
    return (1 - above / (bars - 1)) / 2


def ratio(numerator: Array, denominator: Array, flat: float = 0.0) -> Array:
    """numerator / denominator, with `flat` where both are 0: nothing moved or traded, so nothing can be compared."""
    still = (numerator == 0) & (denominator == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(still, flat, numerator / denominator)


def _lags(x: Array, bars: int) -> list[Array]:
    """Views x(t), x(t−1) … x(t−bars+1) over every t that has a whole window behind it."""
    length = max(x.shape[-1], bars - 1)  # a shorter one has no whole window, and its views are empty
    return [x[..., bars - 1 - lag : length - lag] for lag in range(bars)]


def _distances(x: Array, bars: int) -> Iterator[Array]:
    """x(t−lag) − x(t) for lags 1 … bars−1: exact zeros where x stands still."""
    latest, *earlier = _lags(x, bars)
    return (past - latest for past in earlier)


def _squares(x: Array, y: Array, bars: int) -> Array:
    """Σ(x − x̄)(y − ȳ) over each window, as Σab − ΣaΣb/n of the distances from the latest bar.

    The latest bar is at most √n deviations from the mean, so this cancels no more than a factor n, unlike Σxy − ΣxΣy/n.
    """
    total_x, total_y, products = (np.zeros_like(_lags(x, bars)[0]) for _ in range(3))
    twice = ((a, a) for a in _distances(x, bars))
    for a, b in twice if x is y else zip(_distances(x, bars), _distances(y, bars), strict=True):
        total_x += a
        total_y += b
        products += a * b
    centred = products - total_x * total_y / bars
    return _behind_warmup(np.maximum(centred, 0.0) if x is y else centred, x)


def _sum(terms: Iterable[Array]) -> Array:
    return reduce(np.add, terms)


def _fold(operation: Callable[[Array, Array], Array], x: Array, bars: int) -> Array:
    return _behind_warmup(reduce(operation, _lags(x, bars)), x)


def _behind_warmup(values: Array, x: Array) -> Array:
    """`values` of the whole windows, with NaN for the bars before them, in the shape of `x`."""
    full = np.full(x.shape, np.nan)
    full[..., x.shape[-1] - values.shape[-1] :] = values
    return full
