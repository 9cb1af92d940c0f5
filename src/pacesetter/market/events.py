"""What happens to holdings between two closes besides prices: funding, dividends and splits, before the bar's fills."""

from __future__ import annotations

from pacesetter.arrays import Floats
from pacesetter.market.bars import Bar
from pacesetter.market.jit import seldom
from pacesetter.market.ledger import Column, Fill
from pacesetter.market.state import Account, Position

__all__ = ["settle_events"]


@seldom
def settle_events(account: Floats, positions: Floats, ledger: Floats, fills: Floats, now: Floats, bar: Floats) -> None:
    """Settle the events of bar t+1 on what was held at the close of t; orders follow a split."""
    for k in range(positions.shape[0]):
        held = positions[k, Position.QUANTITY]
        if held != 0.0:
            # Funding is due at the stamp of the bar, at which its first price, or the mark of the close before, holds.
            price = now[k, Bar.MARK] if now[k, Bar.MARK] > 0.0 else bar[k, Bar.OPEN]
            ledger[Column.FUNDING] -= held * price * bar[k, Bar.FUNDING]
            ledger[Column.DIVIDEND] += held * bar[k, Bar.DIVIDEND]
        ratio = bar[k, Bar.SPLIT]
        if ratio > 0.0 and ratio != 1.0:
            # `carry` booked the old quantity to the new close.
            ledger[Column.GROSS_PNL] += held * (ratio - 1.0) * bar[k, Bar.CLOSE]
            positions[k, Position.QUANTITY] = held * ratio
            positions[k, Position.ENTRY_PRICE] /= ratio
            positions[k, Position.BEST_PRICE] /= ratio
            fills[k, Fill.ORDERED] *= ratio
            fills[k, Fill.SPLIT] = ratio
    account[Account.CASH] += ledger[Column.FUNDING] + ledger[Column.DIVIDEND]
