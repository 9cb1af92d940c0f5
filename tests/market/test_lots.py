"""Lots, first in, first out: a hand-made book, and an independent engine on random fills."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from pacesetter.errors import DataError
from pacesetter.market.ledger import Fill
from pacesetter.market.lots import match_lots
from pacesetter.market.trades import trades


def fills_of(*legs: tuple[float, float, float]) -> np.ndarray:
    """(step, 1, Fill) of one symbol: (quantity, price, commission) in each bar."""
    rows = np.zeros((len(legs), 1, len(Fill)))
    for row, (quantity, price, commission) in zip(rows, legs, strict=True):
        row[0, [Fill.QUANTITY, Fill.PRICE, Fill.COMMISSION]] = quantity, price, commission
    return rows


def naive(rows: np.ndarray) -> list[tuple[int, int, float, float, float, float]]:
    """Written apart: one unit of bookkeeping at a time. (entry, exit, quantity, entry price, exit price, pnl)."""
    book: deque[list[float]] = deque()  # [bar, signed quantity left, price, commission a unit]
    closed = []
    for bar, row in enumerate(rows):
        for quantity, price, commission in (
            (row[Fill.QUANTITY], row[Fill.PRICE], row[Fill.COMMISSION]),
            (row[Fill.EXIT_QUANTITY], row[Fill.EXIT_PRICE], row[Fill.EXIT_COMMISSION]),
        ):
            if quantity == 0:
                continue
            left, unit = quantity, commission / abs(quantity)
            while left and book and book[0][1] * left < 0:
                lot = book[0]
                part = min(abs(left), abs(lot[1]))
                side = 1 if lot[1] > 0 else -1
                gain = side * part * (price - lot[2]) - part * (unit + lot[3])
                closed.append((int(lot[0]), bar, side * part, lot[2], price, gain))
                lot[1] -= side * part
                left += side * part
                if lot[1] == 0:
                    book.popleft()
            if left:
                book.append([bar, left, price, unit])
    return sorted(closed)


def test_partial_exits_close_the_oldest_first() -> None:
    lots = match_lots(fills_of((10, 100, 1), (10, 110, 1), (-15, 120, 3), (-5, 90, 1)))
    assert lots.quantity.tolist() == [10, 5, 5]
    assert lots.entry_bar.tolist() == [0, 1, 1]
    assert lots.exit_bar.tolist() == [2, 2, 3]
    assert lots.pnl.tolist() == pytest.approx([200 - 1 - 2, 50 - 0.5 - 1, -100 - 0.5 - 1])
    assert lots.is_closed.all()


def test_a_fill_that_turns_the_position_is_parted() -> None:
    lots = match_lots(fills_of((4, 10, 0), (-6, 12, 3), (1, 11, 0)))
    assert lots.quantity.tolist() == [4, -1, -1]
    assert lots.pnl.tolist() == pytest.approx([8 - 2, 1 - 0.5, -0.5])
    assert lots.exit_bar.tolist() == [1, 2, -1]
    assert len(lots.drop_open().pnl) == 2


def test_daily_rebalancing_has_lots_and_no_round_trip() -> None:
    steps = [(10, 100, 0), *[(1, 100, 0), (-1, 101, 0)] * 20]
    assert len(match_lots(fills_of(*steps)).drop_open().pnl) == 20
    assert [trade.exit_bar for trade in trades(fills_of(*steps))] == [None]


def random_fills(seed: int, symbols: int = 3, bars: int = 60) -> np.ndarray:
    """Whole quantities, so that flat moments are exact: longs, shorts, partial exits, turns, exits within the bar."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((bars, symbols, len(Fill)))
    for symbol in range(symbols):
        held = 0.0
        for row in rows[:, symbol]:
            row[Fill.PRICE], row[Fill.EXIT_PRICE] = 100 + 10 * rng.standard_normal(2)
            if rng.random() < 0.6:
                row[Fill.QUANTITY] = rng.integers(-8, 9)
                row[Fill.COMMISSION] = 0.1 * abs(row[Fill.QUANTITY])
                held += row[Fill.QUANTITY]
            if held and rng.random() < 0.2:
                row[Fill.EXIT_QUANTITY], row[Fill.EXIT_COMMISSION] = -held, rng.random()
                held = 0.0
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_an_independent_engine_has_the_same_lots(seed: int) -> None:
    rows = random_fills(seed)
    lots = match_lots(rows)
    for symbol in range(rows.shape[1]):
        own = lots.to_frame().query("position == @symbol and exit_bar >= 0")
        columns = ["entry_bar", "exit_bar", "quantity", "entry_price", "exit_price", "pnl"]
        expected = naive(rows[:, symbol])
        assert own[columns].sort_values(columns).to_numpy() == pytest.approx(np.array(expected).reshape(-1, 6))
        # What is neither closed nor lost is still held.
        open_ = lots.to_frame().query("position == @symbol and exit_bar < 0")["quantity"].sum()
        held = rows[:, symbol, [Fill.QUANTITY, Fill.EXIT_QUANTITY]].sum()
        assert open_ == pytest.approx(held, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_lots_and_trades_earn_the_same_once_flat(seed: int) -> None:
    """First in, first out and the mean entry price divide the same money differently."""
    rng = np.random.default_rng(seed)
    quantities = rng.standard_normal(50).cumsum().clip(0.1)
    steps = np.diff(np.concatenate([[0.0], quantities, [0.0]]))
    steps[-1] = -np.cumsum(steps[:-1])[-1]  # exactly flat
    rows = fills_of(*((step, 100 + rng.standard_normal(), 0.2 * abs(step)) for step in steps))
    lots = match_lots(rows)
    assert lots.is_closed.all()
    assert lots.pnl.sum() == pytest.approx(sum(trade.pnl for trade in trades(rows)), abs=1e-6)


def test_fills_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"give \(step, position, 9\) of one account"):
        match_lots(np.zeros((3, 2)))
    assert len(match_lots(np.zeros((3, 2, len(Fill)))).pnl) == 0
