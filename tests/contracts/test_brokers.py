"""Over every registered broker: traded once, fills told once, rounded towards zero, stops or none, the guard knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pacesetter_example_broker import TicketOptions
from trading import FIRST, SPAN, small_panel
from venues import CALM, MARKET, Rig, Targets, hurry, open_rig

from pacesetter.errors import ConfigError
from pacesetter.market.bars import Bar
from pacesetter.market.state import Position
from pacesetter.panel import Panel
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.order import STOP, Order
from pacesetter.serving.trader.broker import BROKERS, Broker, OrderStatus, Settlement, broker_options
from pacesetter.serving.trader.ccxt_broker import CcxtOptions
from pacesetter.serving.trader.desk import Desk, last_bars

CASES = {  # case -> (registered name, kind of exchange behind it)
    "paper": ("paper", "alpaca"),
    "alpaca": ("alpaca", "alpaca"),
    "spot": ("ccxt", "spot"),
    "linear": ("ccxt", "linear"),
    "dry run": ("ccxt", "spot"),
    "plugin": ("tickets", "alpaca"),
}


class Case:
    """A broker, and the market that its orders meet."""

    def __init__(self, name: str, rig: Rig) -> None:
        self.name, self.rig, self.panel = name, rig, rig.panel
        self.broker, self.now = self.open(), last_bars(rig.panel.rows(0, FIRST + 1))[-1]
        self.broker.begin(self.now)
        self.bars = 0

    def open(self, **options: Any) -> Broker:
        symbols = self.panel.symbols
        match self.name:
            case "paper":
                return broker_options({"name": "paper"}).open(symbols, MARKET)
            case "plugin":
                return TicketOptions(path=str(self.rig.folder / "orders.csv")).open(symbols, MARKET)
            case "dry run":
                return CcxtOptions(dry_run=True, **options).open(symbols, MARKET)
        return self.rig.broker(**options)

    def order(self, client_id: str, quantity: float) -> Order:
        fitted = self.broker.fit_order(Order(client_id, self.panel.symbols[0], quantity, self.price), 0.0)
        assert isinstance(fitted, Order)
        return fitted

    @property
    def price(self) -> float:
        return float(self.now[0, Bar.CLOSE])

    def play(self, *orders: Order) -> Settlement:
        """A bar at unchanged prices, and what it did to the orders."""
        self.bars += 1
        prices = zip(self.panel.symbols, self.now[:, Bar.CLOSE].tolist(), strict=True)
        self.rig.exchange.trade(self.bars, {symbol: [price] * 4 for symbol, price in prices})
        bar = self.now.copy()
        bar[:, : Bar.CLOSE + 1] = self.now[:, [Bar.CLOSE]]
        return self.broker.settle(self.now, bar, orders, SPAN)

    @property
    def held(self) -> float:
        return float(self.broker.positions[0, Position.QUANTITY])


@pytest.fixture(scope="module")
def panel() -> Panel:
    return small_panel()


@pytest.fixture(params=CASES)
def case(
    request: pytest.FixtureRequest, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Case]:
    hurry(monkeypatch)
    with open_rig(CASES[request.param][1], panel, tmp_path, monkeypatch) as rig:
        yield Case(request.param, rig)


def test_every_broker_is_held_to_the_contract() -> None:
    assert set(BROKERS) <= {name for name, _ in CASES.values()}


def test_an_order_is_traded_once_and_its_fill_told_once(case: Case) -> None:
    order = case.order("run-1", 5.0)
    assert case.broker.submit(order) is OrderStatus.SENT
    assert case.broker.submit(order) is OrderStatus.SENT  # as after a lost answer
    settled = case.play(order)
    assert settled.closed == {"run-1": OrderStatus.FILLED}
    traded = [fill for fill in settled.executions if fill.client_id]
    assert [fill.client_id for fill in traded] == ["run-1"]
    assert traded[0].quantity == pytest.approx(5.0)
    assert case.held == pytest.approx(sum(fill.quantity for fill in settled.executions), abs=1e-12)
    again = case.play()
    assert again.executions == ()
    assert again.is_known
    assert not again.strangers


def test_what_never_arrived_is_pending_and_nothing_is_open_after_a_halt(case: Case) -> None:
    order = case.order("run-1", 5.0)
    assert case.broker.find(order) is OrderStatus.PENDING
    case.rig.exchange.share = lambda order: 0.0
    case.broker.submit(order)
    assert len(case.broker.open_orders()) == int(case.broker.is_outside)
    case.broker.cancel_all()
    case.broker.finish()
    assert case.broker.open_orders() == ()


def test_quantities_are_rounded_towards_zero_and_an_order_below_the_minimum_is_a_sentence(case: Case) -> None:
    wanted = Order("run-1", case.panel.symbols[0], -1.2345678901234, case.price)
    for order in (wanted, replace(wanted, quantity=-wanted.quantity)):
        fitted = case.broker.fit_order(order, -order.quantity)
        assert isinstance(fitted, Order)
        assert 0.99 * abs(order.quantity) < abs(fitted.quantity) <= abs(order.quantity)
        assert fitted.quantity * order.quantity > 0
        assert case.broker.fit_order(fitted, -fitted.quantity) == fitted
    tiny = case.broker.fit_order(replace(wanted, quantity=1e-10), 0.0)
    assert isinstance(tiny, Order) if case.name in ("paper", "plugin") else "is below the minimum of" in str(tiny)


def test_a_stop_rests_under_its_client_id_or_is_refused(case: Case) -> None:
    broker, bought = case.broker, case.order("run-1", 5.0)
    with pytest.raises(
        ConfigError, match=r"order run-1 is a bracket order; .* takes market.* and exits of market.exits"
    ):
        broker.submit(replace(bought, kind="bracket"))
    assert broker.takes_stops is (case.name in ("alpaca", "spot"))
    broker.submit(bought)
    case.play(bought)
    stop = broker.fit_order(Order("run-2", bought.symbol, -4.0, 0.9 * case.price, STOP), case.held)
    assert isinstance(stop, Order)
    if not broker.takes_stops:
        with pytest.raises(ConfigError, match=r"order run-2 is a stop order; .* takes market and limit orders"):
            broker.submit(stop)
        return
    assert broker.submit(stop) is OrderStatus.SENT
    assert broker.find(stop) is OrderStatus.SENT
    assert len(broker.open_orders()) == 1
    settled = case.play(stop)  # the price does not reach it
    assert settled.executions == ()
    assert settled.closed == {"run-2": OrderStatus.CANCELLED}
    assert broker.open_orders() == ()


def make_desk(case: Case, broker: Broker, shorting: bool = False) -> Desk:
    market = replace(MARKET, limits=replace(MARKET.limits, shorting=shorting))
    return Desk(Targets(lambda bar: np.zeros(len(case.panel.symbols))), Guard(CALM), case.panel.symbols, market, broker)


def test_the_guard_knows_who_can_go_short(case: Case) -> None:
    desk, bars = make_desk(case, case.broker, shorting=True), last_bars(case.panel.rows(0, FIRST + 1))
    desk.settle(case.panel.rows(0, FIRST + 1), bars, 0.0)
    view = desk._account_view(case.panel.rows(0, FIRST + 1), bars, 0.0)
    decision = desk.guard.check(Order("run-1", case.panel.symbols[0], -1.0, case.price), view, 0.0)
    assert decision.allowed is case.broker.can_short
    assert case.broker.can_short is (case.name not in ("spot", "dry run"))


def test_a_halt_does_not_wait_for_the_broker(case: Case) -> None:
    if not case.broker.is_outside:
        assert case.broker.submit(case.order("run-1", 5.0)) is OrderStatus.SENT  # at once, and no one is asked
        return
    exchange, seen = case.rig.exchange, list[int]()
    exchange.chance = lambda method, path: "slow"

    def look() -> None:
        seen.append(exchange.held_answers)
        if exchange.held_answers:
            exchange.released.set()

    case.broker.meanwhile = look
    case.broker.submit(case.order("run-1", 5.0))
    assert any(seen), "nobody looked at the switch while the answer was held"


@pytest.mark.parametrize("name", ["alpaca", "ccxt"])
def test_real_money_is_traded_only_with_a_cap(name: str) -> None:
    make: Callable[..., Any] = lambda **options: broker_options({"name": name, **options})  # noqa: E731
    with pytest.raises(ConfigError, match=r"broker.live=true trades real money; .*broker.notional_cap=1000"):
        make(live=True)
    with pytest.raises(ConfigError, match=r"broker.notional_cap=-5 must be a number above 0"):
        make(live=True, notional_cap=-5.0)
    assert make(live=True, notional_cap=100.0).cap == 100.0
    assert make().live is False


def test_orders_beyond_the_cap_are_cut_and_refused(case: Case) -> None:
    broker = case.broker
    broker.notional_cap = 1000.0
    desk, panel = make_desk(case, broker), case.panel.rows(0, FIRST + 1)
    bars = last_bars(panel)
    desk.settle(panel, bars, 0.0)
    view = desk._account_view(panel, bars, 0.0)
    beyond, within = (Order(f"run-{q}", panel.symbols[0], q / case.price, case.price) for q in (1100.0, 900.0))
    decisions = [desk.guard.check(order, view, 0.0) for order in (beyond, within)]
    assert [decision.reason for decision in decisions] == ["notional_cap", None]
    if not broker.cuts_openings:
        wanted = np.full(len(panel.symbols), 1000.0 / case.price)
        assert np.abs(desk._cut_to_gross(wanted)) @ bars[-1, :, Bar.CLOSE] <= 1000.0 * (1 + 1e-9)
