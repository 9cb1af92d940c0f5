"""Trades rebuilt from fills: each runs from flat to flat, and its P&L is exactly what the ledger realised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.market.jit import SOURCE_DIGEST, compile_for_cpu
from pacesetter.market.ledger import Fill, Flag

__all__ = ["Trade", "count_round_trips", "follow_splits", "trades"]

_EXITS = (Flag.STOP_LOSS, Flag.TRAILING_STOP, Flag.TAKE_PROFIT, Flag.LIQUIDATED, Flag.DELISTED)
ROUNDING = 1e-12  # of a position: what splits that follow each other may leave of it
_LIMITS = (Flag.POSITION_LIMIT, Flag.PORTFOLIO_LIMIT)


@dataclass
class Trade:
    """One position from its opening to its closing; still open where `exit_bar` is None.

    quantity      signed quantity bought (a long) or sold (a short) in all
    entry_price   mean price of what was opened; `exit_price` of what was closed, 0 before any was
    pnl           realised so far, after commission; borrow and interest belong to the account
    reason        what closed it: "order", or the stop or limit by name
    """

    position: int
    entry_bar: int
    exit_bar: int | None = None
    quantity: float = 0.0
    entry_price: float = 0.0
    exit_price: float = 0.0
    commission: float = 0.0
    pnl: float = 0.0
    reason: str = ""


def trades(fills: ArrayLike, first_bar: int = 0) -> list[Trade]:
    """All trades in one account's `fills` (step, position, column of `Fill`), the first step filling in `first_bar`."""
    rows = follow_splits(_check_fills(fills))
    by_position = (_of_position(rows[:, position], position, first_bar) for position in range(rows.shape[1]))
    return sorted(chain.from_iterable(by_position), key=lambda trade: (trade.entry_bar, trade.position))


def count_round_trips(fills: ArrayLike) -> int:
    """How many of `trades` are closed.

    Compiled, since an account that rebalances has a fill for each bar and symbol.
    """
    rows = follow_splits(_check_fills(fills))
    return int(_count_closed(np.ascontiguousarray(rows[..., [Fill.QUANTITY, Fill.EXIT_QUANTITY]]), ROUNDING))


def _check_fills(fills: ArrayLike) -> Array:
    rows = np.asarray(fills, dtype=np.float64)
    if rows.ndim != 3 or rows.shape[2] != len(Fill):
        raise DataError(f"fills have shape {rows.shape}; give (step, position, {len(Fill)}) of one account")
    return rows


def _compile_count(digest: int) -> Any:
    def count_closed(quantities: Array, rounding: float) -> int:
        closed = 0 * digest
        for k in range(quantities.shape[1]):
            held = 0.0
            for t in range(quantities.shape[0]):
                for leg in range(2):  # the order's own, then the bar's exit
                    quantity = quantities[t, k, leg]
                    if quantity == 0.0:
                        continue
                    after = held + quantity
                    if abs(after) <= rounding * abs(held):
                        after = 0.0
                        closed += 1
                    held = after
        return closed

    return compile_for_cpu(count_closed)


_count_closed = _compile_count(SOURCE_DIGEST)


def follow_splits(fills: Array) -> Array:
    """The fills (step, position, Fill) in shares after the last split, so that what was bought can be what was sold."""
    splits = fills[..., Fill.SPLIT]
    if not splits.any():
        return fills
    ratios = np.where(splits > 0, splits, 1.0)
    # A split comes before the fills of its bar: theirs are new shares already.
    later = np.cumprod(np.vstack([ratios[1:], np.ones_like(ratios[:1])])[::-1], axis=0)[::-1]
    rows = fills.copy()
    for column in (Fill.ORDERED, Fill.QUANTITY, Fill.EXIT_QUANTITY):
        rows[..., column] *= later
    for column in (Fill.PRICE, Fill.EXIT_PRICE):
        rows[..., column] /= later
    return rows


def _of_position(rows: Array, position: int, first_bar: int) -> Iterator[Trade]:
    held, entry, closed, trade = 0.0, 0.0, 0.0, None
    for bar, quantity, price, commission, reason in _legs(rows, first_bar):
        if trade is None:
            trade = Trade(position, bar)
            held, entry, closed = 0.0, 0.0, 0.0
        trade.commission += commission
        trade.pnl -= commission
        after = held + quantity
        after = 0.0 if abs(after) <= ROUNDING * abs(held) else after
        if held * quantity >= 0.0:
            entry = (held * entry + quantity * price) / after
            trade.entry_price = (trade.quantity * trade.entry_price + quantity * price) / (trade.quantity + quantity)
            trade.quantity += quantity
        else:
            trade.pnl -= quantity * (price - entry)
            trade.exit_price = (closed * trade.exit_price - quantity * price) / (closed - quantity)
            closed -= quantity
        held = after
        if held == 0.0:
            trade.exit_bar, trade.reason = bar, reason
            yield trade
            trade = None
    if trade is not None:
        yield trade


def _legs(rows: Array, first_bar: int) -> Iterator[tuple[int, float, float, float, str]]:
    """(bar, quantity, price, commission, reason) of each fill in order: the order's own, then the bar's exit."""
    for step in np.flatnonzero(rows[:, Fill.QUANTITY].astype(bool) | rows[:, Fill.EXIT_QUANTITY].astype(bool)):
        row, bar = rows[step], first_bar + int(step)
        flags = int(row[Fill.FLAGS])
        if row[Fill.QUANTITY] != 0.0:
            yield bar, row[Fill.QUANTITY], row[Fill.PRICE], row[Fill.COMMISSION], _name_reason(flags, _LIMITS)
        if row[Fill.EXIT_QUANTITY] != 0.0:
            yield (
                bar,
                row[Fill.EXIT_QUANTITY],
                row[Fill.EXIT_PRICE],
                row[Fill.EXIT_COMMISSION],
                _name_reason(flags, _EXITS),
            )


def _name_reason(flags: int, reasons: tuple[Flag, ...]) -> str:
    return next((reason.name.lower() for reason in reasons if flags & reason), "order")
