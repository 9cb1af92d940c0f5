"""The answer of many windows of one length: leadership, and delay with sign, a block of windows at a time.

Correlations slide: one bar enters, one leaves, so the whole history costs as much as one pass over it and the memory is
that of one window. Where windows lie some bars apart, these enter and leave by a product of matrices. Other methods,
and increments prepared inside each window, are computed window by window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pacesetter.leadlag.answer.answer import answer_window
from pacesetter.leadlag.answer.strength import StrengthMeasure
from pacesetter.leadlag.estimators.correlation import fold_lag, part_moments, weigh_directions
from pacesetter.leadlag.prepare import Preparation
from pacesetter.leadlag.series import Series, inverse_deviations
from pacesetter.progress import count_progress

__all__ = ["Answers", "rolling_answers"]

Array = NDArray[Any]
BLOCK_BYTES = 32 * 2**20  # of leadership matrices at once
# Each run starts from an empty window: threads share no state, and the rounding of sums that slide cannot build up.
RUN = 64  # windows that one thread slides through
LEAP = 8  # bars between windows from which a matrix product is quicker than adding bar by bar
ASKED_AT_ONCE = 16
LEAPS_AT_ONCE = 16  # windows whose products are held for one loop over them


class Answers(NamedTuple):
    """Windows that end at `ends`: leadership (window, i, j), and the delay of i for j times its sign, 0 for none."""

    ends: Array
    leadership: Array
    delays: Array


def rolling_answers(
    series: Series,
    ends: Array,
    lookback: int,
    gauge: StrengthMeasure,
    preparation: Preparation,
    title: str = "",
    excluded: Array | None = None,
) -> Iterator[Answers]:
    """The answers of the windows of `lookback` increments that end at the bars `ends`, ascending, in blocks.

    excluded   (window, symbol) symbols that are left out of each window: their leadership is NaN
    """
    excluded = np.zeros((len(ends), len(series.symbols)), dtype=bool) if excluded is None else excluded
    symbols = len(series.symbols)
    slides = gauge.is_linear and preparation.is_plain
    # Windows that are computed one by one take long: after each few of them the time left is known.
    size = max(BLOCK_BYTES // (8 * symbols * symbols), 1) if slides else ASKED_AT_ONCE
    with count_progress(title, len(ends), "window") as update:
        for start in range(0, len(ends), size):
            block = np.ascontiguousarray(ends[start : start + size], dtype=np.int64)
            left_out = excluded[start : start + size]
            answers = (
                _slide_windows(series, block, lookback, gauge)
                if slides
                else _answer_windows(series, block, lookback, gauge, preparation, left_out)
            )
            answers.leadership[left_out[:, :, None] | left_out[:, None, :]] = np.nan
            yield answers
            update(len(block))


def _answer_windows(
    series: Series, ends: Array, lookback: int, gauge: StrengthMeasure, preparation: Preparation, excluded: Array
) -> Answers:
    """Window by window, in the shape of the sliding ones."""
    symbols = len(series.symbols)
    leadership = np.empty((len(ends), symbols, symbols))
    delays = np.zeros(leadership.shape, dtype=np.int16)
    for row, end in enumerate(ends.tolist()):
        raw = series.observed_window(end, lookback)
        raw[:, excluded[row]] = np.nan  # before it is prepared: what all have in common is fitted without them
        window = preparation.window(raw)
        answer = answer_window(window, series.symbols, gauge)
        leadership[row] = answer.leadership
        sign = answer.signs if gauge.is_signed else 1.0
        # A method without delays goes by the last bar: delay 1.
        delays[row] = np.nan_to_num(answer.delays * sign, nan=1.0)
    return Answers(ends, leadership, delays)


def _slide_windows(series: Series, ends: Array, lookback: int, gauge: StrengthMeasure) -> Answers:
    symbols = len(series.symbols)
    leadership = np.empty((len(ends), symbols, symbols))
    delays = np.empty(leadership.shape, dtype=np.int16)
    lags = min(gauge.max_lag, lookback - 2)
    recipe = gauge.score_fold, gauge.weighing
    if len(ends) > 1 and ends[-1] - ends[0] >= LEAP * (len(ends) - 1):
        rest = series.totals, series.minimum, *recipe
        for first, products in _leap_windows(series.x, ends, lookback, lags):
            part = slice(first, first + len(products))
            _emit_many(products, *rest, ends[part], lookback, leadership[part], delays[part])
    else:
        _slide(series.x, series.totals, series.minimum, lags, *recipe, ends, lookback, leadership, delays)
    return Answers(ends, leadership, delays)


def _leap_windows(x: Array, ends: Array, lookback: int, lags: int) -> Iterator[tuple[int, Array]]:
    """The place of a first window, and (window, lag, i, j) lagged products of it and those after it; as `_slide`."""
    held = np.empty((LEAPS_AT_ONCE, lags, x.shape[1], x.shape[1]))
    products, now, start = np.zeros(held.shape[1:]), 0, 0
    for k, end in enumerate(ends.tolist()):
        if k % RUN == 0 or end - lookback >= now:
            products[:] = 0.0
            now = start = end - lookback
        old = end - lookback
        for lag in range(1, lags + 1):
            new = max(now, start + lag) + 1  # both bars of a product are inside the window
            products[lag - 1] += x[new - lag : end + 1 - lag].T @ x[new : end + 1]
            if old > start:
                products[lag - 1] -= x[start + 1 : old + 1].T @ x[start + 1 + lag : old + 1 + lag]
        now, start = end, old
        held[k % LEAPS_AT_ONCE] = products
        if (k + 1) % LEAPS_AT_ONCE == 0 or k + 1 == len(ends):
            yield k - k % LEAPS_AT_ONCE, held[: k % LEAPS_AT_ONCE + 1]


@njit(parallel=True, cache=True)
def _emit_many(
    products: Array,
    totals: Array,
    minimum: int,
    fold: int,
    weighing: int,
    ends: Array,
    lookback: int,
    leadership: Array,
    delays: Array,
) -> None:
    for k in prange(ends.size):
        _emit(products[k], totals, minimum, fold, weighing, ends[k], lookback, leadership[k], delays[k])


@njit(parallel=True, cache=True)
def _slide(
    x: Array,
    totals: Array,
    minimum: int,
    lags: int,
    fold: int,
    weighing: int,
    ends: Array,
    lookback: int,
    leadership: Array,
    delays: Array,
) -> None:
    runs = (ends.size + RUN - 1) // RUN
    for run in prange(runs):
        first, last = run * RUN, min((run + 1) * RUN, ends.size)
        symbols = x.shape[1]
        products = np.zeros((lags, symbols, symbols))
        now = ends[first] - lookback  # an empty window, to which every bar is then added
        start = now
        for k in range(first, last):
            if ends[k] - lookback >= now:  # no bar in common with the window before
                products[:] = 0.0
                now = start = ends[k] - lookback
            for lag in range(1, lags + 1):
                # Both bars of a product must be inside the window: the first follower is `lag` bars after its start.
                first_new = max(now, start + lag) + 1
                _add(products[lag - 1], x[first_new - lag : ends[k] + 1 - lag], x[first_new : ends[k] + 1], 1.0)
                # A leaving bar takes its products as leader; those as follower left with their leader, before it.
                last_old = ends[k] - lookback
                _add(products[lag - 1], x[start + 1 : last_old + 1], x[start + 1 + lag : last_old + 1 + lag], -1.0)
            now, start = ends[k], ends[k] - lookback
            _emit(products, totals, minimum, fold, weighing, ends[k], lookback, leadership[k], delays[k])


@njit(cache=True)
def _add(products: Array, lead: Array, follow: Array, sign: float) -> None:
    """Add sign · Σ_t lead(t)·follow(t)ᵀ of the bars (time, symbol), four at a time: the matrix is read less often."""
    bars, symbols = lead.shape
    whole = bars - bars % 4
    for t in range(0, whole, 4):
        for i in range(symbols):
            a, b, c, d = sign * lead[t, i], sign * lead[t + 1, i], sign * lead[t + 2, i], sign * lead[t + 3, i]
            for j in range(symbols):
                products[i, j] += (a * follow[t, j] + b * follow[t + 1, j]) + (
                    c * follow[t + 2, j] + d * follow[t + 3, j]
                )
    for t in range(whole, bars):
        for i in range(symbols):
            weight = sign * lead[t, i]
            for j in range(symbols):
                products[i, j] += weight * follow[t, j]


@njit(cache=True)
def _emit(
    products: Array,
    totals: Array,
    minimum: int,
    fold: int,
    weighing: int,
    end: int,
    lookback: int,
    leadership: Array,
    delays: Array,
) -> None:
    """Leadership and signed delays of one window from its lagged products."""
    symbols = leadership.shape[0]
    start = end - lookback
    lead, lead_scale, follow, follow_scale = np.empty((4, symbols))
    correlation, peak = np.empty((symbols, symbols)), np.zeros((symbols, symbols))
    leadership[:] = 0.0
    delays[:] = 1
    for lag in range(1, products.shape[0] + 1):
        part_moments(totals, start, end - lag, lead, lead_scale)
        part_moments(totals, start + lag, end, follow, follow_scale)
        for i in range(symbols):
            for j in range(symbols):
                value = (products[lag - 1, i, j] - lead[i] * follow[j]) * lead_scale[i] * follow_scale[j]
                correlation[i, j] = value
                if abs(value) > peak[i, j]:
                    peak[i, j] = abs(value)
                    delays[i, j] = lag if value > 0 else -lag
        fold_lag(correlation, fold, leadership)
    inverse_deviations(totals, end, lookback, minimum, lead_scale)
    weigh_directions(leadership, lead_scale, weighing)
