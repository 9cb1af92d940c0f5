"""Orders at venues over real HTTP: none doubled, none lost, none through zero, whatever the network does.

Each test runs at every kind of venue: Alpaca by alpaca-py, and an exchange, spot and linear, by ccxt.
"""

from __future__ import annotations

import subprocess
import sys
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
from exchange import Fault
from trading import FIRST, small_panel
from venues import BARS, CALM, KINDS, MARKET, Plan, Rig, Targets, hurry, meet_faults, open_rig, wait_until

from pacesetter.errors import RunError
from pacesetter.market.parameters import Exits
from pacesetter.market.state import Position
from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.order import Order, State
from pacesetter.serving.trader.broker import OrderStatus
from pacesetter.serving.trader.desk import Desk, OrderOptions
from pacesetter.serving.trader.paper import PaperTrader

KILLS = Path(__file__).parents[1] / "venue_kills.py"


@pytest.fixture(scope="module")
def panel() -> Panel:
    return small_panel()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture(params=KINDS)
def rig(request: pytest.FixtureRequest, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """At every kind of venue."""
    with open_rig(request.param, panel, tmp_path, monkeypatch) as made:
        yield made


def booked(trader: PaperTrader) -> dict[str, float]:
    return trader.journal.holdings()


def plain(*weights: float) -> Plan:
    """The same weights at every bar."""
    return lambda bar: list(weights)


def looking(kind: str, rig: Rig) -> Fault:
    """A fault of the next look at an order."""
    return Fault(kind, "GET", "by_client" if rig.kind == "alpaca" else "/order")


# ---- 1. flattening under a halt --------------------------------------------------------------------------------------


def test_a_halt_that_flattens_never_opens_a_short_though_its_orders_rest(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.0, 0.0), options=OrderOptions(flatten_on_halt=True))
    trader.run(2)
    assert rig.weights()[:2] == pytest.approx([0.1, 0.1], rel=0.1)
    trader.switch.engage("a person said so")
    rig.exchange.share = lambda order: 0.0  # nothing fills
    for _ in range(4):
        trader.run(1)
        for symbol in rig.panel.symbols:
            assert 0 <= rig.exchange.held[symbol] + rig.exchange.working(symbol) <= rig.exchange.held[symbol]
    rig.exchange.share = lambda order: 1.0
    trader.run(2)
    assert rig.sold_out()
    assert booked(trader) == pytest.approx(rig.held(), abs=1e-9)
    assert trader.desk.guard.state is State.HALTED
    trader.journal.close()


# ---- 2. orders that rest ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["market", "limit"])
@pytest.mark.parametrize("slow_cancels", [0, 1000])
def test_an_entry_that_rests_is_not_doubled(kind: str, slow_cancels: int, rig: Rig) -> None:
    rig.exchange.slow_cancels = slow_cancels
    trader = rig.trader(plain(0.08, 0.0, 0.0, 0.0), options=OrderOptions(limit_below=1.0 if kind == "limit" else 0.0))
    trader.desk.policy.confidence = np.full(4, 0.5)  # type: ignore[attr-defined]
    rig.exchange.share = lambda order: 0.0
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
    rig.exchange.share = lambda order: 0.0
    trader.run(4)
    symbol = rig.panel.symbols[0]
    left = rig.exchange.held[symbol] + rig.exchange.working(symbol)
    assert 0 <= left < Decimal("0.00001")  # of the last step, which a fee in kind left
    trader.journal.close()


# ---- 3. stops --------------------------------------------------------------------------------------------------------


def moving(panel: Panel, row: int, factor: float, *names: str) -> Panel:
    """The panel with these prices of a row, and all of later ones, so many times as high."""
    blocks, fields = panel.blocks.copy(), ("open", "high", "low", "close")
    blocks[[panel.fields.index(name) for name in names], row] *= factor
    blocks[[panel.fields.index(name) for name in fields], row + 1 :] *= factor
    return replace(panel, blocks=blocks)


STOPPED = [
    (Exits(stop_loss_fraction=0.05), 0.7, "stop loss"),
    (Exits(trailing_stop_fraction=0.05), 0.7, "trailing stop"),
    (Exits(take_profit_fraction=0.2), 1.5, "take profit"),
]


@pytest.mark.parametrize(("exits", "factor", "reason"), STOPPED)
@pytest.mark.parametrize("venue", KINDS)
def test_exits_act_at_a_broker_too(
    venue: str, exits: Exits, factor: float, reason: str, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = moving(panel, FIRST + 3, factor, "low" if factor < 1 else "high", "close")
    with open_rig(venue, moved, tmp_path, monkeypatch) as rig:
        trader = rig.trader(lambda bar: [0.1 if bar < 3 else np.nan] + [np.nan] * 3, replace(MARKET, exits=exits))
        trader.run(3)
        assert len(rig.held()) == 1
        before = float(rig.exchange.equity)
        trader.run(1)  # the price moved within this bar
        rests = trader.desk.broker.takes_stops and "profit" not in reason
        assert rests == (venue != "linear" and "profit" not in reason)
        assert rig.sold_out() == rests
        trader.run(1)
        assert rig.sold_out()
        assert booked(trader) == pytest.approx(rig.held(), abs=1e-9)
        events = [row["message"] for row in trader.journal.rows(tables.events) if row["kind"] == "stop"]
        assert [reason in event for event in events] == [True] * (not rests)  # what rested there needed no order
        stopped = [row for row in trader.journal.rows(tables.fills) if row["reason"] == "stop"]
        assert len(stopped) == rests
        if rests:  # at its level, and not at the close of the bar, 30 % lower
            (order,) = [
                each for each in trader.journal.rows(tables.orders) if each["client_id"] == stopped[0]["client_id"]
            ]
            assert (order["kind"], order["status"]) == ("stop", "filled")
            assert stopped[0]["price"] == pytest.approx(order["price"], rel=1e-12)
            assert float(rig.exchange.equity) > 0.99 * before
        trader.journal.close()


@pytest.fixture(params=["alpaca", "spot"])
def resting(
    request: pytest.FixtureRequest, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rig]:
    """At a venue where stops rest."""
    with open_rig(request.param, panel, tmp_path, monkeypatch) as made:
        yield made


def stops_of(rig: Rig) -> list[Decimal]:
    """Quantities of the stops that rest at the venue."""
    return [each.left for each in rig.exchange.orders.values() if each.kind == "stop" and each.is_open]


STOPS = replace(MARKET, exits=Exits(stop_loss_fraction=0.2))


def test_one_stop_rests_for_what_is_held_and_nothing_can_pass_zero(resting: Rig) -> None:
    weights = [0.1, 0.1, 0.04, 0.04, 0.0, 0.0]  # held from the second bar on
    trader, symbol = resting.trader(lambda bar: [weights[min(bar, 5)], 0.0, 0.0, 0.0], STOPS), resting.panel.symbols[0]
    for bar, weight in enumerate(weights):
        trader.run(1)
        held, stops = resting.exchange.held[symbol], stops_of(resting)
        assert len(stops) == int(bar > 0 and weight > 0)
        # A stop is of what the exits of its bar leave.
        assert held + resting.exchange.working(symbol) >= 0
        assert sum(stops, Decimal(0)) >= -held
        kept = [row["kind"] for row in trader.journal.rows(tables.orders) if row["status"] in ("sent", "unknown")]
        assert kept.count("stop") == len(stops)
    trader.run(1)
    assert resting.sold_out()
    assert trader.desk.guard.denials == {}  # stops count in no rate
    assert {row["order_kind"] for row in trader.journal.rows(tables.actions)} <= {"market", None}
    trader.journal.close()


@pytest.mark.parametrize("fault", ["504_after", "cut_after", "repeated"])
def test_a_stop_whose_answer_is_lost_rests_once_over_a_restart_and_ends_with_a_halt(fault: str, resting: Rig) -> None:
    trader = resting.trader(plain(0.1, *[np.nan] * 3), STOPS)
    trader.run(2)
    resting.exchange.script = [Fault(fault, "POST")]
    trader.desk.policy.plan = plain(*[np.nan] * 4)  # type: ignore[attr-defined]  # so that the next order is the stop
    trader.run(1)
    assert resting.exchange.script == []
    assert len(stops_of(resting)) == 1
    trader.journal.close()
    again = resting.trader(plain(*[np.nan] * 4), STOPS)
    again.run(1)
    assert len(stops_of(resting)) == 1
    assert max(resting.exchange.times.values()) == 1
    again.switch.engage("a person said so")
    again.run(1)
    assert stops_of(resting) == []
    assert len(resting.held()) == 1
    assert booked(again) == pytest.approx(resting.held(), abs=1e-9)
    again.journal.close()


# ---- 4. answers that are lost ----------------------------------------------------------------------------------------


LOST = ["504_after", "500_after", "429_after", "cut_after", "garbled_after", "wrong_after", "slow_after"]


@pytest.mark.parametrize("kind", LOST)
def test_an_order_whose_answer_is_lost_is_sent_once_and_its_fill_booked(
    kind: str, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "slow_after":
        hurry(monkeypatch, 3.0)
    trader = rig.trader(plain(0.1, 0.0, 0.0, 0.0))
    rig.exchange.script = [Fault(kind, "POST", "/order")]
    trader.run(1)
    sent = [path for method, path in rig.exchange.requests if method == "POST"]
    assert len(sent) == 1
    assert [row["status"] for row in trader.journal.rows(tables.orders)] == ["sent"]
    trader.run(2)
    assert len(rig.held()) == 1
    assert booked(trader) == pytest.approx(rig.held(), abs=1e-9)
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
    broker = rig.broker()
    script = [Fault(fault, "POST"), looking(found, rig)]
    rig.exchange.script = [each for each in script if each.kind]
    order = Order("run-1", symbol, 5.0, 100.0)
    assert broker.submit(order) is expected
    rig.exchange.script = []
    if expected is OrderStatus.SENT:
        assert broker.submit(order) is OrderStatus.SENT  # "must be unique" is no rejection
    assert len(rig.exchange.orders) == (fault in ("", "504_after"))
    assert broker.find(replace(order, client_id="never sent")) is OrderStatus.PENDING
    rig.exchange.refuses = lambda symbol: True
    assert broker.submit(replace(order, client_id="run-2")) is OrderStatus.REJECTED


def test_a_position_is_seen_as_the_kernel_would_show_it(rig: Rig) -> None:
    exchange, symbol, shown = rig.exchange, rig.panel.symbols[0], []
    stored: dict[str, Any] = {}
    exchange.prices[symbol] = Decimal(100)
    short = 0 if rig.kind == "spot" else -5
    for number, (quantity, high, low) in enumerate(((5, 120, 99), (5, 110, 90), (short, 110, 85), (0, 110, 85))):
        exchange.held[symbol] = Decimal(quantity)
        broker = rig.broker()  # as after a restart
        desk = Desk(Targets(plain(0, 0, 0, 0)), Guard(CALM), rig.panel.symbols, MARKET, broker)
        so_far = rig.panel.rows(0, FIRST + number)
        bar = np.tile([100.0, high, low, 100.0, 0.0, 1.0, 0.0], (1, 4, 1))
        if stored:
            desk.restore(stored)
        desk.settle(so_far, bar, so_far.index[-1].timestamp())
        shown.append(broker.positions[0, [Position.BEST_PRICE, Position.BARS_HELD]].tolist())
        stored = desk.to_dict()
    assert shown == [[120, 1], [120, 2], [85, 1] if short else [0, 0], [0, 0]]


def test_an_order_whose_sending_was_cut_short_is_sent_once(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    post, ask = Fault("504", "POST"), looking("504", rig)
    rig.exchange.script = [post, ask, post._replace(kind="504_after"), ask]
    trader.run(1)
    assert [row["status"] for row in trader.journal.rows(tables.orders)] == ["unknown", "unknown"]
    assert len(rig.exchange.orders) == 1
    trader.journal.close()
    again = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
    again._resume(again._read_state())
    statuses = [row["status"] for row in again.journal.rows(tables.orders)]
    if again.desk.broker.has_unique_ids:
        assert statuses == ["sent", "sent"]
        assert len(rig.exchange.orders) == 2
    else:  # a second one of that id could be traded beside a first that is late: it is not sent
        assert statuses == ["unknown", "sent"]
        assert len(rig.exchange.orders) == 1
    again.run(2)
    assert booked(again) == pytest.approx(rig.held(), abs=1e-9)
    assert max(rig.exchange.times.values()) == 1
    again.journal.close()


def test_an_order_that_arrives_after_a_restart_under_a_halt_is_not_forgotten(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.0, 0.0, 0.0))
    rig.exchange.script = [Fault("504_late", "POST")]  # it is there with the next bar only
    trader.run(1)
    trader.switch.engage("drill")
    trader.journal.close()
    again = rig.trader(plain(0.1, 0.0, 0.0, 0.0))
    rig.exchange.share = lambda order: 0.0
    again.run(1)
    assert [order.status for order in rig.exchange.orders.values()] == ["canceled"]
    assert again.journal.rows(tables.orders)[0]["status"] == "cancelled"
    again.journal.close()


def test_after_two_orders_without_an_answer_the_rest_is_not_sent(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.1, 0.1, 0.1))
    rig.exchange.chance = lambda method, path: "504" if "order" in path else None
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
    assert booked(again) == pytest.approx(rig.held(), abs=1e-9)
    assert len(rig.held()) == 2
    again.journal.close()
    rig.exchange.held[rig.panel.symbols[0]] *= 10  # by hand
    with pytest.raises(RunError, match=r"the broker holds .*; correct it, then resume"):
        rig.trader(plain(0.0, 0.0, 0.0, 0.0)).run(1)
    rig.folder = rig.folder / "new"  # nor does a run begin with what another bought
    with pytest.raises(RunError, match=r"the broker holds .*; correct it, then resume"):
        rig.trader(plain(0.0, 0.0, 0.0, 0.0)).run(1)


def test_a_split_at_the_venue_is_booked_where_the_feed_tells_it_too(
    panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_rig("alpaca", panel, tmp_path, monkeypatch) as rig:
        trader, symbol = rig.trader(plain(0.1, 0.1, 0.0, 0.0)), panel.symbols[0]
        trader.run(3)
        trader.journal.close()
        rig.exchange.split(symbol, 4)
        with pytest.raises(RunError, match=rf"the broker holds .* of '{symbol}'"):  # the feed does not know of it
            rig.trader(plain(0.1, 0.1, 0.0, 0.0)).run(1)
        trader.switch.release("Ada")
        blocks = panel.blocks.copy()
        blocks[[panel.fields.index(name) for name in ("open", "high", "low", "close")], :, 0] /= 4
        rig.feed.panel = replace(panel, blocks=blocks)  # as an adjusted source has it from then on
        again = rig.trader(plain(0.1, 0.1, 0.0, 0.0))
        again.run(2)
        assert again.desk.guard.state is State.ACTIVE
        assert booked(again) == pytest.approx(rig.held(), abs=1e-9)
        assert rig.weights()[0] == pytest.approx(0.1, rel=0.1)
        (row,) = [row for row in again.journal.rows(tables.fills) if row["reason"] == "split"]
        assert (row["symbol"], row["price"]) == (symbol, 0.0)
        again.journal.close()


# ---- 5. quantities and time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/account", "/order"])
def test_a_halt_does_not_wait_for_a_broker_that_holds_its_answer(path: str, rig: Rig) -> None:
    exchange, trader = rig.exchange, rig.trader(plain(0.1, 0.0, 0.0, 0.0))
    trader.run(1)
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


def test_a_halt_does_not_wait_for_a_feed_that_holds_its_answer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    trader, is_asked, may_answer = rig.trader(plain(0.1, 0.0, 0.0, 0.0)), threading.Event(), threading.Event()
    trader.run(1)
    rig.exchange.share = lambda order: 0.0
    answer = rig.feed.after

    def hold(last: pd.Timestamp) -> Panel | None:
        is_asked.set()
        may_answer.wait(60.0)
        return answer(last)

    monkeypatch.setattr(rig.feed, "after", hold)
    running = threading.Thread(target=lambda: trader.run(1), daemon=True)
    running.start()
    assert is_asked.wait(30.0)
    trader.switch.engage("now")
    assert wait_until(lambda: trader.desk.guard.state is State.HALTED)
    assert wait_until(lambda: rig.exchange.working(rig.panel.symbols[0]) == 0)  # and what rested is cancelled
    was_waiting = not may_answer.is_set()
    may_answer.set()
    running.join()
    assert was_waiting
    trader.journal.close()


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
def test_a_halt_acts_within_a_second_whatever_the_broker_does(
    kind: str, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sized: Callable[[int], int]
) -> None:
    """The only test that looks at the clock; beside many others it may be late."""
    times = sized(30)
    with open_rig(kind, panel, tmp_path, monkeypatch) as rig:
        trader, seconds = rig.trader(lambda bar: [0.04 + 0.08 * (bar % 2)] * 4), list[float]()
        trader.run(1)
        for number in range(times):
            rig.exchange.released.clear()
            rig.exchange.script = [*[Fault("")] * (number % 3), Fault("slow")]  # the first request of a bar, or a later
            running = threading.Thread(target=lambda: trader.run(1), daemon=True)
            running.start()
            assert wait_until(lambda: rig.exchange.held_answers == 1)
            begun = time.monotonic()
            trader.switch.engage("now")
            assert wait_until(lambda: trader.desk.guard.state is State.HALTED)
            seconds.append(time.monotonic() - begun)
            rig.exchange.released.set()
            running.join()
            trader.switch.release("Ada")
        trader.journal.close()
    print(f"{kind}: {times} halts while an answer was held, after {np.mean(seconds):.2f} s, at most {max(seconds):.2f}")
    assert max(seconds) < 1.0


# ---- whatever goes wrong ---------------------------------------------------------------------------------------------


def test_an_open_order_that_the_journal_does_not_know_halts(rig: Rig) -> None:
    trader, symbol = rig.trader(plain(0.1, 0.0, 0.0, 0.0)), rig.panel.symbols[1]
    trader.run(2)
    rig.exchange.share = lambda order: 0.0
    rig.broker().place(Order("by hand", symbol, 1.0, 100.0))
    trader.run(1)
    assert trader.desk.guard.state is State.HALTED
    assert "has an open order that the journal does not know" in trader.desk.guard.reason
    assert symbol in trader.desk.guard.reason
    trader.journal.close()


def test_a_closed_market_holds_orders_back_and_loses_none(rig: Rig) -> None:
    trader = rig.trader(plain(0.1, 0.0, 0.0, 0.0))
    rig.exchange.is_closed = True
    trader.run(3)
    assert rig.held() == {} == booked(trader)
    rig.exchange.is_closed = False
    trader.run(2)
    assert rig.weights()[0] == pytest.approx(0.1, rel=0.1)
    assert booked(trader) == pytest.approx(rig.held(), abs=1e-9)
    trader.journal.close()


@pytest.mark.parametrize("kind", KINDS)
def test_random_faults_double_and_lose_nothing(
    kind: str, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert meet_faults(kind, tmp_path, panel, 1, 60, monkeypatch)[1] >= 60


@pytest.mark.parametrize("kind", KINDS)
def test_answers_that_are_odd_for_a_while_double_and_lose_nothing(
    kind: str, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert meet_faults(kind, tmp_path, panel, 1, 40, monkeypatch, is_odd=True)[1] >= 40


def test_an_old_list_of_positions_closes_no_more_than_the_fills_explain(rig: Rig) -> None:
    trader = rig.trader(
        lambda bar: [0.1 if bar < 2 else 0.05, 0.0, 0.0, 0.0], options=OrderOptions(flatten_on_halt=True)
    )
    names, old = ("positions", "positionRisk", "account"), dict[str, Any]()

    def show(path: str, content: Any) -> Any:
        name = path.split("/")[-1]
        if name in names and trader.bars < 3:
            old[name] = content
        return old[name] if name in names else content

    trader.run(2)
    rig.exchange.shown = show
    trader.run(1)
    assert rig.weights()[0] == pytest.approx(0.1, rel=0.1)
    trader.run(1)  # half of it is sold, and the venue shows all of it still
    assert trader.desk.guard.state is State.HALTED
    held = rig.exchange.held[rig.panel.symbols[0]]
    assert 0 <= held + rig.exchange.working(rig.panel.symbols[0]) <= held
    rig.exchange.shown = lambda path, content: content
    trader.run(2)
    assert rig.sold_out()
    assert booked(trader) == pytest.approx(rig.held(), abs=1e-9)
    trader.journal.close()


def test_no_entry_is_added_to_a_position_that_only_an_order_in_flight_explains(rig: Rig) -> None:
    trader = rig.trader(lambda bar: [0.1 if bar < 2 or bar > 2 else 0.0, 0.0, 0.0, 0.0])
    trader.run(2)
    symbol = rig.panel.symbols[0]
    rig.exchange.share, rig.exchange.slow_cancels = (lambda order: 0.0), 1000
    trader.run(1)  # an exit, which rests
    money = ("positions", "positionRisk", "balances")
    rig.exchange.shown = lambda path, content: (
        [] if path.split("/")[-1] in money else _without(content, symbol) if "balances" in content else content
    )
    trader.run(1)  # the venue shows nothing held, as if the exit had just filled
    buying = [each for each in rig.exchange.orders.values() if each.is_open and each.quantity > 0]
    assert buying == []
    trader.journal.close()


def _without(account: dict[str, Any], symbol: str) -> dict[str, Any]:
    """A spot account that does not list a coin."""
    return account | {"balances": [row for row in account["balances"] if row["asset"] != symbol.split("/")[0]]}


def run_kills(folder: Path, kind: str, kills: int, seed: int) -> str:
    done = subprocess.run(
        [sys.executable, str(KILLS), str(folder), kind, str(kills), str(seed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_traders_that_are_killed_within_a_request_double_and_lose_nothing(tmp_path: Path) -> None:
    assert "0 doubled, 0 lost" in run_kills(tmp_path, "spot", 3, 1)


@pytest.mark.proof
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_many_faults_and_kills_double_and_lose_nothing(
    kind: str, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sized: Callable[[int], int]
) -> None:
    runs, faults = meet_faults(kind, tmp_path, panel, 100, sized(1000), monkeypatch)
    print(f"{kind}: {runs} runs of {BARS} bars, {faults:,} faults: 0 doubled, 0 lost, 0 not journalled")
    print(run_kills(tmp_path / "kills", kind, sized(40), 7))
