"""The paper trader: the backtest to the cent, restarts that lose and double nothing, and clean halts."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from trading import FIRST, RULES, Rule, make_trader, small_market, small_panel

from pacesetter.api import FunctionPolicy
from pacesetter.data.loading import load
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import table_observer
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.monitor.alerts import Alert, Alerts
from pacesetter.serving.risk.guard import Guard, State
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.trader.desk import Desk, GuardedPolicy
from pacesetter.serving.trader.feeds import LiveClock, OnlineFeed, ReplayFeed
from pacesetter.serving.trader.paper import PaperTrader

LOOSE = GuardLimits(
    order_fraction=1.0,
    symbol_fraction=1.0,
    gross_fraction=9.0,
    cluster_correlation=1.0,
    reduce_fraction=0.9,
    halt_fraction=0.9,
    drawdown_fraction=0.9,
    stop_count=999,
)


@pytest.fixture(scope="module")
def panel() -> Panel:
    return small_panel()


def equity(trader: PaperTrader) -> list[float]:
    return [row["equity"] for row in trader.journal.rows(tables.equity)]


def rows(folder: Path, table: str, **equal: Any) -> list[Any]:
    journal = Journal(journal_url(folder), "run")
    found = journal.rows(getattr(tables, table), **equal)
    journal.close()
    return found


def finish(trader: PaperTrader) -> list[float]:
    """Play to the end; gives the equity at each close."""
    trader.run()
    found = equity(trader)
    trader.journal.close()
    return found


# ---- one path -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", RULES)
def test_the_replay_is_the_backtest_behind_the_same_guard(action: str, panel: Panel, tmp_path: Path) -> None:
    guarded = GuardedPolicy(Rule(action), Guard(), panel, small_market(panel))
    expected = backtest(guarded, panel, first=FIRST, market=guarded.market)
    trader = make_trader(tmp_path, action, panel)
    assert finish(trader) == expected.equity.tolist()
    refused = [decision for ticket in guarded.tickets for decision in ticket.decisions if not decision.allowed]
    stored = {row["client_id"]: row["reason"] for row in rows(tmp_path, "orders", status="denied")}
    assert {decision.order.client_id: decision.reason for decision in refused}.items() <= stored.items()
    assert (expected.fills[..., 1] != 0).sum() > 10


@pytest.mark.parametrize("action", RULES)
def test_a_guard_that_refuses_nothing_changes_nothing(action: str, panel: Panel) -> None:
    guarded = GuardedPolicy(Rule(action), Guard(LOOSE), panel, small_market(panel))
    alone = backtest(Rule(action), panel, first=FIRST, market=small_market(panel))
    behind = backtest(guarded, panel, first=FIRST, market=guarded.market)
    assert behind.equity.tolist() == alone.equity.tolist()  # the orders themselves are filled, bit for bit
    np.testing.assert_array_equal(behind.fills, alone.fills)
    assert not guarded.desk.guard.denials


class Watcher(Policy):
    """Acts on all that is observed, so that any difference in what it sees shows in its orders."""

    name, action = "watcher", "discrete"

    def decide(self, seen: Snapshot) -> Any:
        assert seen.masks is not None
        numbers = [np.nan_to_num(seen.observation[entry]).ravel() for entry in ("window", "position", "portfolio")]
        seed = int(np.concatenate(numbers).astype(np.float32).view(np.uint32).sum(dtype=np.uint64))
        wanted = np.random.default_rng(seed).random(seen.masks.shape)
        return np.argmax(np.where(seen.masks, wanted, -1.0), axis=1)


def test_a_policy_sees_the_same_to_the_bit_in_backtest_and_replay(panel: Panel, tmp_path: Path) -> None:
    market = small_market(panel)
    guarded = GuardedPolicy(Watcher(), Guard(), panel, market)
    behind = backtest(guarded, panel, first=FIRST, market=guarded.market)
    trader = make_trader(tmp_path, panel=panel, policy=Watcher(), observe=table_observer(24))
    assert finish(trader) == behind.equity.tolist()


def test_a_backtest_in_another_market_is_refused(panel: Panel) -> None:
    guarded = GuardedPolicy(Rule("target"), Guard(), panel)
    with pytest.raises(ConfigError, match=r"give it market=guarded\.market"):
        backtest(guarded, panel, first=FIRST, market=small_market(panel))


def test_the_journal_tells_decisions_orders_fills_and_refusals(panel: Panel, tmp_path: Path) -> None:
    trader = make_trader(tmp_path, panel=panel)
    trader.run()
    trader.journal.close()
    told = {name: rows(tmp_path, name) for name in ("decisions", "orders", "fills", "equity", "positions")}
    assert len(told["decisions"]) == 4 * len(told["equity"]) == 4 * (len(panel) - FIRST)
    denied = [row for row in told["orders"] if row["status"] == "denied"]
    assert len(denied) == sum(trader.desk.guard.denials.values()) > 0
    assert {row["reason"] for row in denied} == set(trader.desk.guard.denials)
    ids = {row["client_id"] for row in told["orders"] if row["status"] == "filled"}
    assert {row["client_id"] for row in told["fills"] if row["reason"] == "order"} == ids
    assert "trailing stop" in {row["reason"] for row in told["fills"]}
    last = told["equity"][-1]["time"]
    held = {row["symbol"]: row["quantity"] for row in told["positions"] if row["time"] == last}
    journal = Journal(journal_url(tmp_path), "run")
    assert journal.holdings() == held
    journal.close()


# ---- restarts -------------------------------------------------------------------------------------------------------


def killed(folder: Path, kills: int, seed: int, *server: str) -> str:
    line = [sys.executable, str(Path(__file__).parents[1] / "kills.py"), str(folder), str(kills), str(seed), *server]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return done.stdout


def test_five_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    assert killed(tmp_path, 5, seed=1).startswith("5 kills")


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_two_hundred_kills_lose_and_double_nothing(tmp_path: Path, url: str, sized: Callable[[int], int]) -> None:
    kills, server = sized(200), [] if url.startswith("sqlite") else [url]
    assert killed(tmp_path, kills, 2, *server).startswith(f"{kills} kills")


def test_books_that_do_not_add_up_are_refused_at_the_start(panel: Panel, tmp_path: Path) -> None:
    trader = make_trader(tmp_path, panel=panel)
    trader.run(8)
    with trader.journal.engine.begin() as connection:
        connection.execute(tables.fills.update().values(quantity=tables.fills.c.quantity * 1.01))
    trader.journal.close()
    with pytest.raises(RunError, match=r"fills of bar .* are not those of the audit log"):
        make_trader(tmp_path, panel=panel).run()
    assert KillSwitch(tmp_path / "HALT").is_engaged()


@pytest.mark.parametrize(
    ("table", "values", "message"),
    [
        (tables.checkpoints, {"state": {"bars": 3}}, r"last state of run 'run' is damaged \(KeyError\('last'\)\)"),
        (tables.orders, None, "the journal's orders of bar .* are not those of the audit log"),
    ],
)
def test_a_journal_that_lost_something_is_refused(
    table: Any, values: Any, message: str, panel: Panel, tmp_path: Path
) -> None:
    trader = make_trader(tmp_path, panel=panel)
    trader.run(8)
    assert trader.desk.guard.in_flight
    with trader.journal.engine.begin() as connection:
        connection.execute(table.delete() if values is None else table.update().values(values))
    trader.journal.close()
    again = make_trader(tmp_path, panel=panel)
    with pytest.raises(RunError, match=message):
        again.run()
    again.journal.close()


@pytest.mark.parametrize("seed", [None, 9])
def test_a_restart_on_other_bars_is_refused_and_halts_nothing(seed: int | None, panel: Panel, tmp_path: Path) -> None:
    trader = make_trader(tmp_path, panel=panel.rows(0, -5))
    trader.run()
    trader.journal.close()
    other = panel.select(panel.symbols[:3]) if seed is None else load("synthetic", symbols=4, bars=235, seed=seed)
    again = make_trader(tmp_path, panel=other)
    with pytest.raises(RunError, match=r"run 'run' is at .* this feed has other symbols or bars"):
        again.run()
    again.journal.close()
    assert not KillSwitch(tmp_path / "HALT").is_engaged()
    longer = make_trader(tmp_path, panel=panel)  # the same bars and more: it goes on
    assert longer.run()[:2] == (len(panel) - FIRST, 5)
    longer.journal.close()


# ---- halts ----------------------------------------------------------------------------------------------------------


class Market(ReplayFeed):
    """Bars that wait for nobody."""

    is_stored = False


def test_the_kill_switch_stops_orders_across_restarts_until_a_person_resumes(panel: Panel, tmp_path: Path) -> None:
    feed = Market(panel, FIRST)
    trader = make_trader(tmp_path, panel=panel, feed=feed)
    trader.run(10)
    trader.journal.close()
    switch = KillSwitch(tmp_path / "HALT")
    switch.engage("a person said so")
    trader = make_trader(tmp_path, panel=panel, feed=feed)
    trader.run(10)
    orders = trader.journal.rows(tables.orders)
    halted_from = trader.journal.rows(tables.equity)[10]["time"]
    assert {row["reason"] for row in orders if row["time"] >= halted_from} <= {"halted"}
    switch.path.unlink()  # not by a person's name: it latches again
    assert trader.run(1).state is State.HALTED
    assert switch.is_engaged()
    switch.release("Ada")
    assert trader.run(20).state is State.ACTIVE
    events = [(row["kind"], row["message"]) for row in trader.journal.rows(tables.events) if row["kind"] != "alert"]
    assert ("halt", "a person said so") in events
    assert ("resume", "by Ada") in events
    trader.journal.close()


def test_orders_refused_under_a_halt_are_no_alarm_of_their_own(panel: Panel, tmp_path: Path) -> None:
    trader = make_trader(tmp_path, panel=panel, feed=Market(panel, FIRST))
    trader.switch.engage("a person said so")
    trader.run()
    assert trader.desk.guard.denials["halted"] > 20
    assert not [row for row in trader.journal.rows(tables.events) if "denial_rate" in row["message"]]
    trader.journal.close()


def test_stored_bars_wait_for_the_person_who_halted(panel: Panel, tmp_path: Path) -> None:
    expected = finish(make_trader(tmp_path / "whole", panel=panel))
    switch = KillSwitch(tmp_path / "HALT")
    for bars in (0, 10):  # before the first bar, and within the replay
        switch.engage("a person said so")
        trader = make_trader(tmp_path, panel=panel)
        halted = trader.run()
        trader.journal.close()
        assert halted[:2] == (bars, 0)
        assert halted[3:5] == (State.HALTED, "a person said so")
        switch.path.unlink()  # not by a person's name
        trader = make_trader(tmp_path, panel=panel)
        assert trader.run()[1:5] == (0, *halted[2:5])
        trader.journal.close()
        switch.release("Ada")
        trader = make_trader(tmp_path, panel=panel)
        trader.run(10)
        events = [row["message"] for row in trader.journal.rows(tables.events) if row["kind"] == "resume"]
        trader.journal.close()
    assert events == ["by Ada", "by Ada"]
    assert finish(make_trader(tmp_path, panel=panel)) == expected


@pytest.mark.parametrize("method", ["settle", "decide"])
def test_a_halt_within_a_stored_bar_waits_for_its_end(method: str, panel: Panel, tmp_path: Path) -> None:
    expected = finish(make_trader(tmp_path / "whole", panel=panel))
    switch, trader = KillSwitch(tmp_path / "HALT"), make_trader(tmp_path, panel=panel)
    work = getattr(trader.desk, method)

    def halted_meanwhile(*arguments: Any) -> Any:
        if trader.bars == 5:
            switch.engage("a person said so")
        return work(*arguments)

    setattr(trader.desk, method, halted_meanwhile)
    assert trader.run()[:2] == (6, 6)
    trader.journal.close()
    switch.release("Ada")
    assert finish(make_trader(tmp_path, panel=panel)) == expected


def test_every_halt_is_told_however_soon_it_follows(panel: Panel, tmp_path: Path) -> None:
    trader = make_trader(tmp_path, panel=panel)
    told: list[Alert] = []
    sink = SimpleNamespace(send=told.append)
    trader.watch.alerts = Alerts([sink], 3600.0)
    for reason in ("fire", "flood"):
        trader.switch.engage(reason)
        trader.run()
        trader.switch.release("Ada")
        trader.run(1)
    trader.watch.alerts.close()
    trader.journal.close()
    assert [alert.message for alert in told if alert.kind == "halt"] == ["fire", "flood"]


class CutShortError(BaseException):
    """A process that ends in the middle of a bar."""


def test_a_replay_goes_on_under_a_limit_of_its_own_as_the_backtest_does(
    panel: Panel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = GuardLimits(reduce_fraction=0.001, halt_fraction=0.002)
    guarded = GuardedPolicy(Rule("continuous"), Guard(limits), panel, small_market(panel))
    expected = backtest(guarded, panel, first=FIRST, market=guarded.market).equity.tolist()

    def trader() -> PaperTrader:
        made = make_trader(tmp_path, panel=panel)
        made.desk.guard = Guard(limits)
        return made

    def cut(page: Any) -> bool:
        if cut_short.desk.guard.state is State.HALTED:
            raise CutShortError  # the switch is engaged, and the bar not written yet
        return written(page)

    cut_short = trader()
    written, cut_short.journal.record = cut_short.journal.record, cut  # type: ignore[method-assign]
    with pytest.raises(CutShortError):
        cut_short.run()
    cut_short.journal.close()
    assert 0 < cut_short.bars < len(expected) - 1
    assert "still halted" not in caplog.text
    assert finish(trader()) == expected
    assert "still halted: loss of the day" in caplog.text


def test_a_policy_that_goes_on_with_the_book_of_another_is_told(panel: Panel, tmp_path: Path) -> None:
    for action in ("continuous", "continuous", "discrete"):
        trader = make_trader(tmp_path, action, panel)
        trader.run(3)
        events = [row["message"] for row in trader.journal.rows(tables.events) if row["kind"] == "policy"]
        trader.journal.close()
    assert events == ["discrete rule resumes with the book of continuous rule, 6 bars old"]


class Silent:
    """A journal whose database is gone."""

    def __getattr__(self, name: str) -> Any:
        raise RunError("the journal is gone")


def test_the_kill_switch_acts_with_the_database_gone(panel: Panel, tmp_path: Path) -> None:
    trader = make_trader(tmp_path, panel=panel)
    trader.run(5)
    trader.journal.close()
    cancelled: list[bool] = []
    trader.desk.broker.cancel_all = lambda: cancelled.append(True)  # type: ignore[method-assign]
    trader.journal = Silent()  # type: ignore[assignment]
    trader.switch.engage("stop")
    with pytest.raises(RunError, match="gone"):
        trader._sync_switch()
    assert trader.desk.guard.state is State.HALTED
    assert cancelled == [True]


def test_a_halt_is_told_though_neither_broker_nor_switch_can_be_reached(panel: Panel, tmp_path: Path) -> None:
    trader = make_trader(tmp_path, panel=panel, switch=KillSwitch("/proc/nowhere/HALT"))
    told: list[str] = []
    trader.watch.alerts.send = lambda alert: not told.append(alert.message)  # type: ignore[method-assign, func-returns-value]
    trader.desk.broker.cancel_all = lambda: 1 / 0  # type: ignore[method-assign, assignment]
    trader._halt(RunError("fire"))
    assert told == ["fire"]
    assert [(row["kind"], row["message"]) for row in trader.journal.rows(tables.events)] == [("halt", "fire")]
    trader.journal.close()


def test_while_waiting_the_switch_is_heeded_within_a_second(panel: Panel, tmp_path: Path) -> None:
    trader = make_trader(tmp_path, panel=panel)
    trader.run(3)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            trader.switch.engage("stop")
        elif len(slept) > 2 and trader.desk.guard.state is State.HALTED:
            raise InterruptedError

    trader.feed.clock.sleep = sleep  # type: ignore[method-assign]
    with pytest.raises(InterruptedError):
        trader._wait(60.0)
    assert sum(slept[2:]) <= 1.0
    trader.journal.close()


@pytest.mark.proof
def test_a_trader_that_waits_is_halted_within_a_second_of_the_clock(panel: Panel, tmp_path: Path) -> None:
    trader = make_trader(tmp_path, panel=panel)
    trader.run(3)
    trader.feed.clock.sleep = time.sleep  # type: ignore[method-assign]
    waiting = Thread(target=trader._wait, args=(3.0,))
    waiting.start()
    time.sleep(0.6)
    trader.switch.engage("stop")
    engaged = time.monotonic()
    while trader.desk.guard.state is not State.HALTED and time.monotonic() < engaged + 2.0:
        time.sleep(0.01)
    seconds = time.monotonic() - engaged
    waiting.join()
    trader.journal.close()
    assert seconds < 1.0


def test_a_full_disk_halts_cleanly_and_the_run_goes_on_where_it_was(panel: Panel, tmp_path: Path) -> None:
    expected = finish(make_trader(tmp_path / "whole", panel=panel))
    trader = make_trader(tmp_path / "cut", panel=panel)
    trader.run(10)
    with trader.journal.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    with pytest.raises(RunError, match="database or disk is full"):
        trader.run()
    assert trader.desk.guard.state is State.HALTED
    trader.journal.close()
    switch = KillSwitch(tmp_path / "cut" / "HALT")
    assert "disk is full" in switch.reason()
    written = equity(make_trader(tmp_path / "cut", panel=panel))
    assert written == expected[: len(written)]
    switch.release("Ada")
    assert finish(make_trader(tmp_path / "cut", panel=panel)) == expected


@pytest.mark.parametrize(("jump", "message"), [(7200.0, "jumped by"), (-3600.0, "jumped by"), (-1e9, "jumped|future")])
def test_a_clock_that_jumps_halts_cleanly(panel: Panel, tmp_path: Path, jump: float, message: str) -> None:
    clock = {"wall": panel.index[-1].timestamp() + 60.0, "monotonic": 0.0}
    feed = ReplayFeed(panel, FIRST)
    feed.clock = LiveClock(lambda: clock["wall"], lambda: clock["monotonic"], lambda seconds: None)  # type: ignore[assignment]
    trader = make_trader(tmp_path, panel=panel, feed=feed)
    trader.run(2)
    clock["wall"] += jump
    with pytest.raises(RunError, match=message):
        trader.run(2)
    assert trader.desk.guard.state is State.HALTED
    assert trader.switch.is_engaged()
    trader.journal.close()


def test_a_policy_that_fails_halts_cleanly(panel: Panel, tmp_path: Path) -> None:
    broken = FunctionPolicy(lambda seen: 1 / 0)
    trader = make_trader(tmp_path, panel=panel, policy=broken)
    with pytest.raises(ZeroDivisionError):
        trader.run()
    assert "ZeroDivisionError" in trader.switch.reason()
    trader.journal.close()


# ---- bad data -------------------------------------------------------------------------------------------------------


def test_old_data_blocks_entries_and_allows_exits(panel: Panel, tmp_path: Path) -> None:
    now = {"wall": panel.index[FIRST + 10].timestamp()}
    feed = ReplayFeed(panel, FIRST)
    feed.clock = SimpleNamespace(now=lambda bar: max(now["wall"], bar.timestamp()), sleep=None)  # type: ignore[assignment]
    trader = make_trader(tmp_path, panel=panel, feed=feed)
    trader.run(7)
    orders = trader.journal.rows(tables.orders)
    late = [row for row in orders if row["time"] < panel.index[FIRST + 7]]
    assert late
    assert {row["reason"] for row in late} == {"stale"}
    trader.journal.close()


def test_stored_bars_are_shown_without_being_copied(panel: Panel, tmp_path: Path) -> None:
    shown: list[Panel] = []
    policy = FunctionPolicy(lambda seen: shown.append(seen.panel) or np.zeros(len(panel.symbols)))
    feed = ReplayFeed(panel, FIRST)
    trader = make_trader(tmp_path, panel=panel, policy=policy, feed=feed)
    trader.run(4)
    trader.journal.close()
    assert [len(each) for each in shown] == [FIRST + 1, FIRST + 2, FIRST + 3, FIRST + 4]
    assert all(np.shares_memory(each.blocks, feed.panel.blocks) for each in shown)
    assert all(each.truth is None for each in shown)


def spiked(panel: Panel, row: int, name: str, factor: float) -> Panel:
    """The panel with one price of its second symbol so many times as high; high and low hold it."""
    blocks = panel.blocks.copy()
    for field in {name, "high" if factor > 1.0 else "low"}:
        blocks[panel.fields.index(field), row, 1] *= factor
    return dataclasses.replace(panel, blocks=blocks)


@pytest.mark.parametrize(("name", "factor"), [("close", 50_000.0), ("high", 50_000.0), ("close", 1e-3), ("low", 1e-3)])
def test_a_price_that_no_market_has_halts_before_anything_is_booked(
    name: str, factor: float, panel: Panel, tmp_path: Path
) -> None:
    expected = finish(make_trader(tmp_path / "whole", panel=panel))
    trader = make_trader(tmp_path, panel=spiked(panel, FIRST + 6, name, factor))
    told: list[Alert] = []
    trader.watch.alerts = Alerts([SimpleNamespace(send=told.append)], 0.0)
    moment = str(panel.index[FIRST + 6])
    with pytest.raises(DataError, match=rf"'{panel.symbols[1]}' goes from .* in bar {re.escape(moment)}, beyond guard"):
        trader.run()
    trader.watch.alerts.close()
    assert equity(trader) == expected[:6]
    assert ["goes from" in alert.message for alert in told if alert.kind == "halt"] == [True]
    assert trader.switch.is_engaged()
    trader.journal.close()
    trader.switch.release("Ada")
    assert finish(make_trader(tmp_path, panel=panel)) == expected  # the data was put right


def test_a_price_that_a_person_believes_is_traded_on_and_a_backtest_agrees(panel: Panel, tmp_path: Path) -> None:
    odd, limits = spiked(panel, FIRST + 6, "close", 30.0), GuardLimits(jump_factor=31.0)
    trader = make_trader(tmp_path, panel=odd)
    trader.desk.guard = Guard(limits)
    guarded = GuardedPolicy(Rule("continuous"), Guard(limits), odd, small_market(odd))
    assert finish(trader) == backtest(guarded, odd, first=FIRST, market=guarded.market).equity.tolist()
    guarded = GuardedPolicy(Rule("continuous"), Guard(), odd, small_market(odd))
    with pytest.raises(DataError, match=r"beyond guard\.jump_factor=10"):
        backtest(guarded, odd, first=FIRST, market=guarded.market)


class Disorderly(ReplayFeed):
    """Gives every bar twice, and now and then nothing but trouble."""

    calls = 0

    def after(self, last: pd.Timestamp) -> Panel | None:
        self.calls += 1
        if self.calls % 3 == 0:
            raise DataError("the network is down")
        row = int(self.panel.index.searchsorted(last, side="right"))
        return self.panel.rows(row - 1, row + 1) if row < len(self.panel) else None


def test_bars_out_of_order_and_a_feed_that_fails_change_nothing_but_the_events(panel: Panel, tmp_path: Path) -> None:
    expected = finish(make_trader(tmp_path / "plain", panel=panel))
    trader = make_trader(tmp_path / "disorderly", panel=panel, feed=Disorderly(panel, FIRST))
    trader.run()
    assert equity(trader) == expected
    assert {"out_of_order", "feed"} <= {row["kind"] for row in trader.journal.rows(tables.events)}
    trader.journal.close()


def test_a_live_feed_is_waited_for_and_every_bar_traded_once(
    panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = {"now": panel.index[FIRST].timestamp() + 60.0}

    def sleep(seconds: float) -> None:
        moment["now"] += 3600.0 * seconds

    def asked(source: str, **options: Any) -> Panel:
        assert (source, options["refresh"]) == ("yahoo", True)
        return panel.between(options["start"], pd.Timestamp(moment["now"], unit="s", tz="UTC"))

    monkeypatch.setattr("pacesetter.serving.trader.feeds.load", asked)
    clock = LiveClock(lambda: moment["now"], lambda: moment["now"], sleep)
    feed = OnlineFeed("yahoo", {"start": f"{panel.index[0]:%Y-%m-%d}"}, clock)
    trader = make_trader(tmp_path, panel=panel, feed=feed)
    trader.run(8)
    assert equity(trader) == finish(make_trader(tmp_path / "replay", panel=panel))[:8]
    trader.journal.close()


def test_two_processes_on_one_run_are_one_too_many(panel: Panel, tmp_path: Path) -> None:
    first, second = make_trader(tmp_path, panel=panel), make_trader(tmp_path, panel=panel)
    first.run(3)
    second._resume(second._read_state())
    bars = panel.rows(0, FIRST + 4)
    second._trade(bars)
    with pytest.raises(RunError, match="another process trades run 'run'"):
        first._trade(bars)
    for trader in (first, second):
        trader.journal.close()


def test_a_second_start_is_refused_and_the_first_trader_goes_on(
    panel: Panel, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = finish(make_trader(tmp_path / "alone", panel=panel))
    first, second = (make_trader(tmp_path, panel=panel, journal=Journal(url, "run")) for _ in range(2))

    def start_second() -> None:
        with monkeypatch.context() as hurried:
            hurried.setattr("pacesetter.serving.journal.journal.HOLD_SECONDS", 0.01)
            with pytest.raises(RunError, match=r"is in use by process|trades run 'run'"):
                second.run()

    first.display = SimpleNamespace(open=lambda: None, bar=start_second)
    assert finish(first) == expected
    assert not first.switch.is_engaged()
    assert second.run().bars == len(expected)
    second.journal.close()


def test_on_a_real_postgresql_the_trade_is_the_same(panel: Panel, tmp_path: Path, url: str) -> None:
    expected = finish(make_trader(tmp_path / "plain", panel=panel))
    trader = make_trader(tmp_path / "other", panel=panel, journal=Journal(url, "run"))
    trader.run(20)
    trader.journal.close()
    assert finish(make_trader(tmp_path / "other", panel=panel, journal=Journal(url, "run"))) == expected


def test_a_policy_of_an_unknown_action_space_is_refused(panel: Panel) -> None:
    with pytest.raises(ConfigError, match="did you mean 'target'"):
        Desk(Rule("targt"), Guard(), panel.symbols, small_market(panel))
