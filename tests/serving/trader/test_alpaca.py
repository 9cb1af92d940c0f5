"""Orders at Alpaca over real HTTP: none doubled, none lost, none through zero, whatever the network does."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exchange import FAULTS, Exchange, Fault, Resting, client, listening
from trading import FIRST, small_panel

from pacesetter.errors import ConfigError, RunError
from pacesetter.market.parameters import Exits, MarketParameters
from pacesetter.market.state import Position
from pacesetter.panel import Panel
from pacesetter.policies.policy import Snapshot
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.monitor.alerts import Alerts
from pacesetter.serving.monitor.watch import Thresholds, Watch
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.order import Order, State
from pacesetter.serving.trader import alpaca, brokers
from pacesetter.serving.trader.alpaca import AlpacaBroker
from pacesetter.serving.trader.brokers import OrderStatus
from pacesetter.serving.trader.desk import Desk, OrderOptions
from pacesetter.serving.trader.feeds import ReplayFeed
from pacesetter.serving.trader.paper import PaperTrader

CALM = GuardLimits(reduce_fraction=0.9, halt_fraction=0.9, drawdown_fraction=0.9, stop_count=999)
MARKET = MarketParameters()
Plan = Callable[[int], Any]  # bar since the first -> weights (symbol,)


class Targets:
    """Asks for the weights of a plan."""

    name, action = "targets", "target"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def decide(self, seen: Snapshot) -> Any:
        return np.array(self.plan(seen.t - FIRST), dtype=np.float64)


class ExchangeFeed(ReplayFeed):
    """Bars of a market that waits for nobody; with each the exchange fills what it will, at the open."""

    is_stored = False

    def __init__(self, panel: Panel, exchange: Exchange) -> None:
        super().__init__(panel, FIRST)
        self.exchange, self.traded = exchange, panel.index[FIRST]
        self.share: Callable[[Resting], float] = lambda order: 1.0

    def after(self, last: pd.Timestamp) -> Panel | None:
        bar = super().after(last)
        if bar is not None and bar.index[0] > self.traded:
            self.traded = bar.index[0]
            opens, closes = (dict(zip(bar.symbols, bar[name][0].tolist(), strict=True)) for name in ("open", "close"))
            self.exchange.trade(opens, closes, self.share)
        return bar


class Rig:
    """An exchange, the feed of its bars, and traders on both, one after another."""

    def __init__(self, folder: Path, url: str, exchange: Exchange, panel: Panel) -> None:
        self.folder, self.url, self.exchange, self.panel = folder, url, exchange, panel
        self.feed = ExchangeFeed(panel, exchange)
        closes = panel.close[FIRST].tolist()
        exchange.prices = {s: Decimal(str(price)) for s, price in zip(panel.symbols, closes, strict=True)}

    def trader(
        self,
        plan: Plan,
        market: MarketParameters = MARKET,
        options: OrderOptions | None = None,
        limits: GuardLimits = CALM,
    ) -> PaperTrader:
        broker = AlpacaBroker(self.panel.symbols, client(self.url))
        desk = Desk(Targets(plan), Guard(limits), self.panel.symbols, market, broker, options=options)
        return PaperTrader(
            desk,
            self.feed,
            Journal(journal_url(self.folder), "run"),
            KillSwitch(self.folder / "HALT"),
            Watch(Thresholds(latency_seconds=1e9), Alerts([], 0.0)),
            lambda panel: {"position": np.zeros(0), "portfolio": np.zeros(0)},
        )

    def weights(self) -> list[float]:
        exchange = self.exchange
        return [float(exchange.held[s] * exchange.prices[s] / exchange.equity) for s in self.panel.symbols]


@pytest.fixture(scope="module")
def panel() -> Panel:
    return small_panel()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short limits, so that an answer that never comes costs no time; long enough for a busy machine."""
    monkeypatch.setattr(alpaca, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(brokers, "CANCEL_PAUSES", (0.0, 0.001))
    monkeypatch.setattr(brokers, "READ_PAUSES", (0.001,))


@pytest.fixture
def rig(panel: Panel, tmp_path: Path) -> Iterator[Rig]:
    exchange = Exchange(panel.symbols)
    with listening(exchange) as url:
        yield Rig(tmp_path, url, exchange, panel)


def booked(trader: PaperTrader) -> dict[str, float]:
    return trader.journal.holdings()


def held(rig: Rig) -> dict[str, float]:
    return {symbol: float(quantity) for symbol, quantity in rig.exchange.held.items() if quantity}


def plain(*weights: float) -> Plan:
    """The same weights at every bar."""
    return lambda bar: list(weights)


# ---- 1. flattening under a halt ------------------------------------------------------------------------------------


def test_a_halt_that_flattens_never_opens_a_short_though_its_orders_rest(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.0, 0.0), options=OrderOptions(flatten_on_halt=True))
    trader.run(2)
    assert rig.weights()[:2] == pytest.approx([0.1, 0.1], rel=0.1)
    trader.switch.engage("a person said so")
    rig.feed.share = lambda order: 0.0  # nothing fills
    for _ in range(4):
        trader.run(1)
        for symbol in rig.panel.symbols:
            assert 0 <= rig.exchange.held[symbol] + rig.exchange.working(symbol) <= rig.exchange.held[symbol]
    rig.feed.share = lambda order: 1.0
    trader.run(2)
    assert held(rig) == {} == booked(trader)
    assert trader.desk.guard.state is State.HALTED
    trader.journal.close()


# ---- 2. orders that rest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["market", "limit"])
@pytest.mark.parametrize("slow_cancels", [0, 1000])
def test_an_entry_that_rests_is_not_doubled(kind: str, slow_cancels: int, rig: Rig) -> None:
    rig.exchange.slow_cancels = slow_cancels
    trader = rig.trader(plain(0.08, 0.0, 0.0, 0.0), options=OrderOptions(limit_below=1.0 if kind == "limit" else 0.0))
    trader.desk.policy.confidence = np.full(4, 0.5)  # type: ignore[attr-defined]
    rig.feed.share = lambda order: 0.0
    trader.run(4)
    symbol = rig.panel.symbols[0]
    open_value = float(rig.exchange.working(symbol) * rig.exchange.prices[symbol] / rig.exchange.equity)
    assert open_value == pytest.approx(0.08, rel=0.1)
    assert {order.kind for order in rig.exchange.orders.values()} == {kind}
    trader.journal.close()


@pytest.mark.parametrize("slow_cancels", [0, 1000])
def test_an_exit_that_rests_is_not_doubled(slow_cancels: int, rig: Rig) -> None:
    trader = rig.trader(lambda bar: [0.1 if bar < 2 else 0.0, 0.0, 0.0, 0.0])
    trader.run(2)
    assert rig.weights()[0] == pytest.approx(0.1, rel=0.1)
    rig.exchange.slow_cancels = slow_cancels
    rig.feed.share = lambda order: 0.0
    trader.run(4)
    symbol = rig.panel.symbols[0]
    assert rig.exchange.working(symbol) == -rig.exchange.held[symbol]
    trader.journal.close()


# ---- 3. stops ------------------------------------------------------------------------------------------------------


def falling(panel: Panel, row: int, factor: float) -> Panel:
    """The panel with all prices from a row on so many times as high; the row itself opens where it was."""
    blocks = panel.blocks.copy()
    prices = [panel.fields.index(name) for name in ("open", "high", "low", "close")]
    blocks[prices, row:] *= factor
    return replace(panel, blocks=blocks)


@pytest.mark.parametrize(
    ("exits", "factor", "reason"),
    [
        (Exits(stop_loss_fraction=0.05), 0.7, "stop loss"),
        (Exits(trailing_stop_fraction=0.05), 0.7, "trailing stop"),
        (Exits(take_profit_fraction=0.2), 1.5, "take profit"),
    ],
)
def test_stops_act_at_a_broker_too(exits: Exits, factor: float, reason: str, panel: Panel, tmp_path: Path) -> None:
    moved = falling(panel, FIRST + 3, factor)
    exchange = Exchange(moved.symbols)
    with listening(exchange) as url:
        rig = Rig(tmp_path, url, exchange, moved)
        # It asks for 10 % until it is stopped out, then for nothing.
        trader = rig.trader(lambda bar: [0.1 if bar <= 3 else 0.0] + [0.0] * 3, replace(MARKET, exits=exits))
        trader.run(3)
        assert len(held(rig)) == 1
        trader.run(1)  # the price moved within this bar
        trader.desk.policy.plan = plain(*[np.nan] * 4)  # type: ignore[attr-defined]  # no more orders of its own
        trader.run(1)
        assert held(rig) == {} == booked(trader)
        events = [row["message"] for row in trader.journal.rows(tables.events) if row["kind"] == "stop"]
        assert len(events) == 1
        assert reason in events[0]
        trader.journal.close()


# ---- 4. answers that are lost --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["504_after", "500_after", "cut_after", "slow_after"])
def test_an_order_whose_answer_is_lost_is_sent_once_and_its_fill_booked(kind: str, rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.0, 0.0, 0.0))
    rig.exchange.script = [Fault(kind, "POST", "/orders")]
    trader.run(1)
    sent = [path for method, path in rig.exchange.requests if method == "POST"]
    assert len(sent) == 1
    assert [row["status"] for row in trader.journal.rows(tables.orders)] == ["sent"]
    trader.run(2)
    assert len(held(rig)) == 1
    assert booked(trader) == pytest.approx(held(rig), abs=1e-9)
    trader.journal.close()


def test_a_position_that_no_fill_explains_halts(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.0, 0.0, 0.0))
    trader.run(3)
    rig.exchange.move(rig.panel.symbols[1], Decimal(5), Decimal(1))  # somebody trades by hand
    for bar in trader._new_bars():  # as within a run: no restart looks at the books
        trader._trade(bar)
        break
    assert trader.desk.guard.state is State.HALTED
    events = [row["message"] for row in trader.journal.rows(tables.events) if row["kind"] == "halt"]
    assert any(f"the broker holds 5 of '{rig.panel.symbols[1]}'" in message for message in events)
    trader.journal.close()


@pytest.mark.parametrize(
    ("fault", "found", "expected"),
    [
        ("", "", OrderStatus.SENT),
        ("504", "", OrderStatus.UNKNOWN),  # it may arrive late: asked again at the next bar
        ("429", "", OrderStatus.UNKNOWN),
        ("cut", "", OrderStatus.UNKNOWN),
        ("504_after", "", OrderStatus.SENT),
        ("504_after", "504", OrderStatus.UNKNOWN),
    ],
)
def test_only_an_answer_is_a_rejection(fault: str, found: str, expected: OrderStatus, rig: Rig) -> None:
    symbol = rig.panel.symbols[0]
    broker = AlpacaBroker(rig.panel.symbols, client(rig.url))
    script = [Fault(fault, "POST"), Fault(found, "GET", "by_client")]
    rig.exchange.script = [each for each in script if each.kind]
    order = Order("run-1", symbol, 5.0, 100.0)
    assert broker.submit(order) is expected
    rig.exchange.script = []
    if expected is OrderStatus.SENT:
        assert broker.submit(order) is OrderStatus.SENT  # "must be unique" is no rejection
    assert len(rig.exchange.orders) == (fault in ("", "504_after"))
    assert broker.find("never sent") is OrderStatus.PENDING
    rig.exchange.refuses = lambda symbol: True
    assert broker.submit(replace(order, client_id="run-2")) is OrderStatus.REJECTED


def test_fills_are_told_once_and_a_silent_broker_is_not_known(rig: Rig) -> None:
    exchange, symbol = rig.exchange, rig.panel.symbols[0]
    broker = AlpacaBroker(rig.panel.symbols, client(rig.url))
    exchange.move(symbol, Decimal(5), Decimal(0))
    exchange.slow_cancels = 1000  # what the first look cancels still fills
    order = Order("run-1", symbol, -5.0, 100.0)
    broker.submit(order)
    bar = np.full((4, 7), 100.0)
    resting = exchange.orders["run-1"]
    exchange._fill(resting, Decimal("0.4"), Decimal("99.5"))
    assert [fill[2:4] for fill in broker.settle(bar, bar, [order]).executions] == [(-2.0, 99.5)]
    left = replace(order, quantity=-3.0)
    assert broker.settle(bar, bar, [left]) == ((), {}, 0, False, True)
    exchange._fill(resting, Decimal(1), Decimal("98"))
    exchange.script = [Fault("504", "GET", path) for path in ("/account", "by_client")]
    assert not broker.settle(bar, bar, [left]).is_known
    assert not broker.settle(bar, bar, [left]).is_known
    last = broker.settle(bar, bar, [left])
    assert last.closed == {"run-1": OrderStatus.FILLED}
    assert [fill[2:4] for fill in last.executions] == [(-3.0, pytest.approx(98.0))]


def test_a_position_is_seen_as_the_kernel_would_show_it(rig: Rig) -> None:
    exchange, symbol, shown = rig.exchange, rig.panel.symbols[0], []
    stored: dict[str, Any] = {}
    exchange.prices[symbol] = Decimal(100)
    for number, (quantity, high, low) in enumerate(((5, 120, 99), (5, 110, 90), (-5, 110, 85), (0, 110, 85))):
        exchange.held[symbol] = Decimal(quantity)
        broker = AlpacaBroker(rig.panel.symbols, client(rig.url))  # as after a restart
        desk = Desk(Targets(plain(0, 0, 0, 0)), Guard(CALM), rig.panel.symbols, MARKET, broker)
        so_far = rig.panel.rows(0, FIRST + number)
        bar = np.tile([100.0, high, low, 100.0, 0.0, 1.0, 0.0], (1, 4, 1))
        if stored:
            desk.restore(stored)
        desk.settle(so_far, bar, so_far.index[-1].timestamp())
        shown.append(broker.positions[0, [Position.BEST_PRICE, Position.BARS_HELD]].tolist())
        stored = desk.to_dict()
    assert shown == [[120, 1], [120, 2], [85, 1], [0, 0]]


def test_a_service_that_does_not_answer_is_told_in_one_sentence(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    broker = AlpacaBroker(rig.panel.symbols, client(rig.url))
    rig.exchange.script = [Fault("504", "DELETE"), Fault("504", "GET", "/account"), Fault("504", "GET", "/assets")]
    broker.cancel_all()
    broker.finish()
    assert "Alpaca cancel request failed (APIError 504)" in caplog.text
    with pytest.raises(RunError, match=r"Alpaca account request failed \(APIError 504\)"):
        AlpacaBroker(rig.panel.symbols, client(rig.url))
    with pytest.raises(RunError, match=r"Alpaca asset request failed \(APIError 504\)"):
        AlpacaBroker(rig.panel.symbols, client(rig.url))


def test_an_account_or_a_venue_that_does_not_fit_is_refused(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="Alpaca has no 'ZZZ' to trade"):
        AlpacaBroker(("ZZZ",), client(rig.url))
    rig.exchange.held["YYY"], rig.exchange.prices["YYY"] = Decimal(1), Decimal(1)
    with pytest.raises(ConfigError, match="holds YYY, which is not traded here"):
        AlpacaBroker(rig.panel.symbols, client(rig.url))


def test_an_order_whose_sending_was_cut_short_is_sent_once(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    post, ask = Fault("504", "POST"), Fault("504", "GET", "by_client")
    rig.exchange.script = [post, ask, post._replace(kind="504_after"), ask]
    trader.run(1)
    assert [row["status"] for row in trader.journal.rows(tables.orders)] == ["unknown", "unknown"]
    assert len(rig.exchange.orders) == 1
    trader.journal.close()
    again = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    again._resume(again._read_state())
    assert [row["status"] for row in again.journal.rows(tables.orders)] == ["sent", "sent"]
    assert len(rig.exchange.orders) == 2
    again.journal.close()


def test_after_two_orders_without_an_answer_the_rest_is_not_sent(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.1, 0.1))
    rig.exchange.chance = lambda method, path: "504" if "orders" in path else None
    trader.run(1)
    statuses = [row["status"] for row in trader.journal.rows(tables.orders)]
    assert statuses == ["unknown", "unknown", "cancelled", "cancelled"]
    assert len(trader.desk.guard.in_flight) == 2
    trader.journal.close()


def test_what_was_filled_while_nobody_looked_is_booked_at_the_next_bar(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    trader.run(1)
    trader.journal.close()
    again = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    again.run(1)
    assert booked(again) == held(rig) != {}
    again.journal.close()
    rig.exchange.held[rig.panel.symbols[0]] *= 10  # by hand
    with pytest.raises(RunError, match=r"the broker holds .*; correct it, then resume"):
        rig.trader(plain(0.0, 0.0, 0.0, 0.0)).run(1)
    rig.folder = rig.folder / "new"  # nor does a run begin with what another bought
    with pytest.raises(RunError, match=r"the broker holds .*; correct it, then resume"):
        rig.trader(plain(0.0, 0.0, 0.0, 0.0)).run(1)


# ---- 5. quantities and time ----------------------------------------------------------------------------------------


def test_quantities_have_the_digits_that_the_venue_takes(rig: Rig) -> None:
    rig.exchange.whole_only = {rig.panel.symbols[1]}
    trader = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    rig.feed.share = lambda order: 0.0
    trader.run(1)
    rows = trader.journal.rows(tables.orders)
    assert len(rows) == 2
    for row in rows:
        assert Decimal(str(row["quantity"])) == rig.exchange.orders[row["client_id"]].quantity
    trader.journal.close()
    again = rig.trader(plain(0.1, 0.1, 0.0, 0.0))  # an order that is open stops no restart
    again.run(1)
    rig.feed.share = lambda order: 1.0
    again.run(1)
    assert booked(again) == pytest.approx(held(rig), abs=1e-9)
    again.journal.close()


def wait_until(is_true: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not is_true() and time.monotonic() < end:
        time.sleep(0.01)
    return is_true()


@pytest.mark.parametrize("path", ["/account", "/orders"])
def test_a_halt_does_not_wait_for_a_broker_that_holds_its_answer(
    path: str, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alpaca, "TIMEOUT_SECONDS", 60.0)  # so that only a look at the switch can end the wait
    exchange, trader = rig.exchange, rig.trader(plain(0.1, 0.0, 0.0, 0.0))
    trader.run(1)
    exchange.patience = 60.0
    exchange.script = [Fault("slow", "GET" if path == "/account" else "POST", path)]
    trader.desk.policy.plan = plain(0.0, 0.1, 0.0, 0.0)  # type: ignore[attr-defined]
    running = threading.Thread(target=lambda: trader.run(1), daemon=True)
    running.start()
    assert wait_until(lambda: exchange.held_answers == 1)
    trader.switch.engage("now")
    assert wait_until(lambda: trader.desk.guard.state is State.HALTED, 20.0)
    was_waiting = exchange.held_answers == 1
    exchange.released.set()
    running.join()
    assert was_waiting
    trader.journal.close()


# ---- whatever goes wrong -------------------------------------------------------------------------------------------


class Model:
    """The account as the exchange's own orders make it, compared with the trader's books after every bar.

    It is the display of a trader: `bar` is called when a bar is done.
    """

    def __init__(self, rig: Rig, trader: PaperTrader) -> None:
        self.rig, self.trader = rig, trader

    def open(self) -> None:
        """Nothing to show."""

    def bar(self) -> None:
        exchange, journal, guard = self.rig.exchange, self.trader.journal, self.trader.desk.guard
        orders = {row["client_id"]: row for row in journal.rows(tables.orders)}
        assert set(exchange.orders) <= set(orders), "an order that is not journalled"
        filled = dict.fromkeys(orders, 0.0)
        for row in journal.rows(tables.fills):
            filled[row["client_id"]] += row["quantity"]
        expected = dict.fromkeys(self.rig.panel.symbols, Decimal(0))
        for each in exchange.orders.values():
            assert each.quantity == Decimal(str(orders[each.client_id]["quantity"])), "another quantity than journalled"
            expected[each.symbol] += each.filled
            # What is in flight may have filled since it was looked at; all else is booked to the last digit.
            if each.client_id not in guard.in_flight:
                assert not each.is_open, f"{each.client_id} is open and forgotten"
                assert filled[each.client_id] == pytest.approx(float(each.filled), abs=1e-9), (
                    "a fill is lost or doubled"
                )
            assert abs(filled[each.client_id]) <= abs(float(each.filled)) + 1e-9
        assert expected == exchange.held
        for symbol, quantity in exchange.held.items():
            working = [each.left for each in exchange.orders.values() if each.symbol == symbol and each.is_open]
            assert quantity + sum((left for left in working if left < 0), Decimal(0)) >= 0, "it may become short"
            most = quantity + sum((left for left in working if left > 0), Decimal(0))
            assert most * exchange.prices[symbol] <= Decimal("0.15") * exchange.equity, "it may become too large"
        assert "the broker holds" not in guard.reason, "a false alarm"
        for row in orders.values():  # what reached the venue is never called rejected or denied
            if row["client_id"] in exchange.orders:
                assert row["status"] not in ("rejected", "denied")


def started(make: Callable[[], PaperTrader]) -> PaperTrader:
    """A trader, however often the venue fails while it starts."""
    while True:
        try:
            return make()
        except RunError as problem:
            if "request failed" not in str(problem):
                raise


def check_faults(folder: Path, panel: Panel, seed: int, bars: int) -> int:
    """Trade beside random faults, resting and partial fills, rejections, halts and restarts; gives how many faults."""
    chance, exchange, faults = random.Random(seed), Exchange(panel.symbols), []
    weights = np.random.default_rng(seed).choice([0.0, 0.0, 0.04, 0.08, 0.12], (bars + 10, len(panel.symbols)))

    def fault(method: str, path: str) -> str | None:
        if chance.random() > 0.2:
            return None
        faults.append(chance.choice(FAULTS if chance.random() < 0.2 else FAULTS[:-2]))
        return faults[-1]

    with listening(exchange) as url:
        rig = Rig(folder, url, exchange, panel)
        exchange.chance, exchange.patience = fault, 0.2
        exchange.refuses = lambda symbol: chance.random() < 0.05
        rig.feed.share = lambda order: chance.choice((0.0, 0.0, 0.3, 0.5, 1.0, 1.0))
        options = OrderOptions(flatten_on_halt=chance.random() < 0.7)
        done, switch = 0, KillSwitch(folder / "HALT")

        def make() -> PaperTrader:
            return rig.trader(lambda bar: weights[min(bar, len(weights) - 1)], options=options)

        trader = started(make)
        while done < bars:
            exchange.slow_cancels = chance.choice((0, 0, 1, 50))
            if chance.random() < 0.2:
                trader.journal.close()
                trader = started(make)
            if chance.random() < 0.25:
                switch.release("Ada") if switch.is_engaged() else switch.engage("drill")
            trader.display = Model(rig, trader)
            done += trader.run(chance.randint(1, 4)).new_bars
        # In the end all is well, and everything is closed.
        exchange.chance, exchange.slow_cancels, exchange.refuses = (lambda *words: None), 0, lambda symbol: False
        rig.feed.share, weights[:] = (lambda order: 1.0), 0.0
        exchange.confirm()
        switch.release("Ada")
        trader.run(4)
        assert held(rig) == {} == {symbol: each for symbol, each in booked(trader).items() if abs(each) > 1e-9}
        final = {"canceled": "cancelled", "filled": "filled"}
        for row in trader.journal.rows(tables.orders):
            order = exchange.orders.get(row["client_id"])
            if order is not None:
                assert row["status"] == final[order.status]
            else:
                assert row["status"] in ("cancelled", "rejected", "denied")
        trader.journal.verify()
        trader.journal.close()
    return len(faults)


def test_random_faults_double_and_lose_nothing(panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpaca, "TIMEOUT_SECONDS", 0.1)  # one that is met because the machine is busy is one fault more
    faults = sum(check_faults(tmp_path / str(seed), panel, seed, 36) for seed in range(1, 6))
    assert faults > 150


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_many_random_faults_double_and_lose_nothing(
    panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sized: Callable[[int], int]
) -> None:
    monkeypatch.setattr(alpaca, "TIMEOUT_SECONDS", 0.1)
    runs = sized(200)
    faults = sum(check_faults(tmp_path / str(seed), panel, seed, 36) for seed in range(100, 100 + runs))
    print(f"Alpaca over HTTP: {runs} runs of 36 bars, {faults:,} faults; no order doubled, lost or not journalled")
