"""Trades from fills: flat to flat, averaged prices, reasons."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.errors import DataError
from pacesetter.market import Fill, Flag
from pacesetter.market.trades import count_round_trips, trades


def row(quantity: float = 0, price: float = 0, exit_quantity: float = 0, exit_price: float = 0, flags: int = 0) -> list:
    values = dict.fromkeys(Fill, 0.0)
    values |= {Fill.QUANTITY: quantity, Fill.PRICE: price, Fill.COMMISSION: 1.0 if quantity else 0.0}
    values |= {Fill.EXIT_QUANTITY: exit_quantity, Fill.EXIT_PRICE: exit_price, Fill.FLAGS: flags}
    return [[values[column] for column in Fill]]


def test_a_pyramid_sold_in_two_parts_and_a_short_that_is_still_open() -> None:
    fills = [row(10, 100), row(10, 110), row(-5, 120), row(), row(-15, 100), row(-4, 90)]
    long, short = trades(np.array(fills), first_bar=7)
    assert (long.entry_bar, long.exit_bar, long.quantity, long.reason) == (7, 11, 20, "order")
    assert long.entry_price == 105
    assert long.exit_price == 105
    assert long.pnl == 5 * 15 - 15 * 5 - 4
    assert (short.entry_bar, short.exit_bar, short.quantity, short.pnl) == (12, None, -4, -1)


def test_a_stop_in_the_bar_of_the_entry_and_a_limit_name_their_reasons() -> None:
    fills = [row(10, 100, -10, 95, Flag.OPENED | Flag.CLOSED | Flag.STOP_LOSS), row(10, 100), row(-10, 90, flags=128)]
    stopped, limited = trades(np.array(fills))
    assert (stopped.entry_bar, stopped.exit_bar, stopped.reason, stopped.pnl) == (0, 0, "stop_loss", -51)
    assert (limited.reason, limited.pnl) == ("position_limit", -102)


def test_round_trips_are_the_closed_trades() -> None:
    draw = np.random.default_rng(0)
    fills = np.zeros((400, 3, len(Fill)))
    held = np.zeros(3)
    for step in range(400):
        for k in range(3):
            # Tenths, so that what is sold again leaves the dust of rounding; every fifth fill closes all.
            amount = -held[k] if draw.random() < 0.2 else 0.1 * draw.integers(1, 9)
            column = Fill.EXIT_QUANTITY if amount < 0 and draw.random() < 0.5 else Fill.QUANTITY
            fills[step, k, column] = amount * (draw.random() < 0.7)
            held[k] += fills[step, k, column]
    fills[..., [Fill.PRICE, Fill.EXIT_PRICE]] = 100.0
    fills[200, 1, Fill.SPLIT] = 1.0  # of one for one
    closed = [trade for trade in trades(fills) if trade.exit_bar is not None]
    assert count_round_trips(fills) == len(closed) > 100


def test_fills_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"fills have shape \(3, 2\)"):
        trades(np.zeros((3, 2)))
    with pytest.raises(DataError, match=r"fills have shape \(3, 2\)"):
        count_round_trips(np.zeros((3, 2)))
