"""Increments of a panel and their running totals: what every estimator reads, and which assets it may score.

    log, simple     returns            difference   of the closes
    ranked          normal score of each log return among the returns of its symbol up to it
    winsorised      log returns between the 1 % and 99 % quantiles of the returns of their symbol up to them

Ranks and quantiles are those of the history *so far*: no later bar changes them, and all windows share running sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pacesetter.arrays import Array, Booleans, Floats
from pacesetter.compiled import njit
from pacesetter.errors import DataError
from pacesetter.panel import Panel

__all__ = [
    "CONSTANT",
    "Increments",
    "Series",
    "end_to_end",
    "inverse_deviations",
    "read_series",
    "required_observations",
]

Increments = Literal["log", "simple", "difference", "ranked", "winsorised"]
TAIL = 0.01  # share of the increments that `winsorised` pulls in on either side

# A variance below this share of the mean square is rounding left by running totals: the series counts as constant.
CONSTANT = 1e-10
FEWEST_OBSERVATIONS = 10


@dataclass(frozen=True, eq=False)
class Series:
    """Increments of N assets, each row a function of bars up to it, so that no later bar can change it.

    x        (time, symbol) increments, zero where one of their two bars was not observed
    path     (time, symbol) cumulated increments, zero at the first bar
    is_known (time, symbol) True where the bar was observed
    totals   (time, 3, symbol) running Σx, Σx² and number of observed increments
    minimum  observed increments an asset needs in a window; 0 for the rule of `required_observations`
    """

    symbols: tuple[str, ...]
    x: Array
    path: Array
    is_known: Array
    totals: Array
    minimum: int = 0

    def window(self, end: int, lookback: int) -> Floats:
        """(lookback, symbol) view of the increments of bars end−lookback … end."""
        view: Array = self.x[end - lookback + 1 : end + 1]
        return view

    def observed_window(self, end: int, lookback: int) -> Floats:
        """(lookback, symbol) increments of the window, NaN where one of their two bars was not observed."""
        counts = np.diff(self.totals[end - lookback : end + 1, 2], axis=0)
        return np.where(counts > 0, self.window(end, lookback), np.nan)

    def weights(self, end: int, lookback: int) -> Floats:
        """(symbol,) 1/deviation of each asset's increments in the window, NaN where it cannot be scored."""
        out = np.empty(len(self.symbols))
        inverse_deviations(self.totals, end, lookback, self.minimum, out)
        return out

    def diagnose(self, end: int, lookback: int) -> dict[str, str]:
        """Why each asset that cannot be scored in the window cannot be; empty when all can."""
        counts = self.totals[end, 2] - self.totals[end - lookback, 2]
        need = required_observations(lookback, self.minimum)
        return {
            self.symbols[column]: f"{int(counts[column])} of {lookback} returns observed, {need} needed"
            if counts[column] < need
            else "constant: its returns do not vary in the window"
            for column in np.flatnonzero(np.isnan(self.weights(end, lookback)))
        }


def read_series(panel: Panel, increments: Increments, minimum: int, spans_gaps: bool) -> Series:
    """Increments of the panel's closes; refuses one asset, one bar, and closes without a logarithm.

    An increment needs both its bars; with `spans_gaps` it runs from the last observed bar, however long ago.
    """
    if len(panel.symbols) < 2:
        raise DataError(f"lead–lag needs at least two assets, the panel has {len(panel.symbols)}; add symbols")
    if len(panel) < 2:
        raise DataError(f"lead–lag needs at least two bars, the panel has {len(panel)}; load more history")
    is_known = panel.mask & np.isfinite(panel.close)
    levels = _levels(panel, is_known, increments)
    if spans_gaps:
        whole, previous = _last_observed(levels, is_known)
    else:
        whole, previous = is_known.copy(), np.zeros_like(levels)
        whole[0], previous[1:] = False, levels[:-1]
        whole[1:] &= is_known[:-1]
    x = levels - previous
    if increments == "simple":
        x = np.divide(x, previous, out=np.zeros_like(x), where=previous != 0)
    # A missing increment is 0, so that it adds nothing to any sum; the third total counts the observed ones.
    x[~whole] = 0.0
    if increments in ("ranked", "winsorised"):
        x = _among_earlier(x, whole, increments)
    return Series(panel.symbols, x, np.cumsum(x, axis=0), is_known, _running_totals(x, whole), minimum)


def _among_earlier(x: Array, whole: Array, increments: Increments) -> Array:
    """(time, symbol) normal scores, or increments pulled in, by each symbol's observed increments up to each bar."""
    from scipy.special import ndtri  # here: it takes 0.3 s, and every command imports this module

    out = np.zeros_like(x)
    for column in range(x.shape[1]):
        here = whole[:, column]
        values, places = np.unique(x[here, column], return_inverse=True)
        if increments == "ranked":
            # n + 1: the largest rank would otherwise be the quantile 1, which is infinite.
            out[here, column] = ndtri(_running_ranks(places, len(values)) / np.arange(2, here.sum() + 2))
        else:
            low, high = _running_quantiles(places, values, TAIL)
            out[here, column] = np.clip(x[here, column], low, high)
    return out


@njit(cache=True)
def _count(tree: Array, place: int) -> int:
    """How many of the places added to a Fenwick tree are below `place`."""
    count = 0
    while place > 0:
        count += tree[place]
        place -= place & -place
    return count


@njit(cache=True)
def _add(tree: Array, place: int) -> None:
    place += 1
    while place < tree.size:
        tree[place] += 1
        place += place & -place


@njit(cache=True)
def _find_nth(tree: Array, number: int) -> int:
    """The place of the `number`-th (from 0) smallest of those added."""
    place, step = 0, 1
    while 2 * step < tree.size:
        step *= 2
    while step > 0:
        if place + step < tree.size and tree[place + step] <= number:
            place += step
            number -= tree[place]
        step //= 2
    return place


@njit(cache=True)
def _running_ranks(places: Array, distinct: int) -> Array:
    """(n,) rank of each value among those up to it, from 1; equal ones share their mean rank."""
    tree, ranks = np.zeros(distinct + 1, np.int64), np.empty(places.size)
    for k in range(places.size):
        _add(tree, places[k])
        below, upto = _count(tree, places[k]), _count(tree, places[k] + 1)
        ranks[k] = (below + upto + 1) / 2
    return ranks


@njit(cache=True)
def _running_quantiles(places: Array, values: Array, tail: float) -> tuple[Array, Array]:
    """(n,) the quantiles `tail` and 1 − `tail` of the values up to each, between neighbours as NumPy has them."""
    tree, low, high = np.zeros(values.size + 1, np.int64), np.empty(places.size), np.empty(places.size)
    for k in range(places.size):
        _add(tree, places[k])
        at = tail * k
        below = int(at)
        above, share = min(below + 1, k), at - below
        low[k] = (1 - share) * values[_find_nth(tree, below)] + share * values[_find_nth(tree, above)]
        high[k] = (1 - share) * values[_find_nth(tree, k - below)] + share * values[_find_nth(tree, k - above)]
    return low, high


def _last_observed(levels: Array, is_known: Array) -> tuple[Array, Array]:
    """(time, symbol) where an observed bar has one before it, however long ago, and the level of that one."""
    latest = np.maximum.accumulate(np.where(is_known, np.arange(len(is_known))[:, None], -1))
    before = np.vstack([np.full((1, is_known.shape[1]), -1), latest[:-1]])
    return is_known & (before >= 0), np.take_along_axis(levels, np.maximum(before, 0), axis=0)


def _running_totals(x: Floats, whole: Booleans) -> Floats:
    """(time, 3, symbol) running Σx, Σx² and number of observed increments."""
    totals = np.empty((len(x), 3, x.shape[1]))
    for row, values in enumerate((x, x * x, whole)):
        np.cumsum(values, axis=0, out=totals[:, row])
    return totals


def end_to_end(windows: Floats, minimum: int) -> Series:
    """The (window, time, symbol) increments as one series after a first bar that has none: windows do not mix."""
    flat = windows.reshape(-1, windows.shape[-1])
    # A window of n increments spans n + 1 bars: its first bar is the last of the window before, whose increment is not
    # read.
    x = np.vstack([np.zeros((1, flat.shape[1])), np.nan_to_num(flat)])
    is_known = np.vstack([np.isfinite(flat[:1]), np.isfinite(flat)])
    totals = _running_totals(x, is_known)
    symbols = tuple(map(str, range(flat.shape[1])))
    return Series(symbols, x, np.cumsum(x, axis=0), is_known, totals, minimum)


def _levels(panel: Panel, is_known: Booleans, increments: Increments) -> Floats:
    """(time, symbol) closes or their logarithms, zero where nothing was observed."""
    # 1 where not observed: log 1 = 0 without a warning, and no increment reads it.
    close = np.where(is_known, panel.close, 1.0)
    if increments in ("simple", "difference"):
        return np.where(is_known, close, 0.0)
    bad = np.argwhere(close <= 0)
    if len(bad):
        bar, column = bad[0]
        raise DataError(
            f"the close of {panel.symbols[column]} at bar {bar} ({panel.index[bar]}) is {close[bar, column]:g} and has "
            "no logarithm; use increments='difference'"
        )
    return np.asarray(np.log(close))


@njit(cache=True)
def required_observations(lookback: int, minimum: int) -> int:
    """Observed increments that a window asks of an asset: `minimum`, or 10 or half the window; never above it."""
    if minimum <= 0:
        minimum = max(FEWEST_OBSERVATIONS, (lookback + 1) // 2)
    return min(lookback, minimum)


@njit(cache=True)
def inverse_deviations(totals: Array, end: int, lookback: int, minimum: int, out: Array) -> None:
    """Fill `out` (symbol,) with 1/deviation over the window; NaN for too few observations or a constant series."""
    need = required_observations(lookback, minimum)
    start = end - lookback
    for i in range(out.size):
        # Over `lookback`, not the observed count: a missing increment counts as 0 in every sum, lagged products
        # included.
        mean = (totals[end, 0, i] - totals[start, 0, i]) / lookback
        square = (totals[end, 1, i] - totals[start, 1, i]) / lookback
        # Σx² − (Σx)² cancels for a series far from 0, but increments are near it; CONSTANT guards what rounding leaves.
        variance = square - mean * mean
        enough = totals[end, 2, i] - totals[start, 2, i] >= need
        out[i] = 1.0 / np.sqrt(variance) if enough and variance > CONSTANT * square else np.nan
