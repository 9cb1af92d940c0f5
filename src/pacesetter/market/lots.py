"""Lots, first in, first out: what each part of an entry earned by the time it was closed. A view over fills.

A position that is rebalanced daily never becomes flat, so that it has no round trip; its lots are closed all the same.
The ledger's realised column keeps its average-entry meaning, and rewards read that one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.market.ledger import Fill
from pacesetter.market.trades import follow_splits

__all__ = ["Lots", "match_lots"]

DUST = 1e-9  # of the largest quantity of a symbol: what rounding leaves of a lot


class Lots(NamedTuple):
    """A row for each part of an entry and what closed it, by symbol and then by entry; exit_bar −1: still open.

    position, entry_bar, exit_bar   (lot,) whole numbers        quantity   signed, below 0 of a short
    entry_price, exit_price         the latter NaN while open
    commission                      of both sides, in proportion to the quantity; so far, while open
    pnl                             after commission; minus the commission so far, while open
    """

    position: Array
    entry_bar: Array
    exit_bar: Array
    quantity: Array
    entry_price: Array
    exit_price: Array
    commission: Array
    pnl: Array

    @property
    def is_closed(self) -> Array:
        """(lot,)"""
        closed: Array = self.exit_bar >= 0
        return closed

    def drop_open(self) -> Lots:
        """Without those that are still open, which have no result yet."""
        return Lots(*(column[self.is_closed] for column in self))

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame(self._asdict())


class _Legs(NamedTuple):
    """Fills of one symbol, one after another: the order's own, then the bar's exit. Quantities are signed."""

    bar: Array
    quantity: Array
    price: Array
    commission: Array


def match_lots(fills: ArrayLike, first_bar: int = 0) -> Lots:
    """The lots of one account's `fills` (step, position, column of `Fill`), the first step filling in `first_bar`."""
    rows = np.asarray(fills, dtype=np.float64)
    if rows.ndim != 3 or rows.shape[2] != len(Fill):
        raise DataError(f"fills have shape {rows.shape}; give (step, position, {len(Fill)}) of one account")
    rows = follow_splits(rows)
    parts = [_of_position(rows[:, position], position, first_bar) for position in range(rows.shape[1])]
    if not parts:
        return Lots(*(np.empty(0) for _ in Lots._fields))
    return Lots(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _of_position(rows: Array, position: int, first_bar: int) -> Lots:
    opened, closed = _sides(_legs(rows, first_bar))
    # All that was opened is closed in the order of opening, across flat moments and turns too: at each of them as much
    # was closed as had been opened. So the two running sums meet where a lot begins or ends.
    into, out = (np.cumsum(np.abs(side.quantity)) for side in (opened, closed))
    total = into[-1] if len(into) else 0.0
    ends = np.union1d(into, np.minimum(out, total))
    starts = np.concatenate([[0.0], ends[:-1]]) if len(ends) else ends
    is_real = ends - starts > DUST * max(float(np.abs(opened.quantity).max(initial=0.0)), 0.0)
    starts, ends = starts[is_real], ends[is_real]
    middle = (starts + ends) / 2
    entry, exit_ = np.searchsorted(into, middle), np.searchsorted(out, middle)
    is_closed, size = exit_ < len(out), ends - starts
    quantity = np.sign(opened.quantity[entry]) * size
    leaving = np.minimum(exit_, max(len(out) - 1, 0))
    price = closed.price[leaving] if len(out) else np.full(len(size), np.nan)
    paid = size * opened.commission[entry]
    if len(out):
        paid = paid + np.where(is_closed, size * closed.commission[leaving], 0.0)
    gain = np.where(is_closed, quantity * (price - opened.price[entry]), 0.0)
    return Lots(
        np.full(len(size), position),
        opened.bar[entry],
        np.where(is_closed, closed.bar[leaving] if len(out) else -1, -1),
        quantity,
        opened.price[entry],
        np.where(is_closed, price, np.nan),
        paid,
        gain - paid,
    )


def _legs(rows: Array, first_bar: int) -> _Legs:
    pairs = ((Fill.QUANTITY, Fill.PRICE, Fill.COMMISSION), (Fill.EXIT_QUANTITY, Fill.EXIT_PRICE, Fill.EXIT_COMMISSION))
    quantity, price, commission = (
        np.stack([rows[:, pair[place]] for pair in pairs], axis=1).ravel() for place in range(3)
    )
    bar = np.repeat(np.arange(len(rows)) + first_bar, 2)
    traded = quantity != 0.0
    return _Legs(bar[traded], quantity[traded], price[traded], commission[traded])


def _sides(legs: _Legs) -> tuple[_Legs, _Legs]:
    """What opened and what closed, with the commission a unit; a fill that turns the position is parted in two."""
    after = np.cumsum(legs.quantity)
    size = np.abs(legs.quantity)
    # A sum of many fills that should be flat is off by rounding.
    after[np.abs(after) <= DUST * size.max(initial=0.0)] = 0.0
    before = np.concatenate([[0.0], after[:-1]]) if len(after) else after
    # What goes against the position closes it as far as it goes.
    closing = np.where(before * legs.quantity < 0.0, np.minimum(size, np.abs(before)), 0.0)
    opening = np.where(np.abs(after) > 0, size - closing, 0.0)
    opening[opening <= DUST * size.max(initial=0.0)] = 0.0
    a_unit = legs.commission / size

    def part(amount: Array) -> _Legs:
        taken = amount > 0.0
        signed = np.sign(legs.quantity[taken]) * amount[taken]
        return _Legs(legs.bar[taken], signed, legs.price[taken], a_unit[taken])

    return part(opening), part(closing)
