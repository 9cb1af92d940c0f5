"""Trailing-window statistics and smoothing along the last axis, compiled.

A running sum would be shorter, but carries the rounding of every bar before: a window is folded lag by lag instead, so
that a server which knows just this window gets the same number. Results are NaN until the first whole window. Kernels
see (bar, symbol), as panels hold them: the innermost loop runs over symbols, side by side in memory.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pacesetter.arrays import Array, Floats
from pacesetter.compiled import njit, register_jitable

__all__ = [
    "change",
    "compiled",
    "lag_bars",
    "ratio",
    "rolling_correlation",
    "rolling_max",
    "rolling_mean",
    "rolling_min",
    "rolling_rank",
    "rolling_std",
    "rolling_sum",
    "run_kernel",
    "smooth_exponentially",
]


def lag_bars(x: Floats, bars: int = 1) -> Floats:
    """x(t−bars)."""
    values = np.empty_like(x)
    values[..., :bars], values[..., bars:] = np.nan, x[..., : max(x.shape[-1] - bars, 0)]
    return values


def change(x: Floats, bars: int = 1) -> Floats:
    """x(t) − x(t−bars)."""
    return x - lag_bars(x, bars)


def rolling_sum(x: Floats, bars: int) -> Floats:
    """Sum over the latest `bars` bars."""
    return run_kernel(_sum, (x,), bars)


def rolling_max(x: Floats, bars: int) -> Floats:
    """Largest of the latest `bars` bars."""
    return run_kernel(_largest, (x,), bars)


def rolling_min(x: Floats, bars: int) -> Floats:
    """Smallest of the latest `bars` bars."""
    # One kernel for both: min(x) = −max(−x), exactly.
    return -rolling_max(-x, bars)


def rolling_mean(x: Floats, bars: int) -> Floats:
    """Mean of the latest `bars` bars; exactly x where x stands still."""
    return run_kernel(_mean, (x,), bars)


def rolling_std(x: Floats, bars: int, ddof: int = 0) -> Floats:
    """Standard deviation over the latest `bars` bars; exactly 0 where x stands still."""
    return run_kernel(_deviate, (x,), bars, ddof)


def rolling_correlation(x: Floats, y: Floats, bars: int) -> Floats:
    """Pearson correlation of x and y over the latest `bars` bars; 0 where one of them stands still."""
    return run_kernel(_correlate, (x, y), bars)


def rolling_rank(x: Floats, bars: int) -> Floats:
    """Share of the latest `bars` bars that lie below x(t), a tie counting half; in [0, 1]."""
    return run_kernel(_rank, (x,), bars)


def smooth_exponentially(x: Floats, bars: int, weight: float) -> Floats:
    """Exponential smoothing with `weight` on the newest bar, seeded with the mean of the first `bars` known values."""
    return run_kernel(_smooth, (x,), bars, weight)


def ratio(numerator: Floats, denominator: Floats, flat: float = 0.0) -> Floats:
    """numerator / denominator, with `flat` where both are 0: nothing moved or traded, so nothing can be compared."""
    return run_kernel(_divide, (numerator, denominator), flat)


def run_kernel(kernel: Callable[..., None], inputs: tuple[Array, ...], *options: float) -> Floats:
    """What `kernel` writes for (…, bar) inputs; it writes every bar."""
    # Contiguous (bar, symbol), so that the inner loop over symbols runs through memory in order.
    columns = [np.ascontiguousarray(x.T if x.ndim == 2 else x[:, None], np.float64) for x in inputs]
    for column in columns:
        column.flags.writeable = False  # of a panel's own bars or not: one type, compiled once, and nothing is copied
    out = np.empty(columns[0].shape)
    kernel(*columns, *options, out)
    return out.T.reshape(inputs[0].shape)


# ---- kernels: (bar, symbol) in, (bar, symbol) out --------------------------------------------------------------------

compiled = njit(cache=True, error_model="numpy")


@register_jitable()
def _first_window(x: Array, bars: int) -> int:
    """The bar at which the first window ends that begins with a value known of some symbol; `len(x)` without one."""
    for begin in range(len(x) - bars + 1):
        for k in range(x.shape[1]):
            if not np.isnan(x[begin, k]):
                return begin + bars - 1
    return len(x)


def _make_fold_kernel(
    fold: Callable[[float, float, float], float],
    finish: Callable[[float, float, int], float] = lambda total, latest, bars: total,
    start: float = 0.0,
) -> Callable[..., None]:
    """A kernel that folds each whole window from its latest bar back: result so far, a bar, the latest bar."""
    fold, finish = register_jitable()(fold), register_jitable()(finish)

    @compiled
    def kernel(x: Array, bars: int, out: Array) -> None:
        first = _first_window(x, bars)
        out[:first] = np.nan
        for t in range(first, len(x)):
            out[t] = start
            for lag in range(bars):
                for k in range(x.shape[1]):
                    # From the latest bar back, always: sums then add in the same order for a table and for a server
                    # that has this window alone, and give the same bits.
                    out[t, k] = fold(out[t, k], x[t - lag, k], x[t, k])
            for k in range(x.shape[1]):
                out[t, k] = finish(out[t, k], x[t, k], bars)

    return kernel


_sum = _make_fold_kernel(lambda total, past, latest: total + past)
_mean = _make_fold_kernel(  # exact zeros where x stands still
    lambda total, past, latest: total + (past - latest), lambda total, latest, bars: latest + total / bars
)
_rank = _make_fold_kernel(  # bars above less bars below
    lambda total, past, latest: total + np.sign(past - latest), lambda total, latest, bars: (1 - total / (bars - 1)) / 2
)
# NaN wins, so that an unknown bar makes the window unknown; a plain comparison would skip it.
_largest = _make_fold_kernel(lambda best, past, latest: past if past > best or np.isnan(past) else best, start=-np.inf)


@register_jitable()
def _squares(total: float, squares: float, bars: int) -> float:
    """Σ(x − x̄)² of a window, as Σa² − (Σa)²/n of the distances a from its latest bar.

    That bar is at most √n deviations from the mean, so this cancels no more than a factor n, unlike Σx² − (Σx)²/n.
    """
    left = squares - total * total / bars
    return 0.0 if left < 0.0 else left  # rounding may take an exact 0 below it, and a root of that is NaN


@compiled
def _deviate(x: Array, bars: int, ddof: int, out: Array) -> None:
    """√(Σ(x − x̄)² / (n − ddof)) over each window."""
    first, total = _first_window(x, bars), np.empty(x.shape[1])
    out[:first] = np.nan
    for t in range(first, len(x)):
        total[:] = out[t] = 0.0
        for lag in range(1, bars):  # from 1: the latest bar's distance from itself is 0
            for k in range(x.shape[1]):
                a = x[t - lag, k] - x[t, k]
                total[k] += a
                out[t, k] += a * a
        for k in range(x.shape[1]):
            out[t, k] = np.sqrt(_squares(total[k], out[t, k], bars) / (bars - ddof))


@compiled
def _correlate(x: Array, y: Array, bars: int, out: Array) -> None:
    """Σ(x − x̄)(y − ȳ) / √(Σ(x − x̄)² Σ(y − ȳ)²) over each window, within [-1, 1]."""
    first, sums = _first_window(x, bars), np.empty((5, x.shape[1]))
    out[:first] = np.nan
    for t in range(first, len(x)):
        sums[:] = 0.0
        for lag in range(1, bars):
            for k in range(x.shape[1]):
                a, b = x[t - lag, k] - x[t, k], y[t - lag, k] - y[t, k]
                sums[0, k] += a
                sums[1, k] += b
                sums[2, k] += a * b
                sums[3, k] += a * a
                sums[4, k] += b * b
        for k in range(x.shape[1]):
            a, b, product = sums[0, k], sums[1, k], sums[2, k] - sums[0, k] * sums[1, k] / bars
            # Two roots, not the root of the product, which can under- or overflow.
            scale = np.sqrt(_squares(a, sums[3, k], bars)) * np.sqrt(_squares(b, sums[4, k], bars))
            # Rounding may leave a perfect correlation just outside ±1.
            out[t, k] = 0.0 if product == 0.0 and scale == 0.0 else min(max(product / scale, -1.0), 1.0)


@compiled
def _smooth(x: Array, bars: int, weight: float, out: Array) -> None:
    """level ← level + weight·(x − level), from the mean of a symbol's first `bars` known values on; NaN before."""
    level, seed, begin = np.full(x.shape[1], np.nan), np.empty(x.shape[1]), np.full(x.shape[1], len(x))
    for k in range(x.shape[1]):
        first = 0
        while first < len(x) and np.isnan(x[first, k]):
            first += 1
        if first + bars <= len(x):
            begin[k], seed[k] = first + bars - 1, x[first : first + bars, k].sum() / bars
    for t in range(len(x)):
        for k in range(x.shape[1]):
            # Before the seed the level is NaN and stays NaN, so no branch on warm-up is needed.
            level[k] = seed[k] if t == begin[k] else level[k] + weight * (x[t, k] - level[k])
            out[t, k] = level[k]


@compiled
def _divide(numerator: Array, denominator: Array, flat: float, out: Array) -> None:
    for t in range(len(out)):
        for k in range(out.shape[1]):
            above, below = numerator[t, k], denominator[t, k]
            out[t, k] = flat if above == 0.0 and below == 0.0 else above / below
