"""Running lagged products of increments, from which any window is two look-ups: whole, or a span of them at a time.

    P_l[i, j](t) = Σ_{u≤t} x_i(u−l)·x_j(u)        lags l = 1 … max_lag

For 143 symbols, five lags and 3,000 bars that is 2.5 GB. Above `held_bytes` one row in KEPT_EVERY is kept, and the rows
that are asked for are added up from the last kept one, in the order in which the whole table is: no bit differs.
"""

from __future__ import annotations

from weakref import WeakSet, ref

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit

__all__ = ["HELD_BYTES", "KEPT_EVERY", "LaggedProducts", "lagged_products"]

HELD_BYTES = 384 * 2**20  # of one table, and of the spans that all tables hold together
KEPT_EVERY = 32  # bars: a row far from the span costs half as many additions per pair and lag


_spans: WeakSet[LaggedProducts] = WeakSet()  # tables that hold a part of their rows


class LaggedProducts:
    """Rows (lag, symbol, symbol) of the table, any of them on request.

    held    (row, lag, symbol, symbol) of bars `first` … `first` + `count` − 1; where all fit, the whole table
    kept    (row, lag, symbol, symbol) of bars 0, KEPT_EVERY, 2·KEPT_EVERY …; empty where all are held
    """

    def __init__(self, x: Array, max_lag: int, held_bytes: int = HELD_BYTES) -> None:
        bars, symbols = x.shape
        shape = (max_lag, symbols, symbols)
        self.x, self.max_lag = x, max_lag
        # At least max_lag + 2 rows, or not even the shortest window would fit.
        self.capacity = min(bars, max(held_bytes // (max_lag * symbols * symbols * 8), max_lag + 2))
        self.is_whole = self.capacity == bars
        self.held, self.first, self.count = np.empty((self.capacity, *shape)), 0, 0
        self.kept = np.empty((0, *shape))
        if self.is_whole:
            self._extend(bars - 1)
        else:
            self.kept = _kept_products(x, max_lag, KEPT_EVERY)
            _spans.add(self)

    def release(self) -> None:
        """Give the memory of the held span back; it is computed again when it is asked for, to the same bits."""
        self.held, self.count = np.empty_like(self.held), 0  # not written to, so that it takes no memory yet

    @property
    def nbytes(self) -> int:
        """Memory of what is held and kept."""
        return int(self.held.nbytes + self.kept.nbytes)

    def count_missing(self, first: int, last: int) -> int:
        """Rows to be computed before bars `first` … `last` are all held; more than `capacity` where they cannot be."""
        if last - first >= self.capacity:
            return int(self.capacity + 1)
        end = self.first + self.count
        # Rows follow on from the held ones, so only those after `end` are new.
        if self.first <= first <= end:
            return int(max(last + 1 - end, 0))
        # Elsewhere a new span starts from the last kept row before it.
        return last + 1 - first + first % KEPT_EVERY

    def hold(self, first: int, last: int) -> None:
        """Have the rows of bars `first` … `last`, no more than `capacity`, in `held`."""
        if not self.is_whole:
            self._make_room(last + 1 - first)
        end = self.first + self.count
        if not self.count or not self.first <= first <= end:
            self.first, self.count = first, 0
        elif last - self.first >= self.capacity:
            kept = end - first
            shift = first - self.first
            # The rows still needed move to the front, so many at a time that source and target never overlap: a copy of
            # all of them would double the memory.
            for row in range(0, kept, shift):
                self.held[row : min(row + shift, kept)] = self.held[row + shift : min(row + 2 * shift, kept + shift)]
            self.first, self.count = first, kept
        self._extend(last)

    def rows(self, bars: Array) -> Array:
        """(bar, lag, symbol, symbol) of any bars, in order, by additions from the last kept row before each."""
        out = np.empty((len(bars), *self.held.shape[1:]))
        for place, bar in enumerate(bars.tolist()):
            if place and bar >= bars[place - 1]:
                # Bars in ascending order continue from one another instead of from a kept row.
                out[place] = out[place - 1]
                _advance(out[place], self.x, int(bars[place - 1]), bar)
            else:
                self._compute(bar, out[place])
        return out

    def _extend(self, last: int) -> None:
        """Fill the rows after the last one held, up to bar `last`."""
        if not self.count:
            self._compute(self.first, self.held[0])
            self.count = 1
        count = last - self.first + 1
        if count > self.count:
            _fill(self.held[:count], self.x, self.first, self.count)
            self.count = count

    def _make_room(self, rows: int) -> None:
        """Release the spans of other tables where all would hold more than one table may."""
        others = [table for table in _spans if table is not self and table.count]
        own = max(rows, self.count) * self.held[0].nbytes
        if own + sum(table.count * table.held[0].nbytes for table in others) > self.capacity * self.held[0].nbytes:
            for table in others:
                table.release()

    def _compute(self, bar: int, out: Array) -> None:
        place = bar // KEPT_EVERY
        out[:] = self.kept[place] if len(self.kept) else 0.0
        _advance(out, self.x, place * KEPT_EVERY if len(self.kept) else 0, bar)


_latest: ref[LaggedProducts] | None = None


def lagged_products(x: Array, max_lag: int) -> LaggedProducts:
    """The table of increments (time, symbol); the latest one is reused for equal increments while it is alive."""
    global _latest
    known = _latest() if _latest is not None else None
    # A weak reference: the table is shared while someone uses it, and freed with its last user.
    if known is not None and known.max_lag == max_lag and np.array_equal(known.x, x):
        return known
    made = LaggedProducts(x, max_lag, HELD_BYTES)
    _latest = ref(made)
    return made


@njit(cache=True)
def _fill(held: Array, x: Array, first: int, known: int) -> None:
    """Fill rows `known` … of `held`, whose row 0 is of bar `first`, each from the row before."""
    rows, lags, symbols, _ = held.shape
    for row in range(known, rows):
        t = first + row
        for lag in range(1, lags + 1):
            for i in range(symbols):
                lead = x[t - lag, i] if t >= lag else 0.0
                for j in range(symbols):
                    held[row, lag - 1, i, j] = held[row - 1, lag - 1, i, j] + lead * x[t, j]


@njit(cache=True)
def _advance(row: Array, x: Array, before: int, bar: int) -> None:
    """Take a row (lag, symbol, symbol) from bar `before` to `bar` in place."""
    lags, symbols, _ = row.shape
    for t in range(before + 1, bar + 1):
        for lag in range(1, lags + 1):
            for i in range(symbols):
                lead = x[t - lag, i] if t >= lag else 0.0
                for j in range(symbols):
                    row[lag - 1, i, j] = row[lag - 1, i, j] + lead * x[t, j]


@njit(cache=True)
def _kept_products(x: Array, max_lag: int, every: int) -> Array:
    """(row, lag, symbol, symbol) rows of bars 0, every, 2·every …"""
    bars, symbols = x.shape
    kept = np.zeros(((bars - 1) // every + 1, max_lag, symbols, symbols))
    row = np.zeros((max_lag, symbols, symbols))
    for place in range(1, len(kept)):
        _advance(row, x, (place - 1) * every, place * every)
        kept[place] = row
    return kept
