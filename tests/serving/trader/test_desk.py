"""The desk's books across restarts: stored by symbol and name, and read from earlier versions' positions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from trading import FIRST, SPAN, Rule, small_market, small_panel

from pacesetter.market.bars import Bar
from pacesetter.market.parameters import Limits, StartingHolding, SymbolCost
from pacesetter.panel import Panel
from pacesetter.policies.policy import Snapshot
from pacesetter.serving.api.runtime import Holding, ReportedAccount, ReportedBroker
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.order import Order, State
from pacesetter.serving.trader.broker import OrderStatus
from pacesetter.serving.trader.desk import LOW_CONFIDENCE, Desk, OrderOptions, Ticket, last_bars
from pacesetter.serving.trader.paper_broker import PaperBroker

BARS = 12


def play(desk: Desk, panel: Panel, first: int, last: int) -> list[Ticket]:
    """The tickets of the bars from `first` to `last`."""
    tickets = []
    for t in range(first, last):
        so_far = panel.rows(0, t + 1)
        bars, now = last_bars(so_far), so_far.index[-1].timestamp()
        desk.settle(so_far, bars, now)
        blank = {"position": np.zeros(0), "portfolio": np.zeros(0)}
        tickets.append(desk.decide(Snapshot(so_far, t, blank, None, FIRST), bars, now))
    return tickets


def fresh(panel: Panel) -> Desk:
    return Desk(Rule("continuous"), Guard(), panel.symbols, small_market(panel))


def positional(state: dict[str, Any], symbols: tuple[str, ...]) -> dict[str, Any]:
    """The state as an earlier version wrote it: rows of numbers in the order of symbols and columns."""
    rows = {name: [list(state[name][symbol].values()) for symbol in symbols] for name in ("positions", "bar")}
    signals = [state["signals"][symbol] for symbol in symbols]
    account = list(state["account"].values())
    return state | rows | {"signals": signals, "account": account, "weights": [0.0] * len(symbols)}


def shuffled(state: dict[str, Any], symbols: tuple[str, ...]) -> dict[str, Any]:
    """The same state with every key in another place."""
    return json.loads(json.dumps(state, sort_keys=True))


@pytest.mark.parametrize("written", [shuffled, positional])
def test_a_restored_desk_goes_on_to_the_bit(written: Any) -> None:
    panel = small_panel()
    whole = fresh(panel)
    expected = play(whole, panel, FIRST, FIRST + 2 * BARS)[BARS:]
    before = fresh(panel)
    play(before, panel, FIRST, FIRST + BARS)
    state = json.loads(json.dumps(before.to_dict()))
    assert state["positions"].keys() == state["signals"].keys() == state["bar"].keys() == set(panel.symbols)
    assert state["account"].keys() == {"cash", "equity", "peak_equity", "liquidating"}
    after = fresh(panel)
    after.restore(written(state, panel.symbols))
    found = play(after, panel, FIRST + BARS, FIRST + 2 * BARS)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.quantities, other.quantities)
        assert one.decisions == other.decisions
    assert after.to_dict() == whole.to_dict()
    assert any(ticket.quantities.any() for ticket in expected)


def test_an_order_that_was_never_taken_leaves_its_symbol_as_it_is() -> None:
    panel = small_panel()
    desk, t = fresh(panel), FIRST
    while not (ticket := play(desk, panel, t, t + 1)[0]).orders:
        t += 1
    held = desk.broker.positions.copy()
    for order in ticket.orders:
        desk.drop(order.client_id)
    so_far = panel.rows(0, t + 2)
    desk.settle(so_far, last_bars(so_far), so_far.index[-1].timestamp())
    np.testing.assert_array_equal(desk.broker.positions[:, 0], held[:, 0])


class SureRule(Rule):
    """A rule that says how sure it is of each symbol."""

    def __init__(self, confidence: list[float]) -> None:
        super().__init__("continuous")
        self.confidence = np.array(confidence)


def test_entries_below_the_least_confidence_are_refused_and_exits_are_not() -> None:
    panel = small_panel()
    options = OrderOptions(min_confidence=0.6, limit_below=0.5)
    sure = SureRule([0.4, 0.55, 0.65, 0.9])
    desk = Desk(sure, Guard(), panel.symbols, small_market(panel), options=options)
    tickets = play(desk, panel, FIRST, FIRST + BARS)
    asked = [decision for ticket in tickets for decision in ticket.decisions]
    refused = {decision.order.symbol for decision in asked if decision.reason == LOW_CONFIDENCE}
    assert refused <= set(panel.symbols[:2])
    assert refused
    assert all(order.symbol not in refused for ticket in tickets for order in ticket.orders)
    sure.confidence = np.full(4, 0.1)  # now unsure of everything: what is held may still be left
    later = play(desk, panel, FIRST + BARS, FIRST + 3 * BARS)
    sent = [order for ticket in later for order in ticket.orders]
    assert sent
    assert all(order.quantity < 0 and order.kind == "limit" for order in sent)


def test_without_options_a_confidence_changes_nothing() -> None:
    panel = small_panel()
    plain, sure = fresh(panel), Desk(SureRule([0.1] * 4), Guard(), panel.symbols, small_market(panel))
    told = [[ticket.quantities.tolist() for ticket in play(desk, panel, FIRST, FIRST + BARS)] for desk in (plain, sure)]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("quantity", "price", "kind", "is_filled"),
    [(5.0, 99.0, "limit", False), (5.0, 101.0, "limit", True), (5.0, 99.0, "market", True)],
)
def test_a_limit_order_is_filled_at_its_limit_or_better(
    quantity: float, price: float, kind: str, is_filled: bool
) -> None:
    panel = small_panel()
    broker = PaperBroker(panel.symbols, small_market(panel))
    now = last_bars(panel)[-1].copy()
    now[:, :4] = 100.0
    order = Order("a", panel.symbols[0], quantity, price, kind)
    found = broker.settle(now, now, [order], SPAN)
    assert found.closed["a"] == (OrderStatus.FILLED if is_filled else OrderStatus.CANCELLED)
    assert bool(found.executions) == is_filled


def test_a_halt_flattens_every_position_where_that_is_asked_for() -> None:
    panel = small_panel()
    desk = fresh(panel)
    play(desk, panel, FIRST, FIRST + BARS)
    assert np.any(desk.broker.positions[:, 0])
    so_far = panel.rows(0, FIRST + BARS + 1)
    bars, now = last_bars(so_far), so_far.index[-1].timestamp()
    desk.settle(so_far, bars, now)
    desk.guard.halt("drill")
    ticket = desk.flatten_orders(so_far, bars, now)
    assert ticket.orders
    later = panel.rows(0, FIRST + BARS + 2)
    desk.settle(later, last_bars(later), later.index[-1].timestamp())
    assert not np.any(desk.broker.positions[:, 0])
    assert desk.guard.state is State.HALTED


def test_a_paper_book_begins_with_its_holdings_and_costs_of_single_symbols() -> None:
    panel = small_panel()
    first, second = panel.symbols[:2]
    costs = replace(small_market(panel).costs, by_symbol=(SymbolCost(second, 100.0),))
    market = replace(small_market(panel), costs=costs, holdings=(StartingHolding(first, 3.0),))
    desk = Desk(Rule("continuous"), Guard(), panel.symbols, market)
    so_far = panel.rows(0, FIRST + 1)
    settlement = desk.settle(so_far, last_bars(so_far), so_far.index[-1].timestamp())
    assert [(each.symbol, each.quantity, each.reason) for each in settlement.executions] == [
        (first, 3.0, "starting holding")
    ]
    price = float(so_far.close[-1, 0])
    assert desk.equity == pytest.approx(market.initial_cash + 3.0 * price)
    bar = last_bars(so_far)[-1]
    found = desk.broker.settle(bar, bar, [Order("a", second, 1.0, bar[1, 3]), Order("b", first, 1.0, bar[0, 3])], SPAN)
    moved = {each.symbol: each.price / bar[panel.symbols.index(each.symbol), 0] - 1 for each in found.executions}
    assert moved[second] - moved[first] == pytest.approx(0.01)


def test_openings_beyond_the_gross_limit_are_cut_by_one_factor_where_orders_go_elsewhere() -> None:
    panel = small_panel()
    market = replace(small_market(panel), limits=Limits(position_cap_fraction=0.5))
    broker = ReportedBroker(panel.symbols)
    desk = Desk(Rule("target"), Guard(GuardLimits.of(market)), panel.symbols, market, broker)
    prices = last_bars(panel)[-1, :, Bar.CLOSE]
    broker.report(ReportedAccount(30_000.0, {panel.symbols[0]: Holding(70_000.0 / prices[0], prices[0])}), prices)
    desk.settle(panel, last_bars(panel), panel.index[-1].timestamp())
    # 20 % of the first are sold, so that 50 % are held; 40 % and 60 % are asked for: half of each fits.
    asked = np.array([-0.2, 0.4, 0.6, 0.0]) * 100_000.0 / prices
    np.testing.assert_allclose(desk._cut_to_gross(asked) * prices / 100_000.0, [-0.2, 0.2, 0.3, 0.0])
    fits = asked / 2.0
    assert desk._cut_to_gross(fits * [1, 0.5, 0.5, 1]).tolist() == (fits * [1, 0.5, 0.5, 1]).tolist()
    # Nothing is asked for where nothing may be: an account beyond its limit does not divide by zero.
    broker.report(ReportedAccount(-60_000.0, {panel.symbols[0]: Holding(70_000.0 / prices[0], prices[0])}), prices)
    assert not desk._cut_to_gross(np.zeros(4)).any()
    assert desk._cut_to_gross(asked)[1:].tolist() == [0.0, 0.0, 0.0]
