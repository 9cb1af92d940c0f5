"""Guard, broker and journal against a plain implementation, over histories that hypothesis makes up."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from plain import DAY, PlainBroker, PlainGuard, PlainJournal
from trading import SPAN

from pacesetter.errors import RunError
from pacesetter.market.bars import TRADING, Bar
from pacesetter.market.parameters import Costs, Limits, MarketParameters, Orders
from pacesetter.market.state import Account, Position
from pacesetter.serving.journal.journal import Journal, Page, tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.order import AccountView, Order, Quote
from pacesetter.serving.trader.broker import OrderStatus
from pacesetter.serving.trader.paper_broker import PaperBroker

SYMBOLS = ("A", "B", "C")
START = 1_767_600_000.0  # five in the morning before a UTC midnight nineteen hours away
NO_COSTS = Costs(
    commission_bps=0, minimum_commission=0, spread_bps=0, slippage_bps=0, impact_bps=0, borrow_bps_per_year=0
)
MARKET = MarketParameters(
    costs=NO_COSTS,
    limits=Limits(position_cap_fraction=1e9, gross_leverage=1e9, ruin_fraction=0.0, shorting=True),
    orders=Orders(minimum_trade=1.0),  # below it lies what rounding leaves
)
RISK = GuardLimits(repeat_count=3, day_count=4, gross_fraction=0.4)
moves = st.sampled_from((0.97, 0.985, 1.0, 1.01, 1.02))
requests = st.tuples(
    st.sampled_from(SYMBOLS),
    st.sampled_from((0.02, 0.1, 0.14, 0.16, -0.1, -0.14, "close", "half")),
    st.sampled_from((1.0, 1.0, 1.0, 1.04, 1.06)),  # price beside the last
    st.sampled_from((0.0, 0.0, 0.0, 3.0)),  # age of the quote
    st.booleans(),  # an id that was used before
)


class Trading(RuleBasedStateMachine):
    """Bars, orders, fills, halts, resumptions and restarts; after each step both must say the same."""

    risk = RISK  # of the guard under test

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{Path(self.folder.name) / 'journal.db'}"
        self.guard, self.broker, self.journal = Guard(self.risk), PaperBroker(SYMBOLS, MARKET), Journal(self.url, "run")
        self.plain_guard, self.plain_broker = PlainGuard(RISK), PlainBroker(SYMBOLS, MARKET.initial_cash)
        self.plain_journal = PlainJournal()
        self.now, self.count, self.used = START, 0, list[str]()
        self.bar = self._bar(np.full(3, 100.0), np.full(3, 100.0))

    def teardown(self) -> None:
        self.journal.close()
        self.folder.cleanup()

    # ---- steps ----------------------------------------------------------------------------------------------------

    @initialize()
    def first_bar(self) -> None:
        self._trade(self.bar, [], 1.0)

    @rule(
        gap=st.lists(moves, min_size=3, max_size=3),
        day=st.lists(moves, min_size=3, max_size=3),
        asked=st.lists(requests, max_size=4),
        seconds=st.sampled_from((1.0, 20.0, 3_600.0, 40_000.0, 90_000.0)),
    )
    def next_bar(self, gap: list[float], day: list[float], asked: list[Any], seconds: float) -> None:
        opens = self.bar[:, Bar.CLOSE] * gap
        self._trade(self._bar(opens, opens * day), asked, seconds)

    @rule(status=st.sampled_from((OrderStatus.SENT, OrderStatus.UNKNOWN, OrderStatus.REJECTED, OrderStatus.CANCELLED)))
    @precondition(lambda self: OrderStatus.PENDING in self.plain_journal.orders.values())
    def send(self, status: OrderStatus) -> None:
        waiting = [each for each, at in self.plain_journal.orders.items() if at == OrderStatus.PENDING]
        self.journal.set_statuses(dict.fromkeys(waiting, status))
        self.plain_journal.orders |= dict.fromkeys(waiting, status.value)
        if status in (OrderStatus.REJECTED, OrderStatus.CANCELLED):
            for client_id in waiting:
                self.guard.close_order(client_id)
                del self.plain_guard.open[client_id]

    @rule()
    def halt(self) -> None:
        self.guard.halt("drill")
        self.plain_guard.halt()
        self._note("halt")

    @rule()
    def resume(self) -> None:
        self.guard.resume("Ada")
        self.plain_guard.resume()
        self._note("resume")

    @rule()
    def restart(self) -> None:
        """What was not written is lost: all goes on from the last bar, and what was done to the guard since."""
        self.journal.close()
        self.journal = Journal(self.url, "run")
        stored = self.journal.checkpoint()
        assert stored is not None
        self.guard = Guard.from_dict(self.guard.to_dict(), self.risk)
        self.broker = PaperBroker(SYMBOLS, MARKET)
        self.broker.restore(np.array(stored[1]["account"]), np.array(stored[1]["positions"]))

    @rule()
    @precondition(lambda self: self.used)
    def send_an_id_again(self) -> None:
        """Guards forget ids after a day; the journal's key does not, and nothing of such a bar is written."""
        again = {**asdict(Order(self.used[0], "A", 1.0, 100.0)), "status": "pending", "reason": ""}
        last = self.journal.checkpoint()
        assert last is not None
        page = Page(datetime.fromtimestamp(self.now + 0.5, UTC), {}, {}, {}, orders=[again])
        with pytest.raises(RunError, match=r"orders\.client_id.*nothing was written"):
            self.journal.record(page)
        assert self.journal.checkpoint() == last

    # ---- both must say the same -----------------------------------------------------------------------------------

    @invariant()
    def same_guard(self) -> None:
        assert self.guard.state.value == self.plain_guard.state
        assert dict(self.guard.denials) == self.plain_guard.denials
        assert set(self.guard.in_flight) == set(self.plain_guard.open)
        assert self.guard.disabled == self.plain_guard.disabled

    @invariant()
    def same_books(self) -> None:
        if self.count == 0:
            return
        held = dict(zip(SYMBOLS, self.broker.positions[:, Position.QUANTITY].tolist(), strict=True))
        assert held == pytest.approx(self.plain_broker.held, rel=1e-6, abs=1e-6)
        assert self.broker.account[Account.CASH] == pytest.approx(self.plain_broker.cash, rel=1e-7)

    @invariant()
    def same_journal(self) -> None:
        plain, journal = self.plain_journal, self.journal
        assert {row["client_id"]: row["status"] for row in journal.rows(tables.orders)} == plain.orders
        assert [row["equity"] for row in journal.rows(tables.equity)] == pytest.approx(plain.equities, rel=1e-7)
        assert [row["kind"] for row in journal.rows(tables.events)] == plain.events
        fills = sorted((row["symbol"], row["quantity"], row["price"]) for row in journal.rows(tables.fills))
        for found, expected in zip(fills, sorted(plain.fills), strict=True):
            assert found[0] == expected[0]
            assert found[1:] == pytest.approx(expected[1:], rel=1e-6, abs=1e-6)
        for symbol, total in journal.holdings().items():
            assert total == pytest.approx(self.plain_broker.held[symbol], rel=1e-6, abs=1e-5)
        journal.verify()

    # ---- inside ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _bar(opens: Any, closes: Any) -> Any:
        bar = np.zeros((len(SYMBOLS), len(Bar)))
        bar[:, Bar.OPEN], bar[:, Bar.CLOSE] = opens, closes
        bar[:, Bar.HIGH], bar[:, Bar.LOW] = np.maximum(opens, closes), np.minimum(opens, closes)
        bar[:, Bar.VOLUME], bar[:, Bar.STATUS] = 1e9, TRADING
        return bar

    def _trade(self, bar: Any, asked: list[Any], seconds: float) -> None:
        """A bar as the desk and the trader take it: fills, then orders, then the page."""
        self.now += seconds
        self.count += 1
        closes = dict(zip(SYMBOLS, bar[:, Bar.CLOSE].tolist(), strict=True))
        executions, closed = self._settle(bar)
        equity = self.broker.account[Account.EQUITY]
        self.guard.begin_bar(equity, self.now)
        self.plain_guard.begin_bar(equity, self.now)
        self.bar = bar
        held = dict(zip(SYMBOLS, self.broker.positions[:, Position.QUANTITY].tolist(), strict=True))
        ages = {symbol: age for symbol, _, _, age, _ in asked}
        quotes = {symbol: Quote(closes[symbol], ages.get(symbol, 0.0)) for symbol in SYMBOLS}
        view = AccountView(float(equity), held, quotes, {}, float(self.broker.account[Account.PEAK_EQUITY]))
        orders = [self._order(place, each, view) for place, each in enumerate(asked)]
        orders = [order for order in orders if order.quantity]
        expected = self.plain_guard.check(orders, view, self.now)
        decisions = self.guard.check_all(orders, view, self.now)
        places = {id(order): place for place, order in enumerate(orders)}
        assert {str(places[id(each.order)]): each.reason for each in decisions} == expected
        passed = [each.order for each in decisions if each.allowed]
        self._record(passed, executions, closed)

    def _settle(self, bar: Any) -> tuple[list[Any], dict[str, str]]:
        """Let the bar fill what is open, here and there."""
        if self.count == 1:
            return [], {}
        flight = list(self.guard.in_flight.values())
        settlement = self.broker.settle(self.bar, bar, flight, SPAN)
        for order in flight:
            price = float(bar[SYMBOLS.index(order.symbol), Bar.OPEN])
            quantity = self.plain_broker.fill(order, price)
            if quantity:
                self.plain_journal.fills.append((order.symbol, quantity, price))
            self.plain_journal.orders[order.client_id] = "filled" if quantity else "cancelled"
            self.guard.close_order(order.client_id)
            del self.plain_guard.open[order.client_id]
        return list(settlement.executions), {each: str(at) for each, at in settlement.closed.items()}

    def _order(self, place: int, asked: Any, view: AccountView) -> Order:
        symbol, size, beside, _, is_old = asked
        held, price = view.quantities[symbol], view.quotes[symbol].price
        share = {"close": -held, "half": -held / 2}.get(size) if isinstance(size, str) else size * view.equity / price
        name = self._remembered_id() if is_old else None
        name = name or f"run-{self.count}-{place}"
        return Order(name, symbol, float(share or 0.0), price * beside)

    def _remembered_id(self) -> str | None:
        """The first id that a guard still remembers: of this UTC day or the day before."""
        allowed = self.plain_guard.allowed
        return next((each.order.client_id for each in allowed if each.now // DAY >= self.now // DAY - 1), None)

    def _record(self, passed: list[Order], executions: list[Any], closed: dict[str, str]) -> None:
        rows = [{**asdict(order), "status": "pending", "reason": ""} for order in passed]
        fills = [{"fill_id": f"{self.count}-{k}", **fill._asdict()} for k, fill in enumerate(executions)]
        account, positions = self.broker.account, self.broker.positions
        money = {"equity": float(account[Account.EQUITY]), "cash": float(account[Account.CASH])}
        state = {"account": account.tolist(), "positions": positions.tolist(), "guard": self.guard.to_dict()}
        equity = {**money, "exposure": 0.0, "drawdown": 0.0, "state": self.guard.state.value, "vitals": {}}
        at = datetime.fromtimestamp(self.now, UTC)
        page = Page(at, state, {}, equity, orders=rows, fills=fills, statuses=closed)
        assert self.journal.record(page)
        assert not self.journal.record(page)
        self.used += [order.client_id for order in passed]
        self.plain_journal.orders |= {order.client_id: "pending" for order in passed}
        closes = dict(zip(SYMBOLS, self.bar[:, Bar.CLOSE].tolist(), strict=True))
        self.plain_journal.equities.append(self.plain_broker.equity(closes))

    def _note(self, kind: str) -> None:
        self.journal.note(kind, "by hand", datetime.fromtimestamp(START - 1e6 + len(self.plain_journal.events), UTC))
        self.plain_journal.events.append(kind)


def test_guard_broker_and_journal_do_as_the_plain_ones() -> None:
    run_state_machine_as_test(Trading, settings=_settings(12, 12))


@pytest.mark.proof
def test_a_guard_with_a_looser_limit_is_caught() -> None:
    loose = type("Loose", (Trading,), {"risk": replace(RISK, order_fraction=0.2)})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(loose, settings=_settings(100, 12))  # ends with the first that differs


@pytest.mark.proof
def test_guard_broker_and_journal_do_as_the_plain_ones_over_many_histories() -> None:
    run_state_machine_as_test(Trading, settings=_settings(500, 40))
    print("500 histories of up to 40 steps: guard, broker and journal as the plain ones")


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
