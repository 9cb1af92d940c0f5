"""Each order rule from its definition, on one flat bar of 100 without costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.market import (
    Costs,
    Discrete,
    Limits,
    MarketBars,
    MarketParameters,
    OrderKind,
    Orders,
    as_continuous,
)
from pacesetter.market.ledger import Column
from pacesetter.market.orders import check_actions, order_quantity, signal

FREE = Costs(commission_bps=0, spread_bps=0, slippage_bps=0, borrow_bps_per_year=0)
RULES = MarketParameters(FREE)
SHORT = MarketParameters(FREE, Limits(shorting=True))
FLAT = MarketBars.from_arrays(np.full((12, 1), 100.0))
CONTINUOUS, DISCRETE, TARGET, QUANTITY = OrderKind


def quantity(order: float, held: float = 0.0, *, kind: int = CONTINUOUS, rules: MarketParameters = RULES) -> float:
    """What an order asks for at a price of 100 with an equity of 100,000."""
    free_cash = 100_000 - abs(held) * 100
    return order_quantity(order, kind, held, 100.0, 100_000.0, free_cash, rules.to_vector())


@pytest.mark.parametrize(
    ("order", "held", "expected"),
    [
        (0.09, 0, 0),  # inside the hold zone
        (-0.09, 100, 0),
        (0.1, 0, 15),  # 0.1 · 0.15 · 100,000 / 100
        (1.0, 0, 150),
        (1.0, 50, 100),  # 0.15 · 95,000 = 14,250, but the cap of 15,000 leaves 10,000
        (1.0, 150, 0),  # at the cap
        (1.0, 200, 0),  # above the cap by price: no forced sale
        (-0.4, 100, -40),
        (-1.0, 100, -100),
        (-1.0, 0, 0),  # long only
        (0.1, 149.9, 0),  # room of 10 is under the minimum trade of 25
        (-0.5, 0.4, -0.4),  # a rest of 20 would be under it: all is sold
        (-0.1, 2, 0),  # a sale of 20 is under it
    ],
)
def test_continuous(order: float, held: float, expected: float) -> None:
    assert quantity(order, held) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("order", "held", "expected"), [(-1.0, 0, -150), (-0.5, -20, -73.5), (0.5, -20, 10), (1.0, -20, 20), (-1, 30, -30)]
)
def test_continuous_with_shorts(order: float, held: float, expected: float) -> None:
    assert quantity(order, held, rules=SHORT) == pytest.approx(expected, abs=1e-12)


BANDED = MarketParameters(FREE, band=0.05)
BANDED_SHORT = MarketParameters(FREE, limits=Limits(shorting=True), band=0.05)


@pytest.mark.parametrize(
    ("weight", "held", "rules", "expected"),
    [
        (0.1, 0, RULES, 100),
        (0.1, 150, RULES, -50),
        (0.5, 0, RULES, 150),  # capped
        (0.0, 70, RULES, -70),
        (0.1, 99.9, RULES, 0),  # a change of 10 is under the minimum trade
        (-0.1, 0, SHORT, -100),
        (-0.1, 30, SHORT, -30),  # closes first, opens with the next order
        (-0.1, 30, RULES, -30),
        (0.1, 60, BANDED, 0),  # 0.06 is within 0.05 of 0.1
        (0.1, 50, BANDED, 50),  # the edge of the band trades, all the way
        (0.1, 151, BANDED, -51),
        (0.5, 120, BANDED, 0),  # the cap of 0.15 is the target
        (0.0, 30, BANDED, -30),  # out is out
        (0.04, 0, BANDED, 0),  # and a target within the band is not entered
        (-0.04, 30, BANDED_SHORT, -30),  # a flip closes first
        (-0.1, -60, BANDED_SHORT, 0),
        (-0.1, -40, BANDED_SHORT, -60),
    ],
)
def test_target_weight(weight: float, held: float, rules: MarketParameters, expected: float) -> None:
    assert quantity(weight, held, kind=TARGET, rules=rules) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("order", "held", "expected"),
    [
        (12.5, 0.0, 12.5),
        (500.0, 0.0, 500.0),  # half of equity: the cap was looked at where it was sized
        (12.5, 20.0, 12.5),
        (-12.5, 20.0, -12.5),
        (-25.0, 20.0, -20.0),  # never through zero
        (0.0, 20.0, 0.0),
        (0.1, 0.0, 0.0),  # below the minimum trade of 25
    ],
)
def test_a_quantity_is_sent_as_it_is(order: float, held: float, expected: float) -> None:
    assert quantity(order, held, kind=QUANTITY) == expected


def test_a_quantity_opens_a_short_only_where_shorts_are_allowed() -> None:
    assert quantity(-5.0, kind=QUANTITY) == 0.0
    assert quantity(-5.0, kind=QUANTITY, rules=SHORT) == -5.0
    assert quantity(-5.0, -5.0, kind=QUANTITY, rules=SHORT) == -5.0


@pytest.mark.parametrize("kind", [CONTINUOUS, DISCRETE, TARGET])
@pytest.mark.parametrize("held", [0.0, 30.0, 0.2])
def test_a_sized_order_asks_for_the_same_again(kind: OrderKind, held: float) -> None:
    for order in (0, 1) if kind != DISCRETE else range(7):
        sized = quantity(order, held, kind=kind)
        assert quantity(sized, held, kind=QUANTITY) == sized


def test_smoothing_over_three_bars_halves_the_way_each_time(play: Callable[..., Any]) -> None:
    played = play(FLAT, [1.0, 1.0, 1.0, -1.0], RULES, CONTINUOUS)
    assert played.signal[:, 0].tolist() == [0.5, 0.75, 0.875, -0.0625]


def test_smoothing_cuts_the_variance_of_actions_by_more_than_30_percent() -> None:
    actions, order, smoothed = np.random.default_rng(0).uniform(-1, 1, 5_000), 0.0, []
    for action in actions:
        order = signal(action, CONTINUOUS, order, 0.0, RULES.to_vector())
        smoothed.append(order)
    assert np.var(smoothed) < 0.7 * np.var(actions)


def test_seven_discrete_orders(play: Callable[..., Any]) -> None:
    bought = [play(FLAT, [action], RULES).quantity[-1, 0] for action in Discrete]
    assert bought == pytest.approx([0, 50, 100, 150, 0, 0, 0])
    sold = [play(FLAT, [Discrete.BUY_LARGE, action], RULES).quantity[-1, 0] for action in Discrete]
    assert sold == pytest.approx([150, 150, 150, 150, 75, 0, 150])


def test_add_to_winner_only_adds_to_a_winner(play: Callable[..., Any]) -> None:
    for drift, grows in ((1.01, True), (0.99, False)):
        bars = MarketBars.from_arrays(100 * drift ** np.arange(4.0)[:, None])
        played = play(bars, [Discrete.BUY_SMALL, Discrete.HOLD, Discrete.ADD_TO_WINNER], RULES)
        assert (played.quantity[2, 0] > played.quantity[1, 0]) == grows
        short = play(bars, [Discrete.SELL_PART, Discrete.HOLD, Discrete.ADD_TO_WINNER], SHORT)
        assert (short.quantity[2, 0] < short.quantity[1, 0]) != grows


def test_discrete_orders_trade_like_the_continuous_ones_they_map_to(play: Callable[..., Any]) -> None:
    actions = [Discrete.BUY_MEDIUM, Discrete.HOLD, Discrete.SELL_PART, Discrete.BUY_SMALL, Discrete.SELL_ALL]
    unsmoothed = MarketParameters(FREE, orders=Orders(smoothing_bars=1))
    discrete = play(FLAT, actions, unsmoothed, DISCRETE)
    continuous = play(FLAT, list(as_continuous(actions)), unsmoothed, CONTINUOUS)
    assert discrete.ledger == pytest.approx(continuous.ledger, rel=1e-12)


@pytest.mark.parametrize(
    ("actions", "kind", "message"),
    [
        ([[np.nan]], CONTINUOUS, r"action nan at \(0, 0\) is not a continuous order; give a number from -1 to 1"),
        ([[1.5]], CONTINUOUS, "action 1.5"),
        ([[7]], DISCRETE, "give a whole number from 0 to 6"),
        ([[0.5]], DISCRETE, "whole number"),
        ([[-0.1]], TARGET, "give a number from 0 to 1"),
    ],
)
def test_actions_outside_their_box_are_refused(actions: Any, kind: OrderKind, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_actions(np.array(actions, dtype=float), kind, shorting=False)


SPECKS = MarketParameters(FREE, Limits(shorting=True, position_cap_fraction=1), orders=Orders(minimum_trade=0.0))


@pytest.mark.parametrize(
    ("order", "held", "kind", "expected"),
    [
        (-1.6e-18, 0.0, TARGET, 0.0),  # rounding is not a short
        (1e-10, 0.0, TARGET, 0.0),  # 1e-5 of money
        (2e-9, 0.0, TARGET, 2e-6),
        (-1.6e-18, 0.0, QUANTITY, 0.0),
        (0.1, 100.0 + 1e-13, TARGET, 0.0),  # nor is it a sale
        (0.1, 100.0 - 1e-13, TARGET, 0.0),
        (0.0, 1e-13, TARGET, -1e-13),  # what is left of a position can always be closed
        (1e-11, 100.0, TARGET, -100.0),  # and a sale leaves no speck
    ],
)
def test_what_rounding_leaves_is_not_an_order(order: float, held: float, kind: int, expected: float) -> None:
    assert quantity(order, held, kind=kind, rules=SPECKS) == pytest.approx(expected, rel=1e-12, abs=0)


def test_a_speck_neither_pays_a_commission_nor_blocks_an_entry(play: Callable[..., Any]) -> None:
    costs = Costs(commission_bps=0, spread_bps=0, slippage_bps=0, borrow_bps_per_year=0, minimum_commission=5)
    rules = MarketParameters(costs, Limits(shorting=True, position_cap_fraction=1), orders=Orders(minimum_trade=0.0))
    played = play(FLAT, [-1.6e-18, 0.1], rules, TARGET)
    assert played.quantity[:, 0].tolist() == [0.0, 100.0]
    assert played.ledger[:, Column.COMMISSION].tolist() == [0.0, 5.0]


def test_cash_that_rounding_leaves_buys_nothing(play: Callable[..., Any]) -> None:
    # all is spent on the first; of the second, the cut to the free cash leaves 9e-14 shares
    costs = Costs(commission_bps=12.1, spread_bps=14.6, slippage_bps=0, borrow_bps_per_year=0)
    rules = MarketParameters(costs, Limits(position_cap_fraction=1), orders=Orders(minimum_trade=0.0))
    flat = MarketBars.from_arrays(np.full((12, 2), 163.54))
    played = play(flat, [[1.0, 0.0], [1.0, 0.3], [1.0, 0.3], [1.0, 0.3]], rules, TARGET)
    assert played.quantity[:, 1].tolist() == [0.0] * 4
