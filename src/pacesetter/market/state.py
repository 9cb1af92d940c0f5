"""What an account remembers between bars: one row for the account, one row for each of its positions."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Account", "Position"]


class Account(IntEnum):
    """Columns of `accounts` (env, column)."""

    CASH = 0
    EQUITY = 1  # at the last close
    PEAK_EQUITY = 2
    LIQUIDATING = 3  # 1 from the bar after the close at which the portfolio's loss limit was met


class Position(IntEnum):
    """Columns of `positions` (env, position, column)."""

    QUANTITY = 0  # signed, fractions allowed
    ENTRY_PRICE = 1  # mean fill price of what is held; 0 when flat
    BEST_PRICE = 2  # highest since entry of a long, lowest of a short, this far back as closed bars show
    SIGNAL = 3  # the smoothed order s, which the agent observes
    BARS_HELD = 4
    IMPACT = 5  # what own fills still move its price by, as a fraction of it; above 0 after purchases
