"""The drill: every control of the guard, every alert and the kill switch made to act, with nothing at stake."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd

from pacesetter.errors import DataError
from pacesetter.panel import Panel, utc_index
from pacesetter.serving.monitor.alerts import Alert, AlertOptions, Alerts, Sink
from pacesetter.serving.monitor.watch import Thresholds, Vitals, Watch
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.jumps import check_jumps
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.order import AccountView, Order, Quote
from pacesetter.serving.risk.refusals import CONTROLS
from pacesetter.serving.trader.desk import last_bars

__all__ = ["DrillConfig", "Drilled", "drill"]

NOON = 43_200.0
PLAIN = Order("drill", "A", 1.0, 100.0)
FLAT = AccountView(100_000.0, {}, {symbol: Quote(100.0) for symbol in "ABC"})
BEYOND = Vitals(drawdown=1.0, data_age_bars=1e6, denial_rate=1.0, latency_seconds=1e6, entropy=0.0, drift=1e6)


class Drilled(NamedTuple):
    """What was drilled, what it should do, and whether it did."""

    name: str
    expected: str
    acted: bool


@dataclass(frozen=True)
class DrillConfig:
    """Thresholds and sinks of the trader that the drill is for."""

    watch: Thresholds = field(default_factory=Thresholds)
    alerts: AlertOptions = field(default_factory=AlertOptions)


def drill(sinks: list[Sink], thresholds: Thresholds | None = None) -> list[Drilled]:
    """Make each control act once; alerts are really sent, but only to sinks that accepted a first one."""
    tried = {sink: _sink(sink) for sink in sinks}
    # A sink that hangs or fails once would make every later alert wait for its time-out.
    able = [sink for sink, result in tried.items() if result.acted]
    return [*_controls(), _jump(), *_alerts(able, thresholds or Thresholds()), *tried.values(), _switch()]


def _controls() -> Iterator[Drilled]:
    """An order that each control alone must refuse."""
    for name in CONTROLS:
        guard, order, account = _provoke_refusal(name)
        yield Drilled(f"control {name}", "refuses", guard.check(order, account, NOON).reason == name)


def _jump() -> Drilled:
    """A bar whose price is too far from the one before."""
    closes = np.array([[1.0], [2.0 * GuardLimits().jump_factor]])
    panel = Panel.from_fields(utc_index(pd.date_range("2000", periods=2)), ("A",), {"close": closes})
    try:
        check_jumps(panel, last_bars(panel), GuardLimits().jump_factor)
    except DataError:
        return Drilled("price jump", "is refused", True)
    return Drilled("price jump", "is refused", False)


def _provoke_refusal(name: str) -> tuple[Guard, Order, AccountView]:
    """A guard, an order and an account that only the control `name` refuses."""
    guard = Guard()
    guard.begin_bar(FLAT.equity, NOON)
    limits, order, account = guard.limits, PLAIN, FLAT
    value = FLAT.equity / PLAIN.price  # quantity worth all of the equity
    match name:
        case "malformed":
            order = replace(PLAIN, quantity=math.nan)
        case "halted":
            guard.halt("drill")
        case "duplicate_id":
            guard.check(PLAIN, FLAT, NOON)
        case "no_price":
            account = replace(FLAT, quotes={})
        case "price_collar":
            order = replace(PLAIN, price=PLAIN.price * (1 + 2 * limits.collar_fraction))
        case "bar_rate":
            _send(guard, limits.bar_count, bars=False)
        case "day_rate":
            _send(guard, limits.day_count)
        case "second_rate":
            _send_all(guard, limits.second_count)
        case "repeated_execution":
            _send(guard, limits.repeat_count, spread=0.0)
        case "identical":
            # Copies repeat a side too: that control must not act first.
            guard = Guard(replace(limits, repeat_count=10 * limits.copy_count))
            _send(guard, limits.copy_count, spread=0.0, like=PLAIN)
        case "shorting":
            order, account = replace(PLAIN, quantity=-1.0), replace(FLAT, shorting=False)
        case "reducing":
            account = replace(FLAT, equity=FLAT.equity * (1 - limits.reduce_fraction))
        case "paused":
            guard.begin_bar(FLAT.equity, NOON, stop_outs=limits.stop_count)
        case "stale":
            account = replace(FLAT, quotes={"A": Quote(PLAIN.price, limits.stale_bars + 1)})
        case "order_value":
            order = replace(PLAIN, quantity=value * limits.order_fraction * 1.01)
        case "symbol_exposure":
            account = replace(FLAT, quantities={"A": value * limits.symbol_fraction})
        case "cluster_exposure":
            held = {"B": value * limits.cluster_fraction}
            account = replace(FLAT, quantities=held, clusters={"A": 0, "B": 0})
        case "gross_exposure":
            account = replace(FLAT, quantities={"B": value * limits.gross_fraction})
        case "notional_cap":
            account = replace(FLAT, notional_cap=PLAIN.quantity * PLAIN.price / 2)
    return guard, order, account


def _send(guard: Guard, count: int, spread: float = 300.0, bars: bool = True, like: Order | None = None) -> None:
    """Have `count` orders of one symbol allowed up to noon, each in its own bar, `spread` seconds apart.

    With `bars` noon begins a bar of its own. Resuming lets the clock begin before noon.
    """
    guard.resume("drill")
    for k in range(count):
        at = NOON - spread * (count - k)
        order = replace(like or replace(PLAIN, quantity=1.0 + k), client_id=str(k))
        guard.begin_bar(FLAT.equity, at)
        guard.close_order(str(k - 1))
        guard.check(order, FLAT, at)
    if bars:
        guard.begin_bar(FLAT.equity, NOON)


def _send_all(guard: Guard, count: int) -> None:
    """Have `count` orders of as many symbols allowed at noon."""
    quotes = {str(k): Quote(1.0) for k in range(count)}
    for symbol in quotes:
        guard.check(Order(symbol, symbol, 1.0, 1.0), replace(FLAT, quotes=quotes), NOON)
        guard.close_order(symbol)


def _alerts(sinks: list[Sink], thresholds: Thresholds) -> Iterator[Drilled]:
    """Each vital sign beyond its threshold, and again at once, when it must be silent."""
    alerts = Alerts(sinks, thresholds.cooldown_seconds)
    watch = Watch(thresholds, alerts)
    for name, value in BEYOND._asdict().items():
        vitals = Vitals(**{name: value})
        yield Drilled(f"alert {name}", "is sent", [alert.kind for alert in watch.check(vitals, NOON)] == [name])
        yield Drilled(f"alert {name} again", "is silent", not watch.check(vitals, NOON))
    alerts.close()


def _sink(sink: Sink) -> Drilled:
    """One alert sent while we wait, so that a sink that fails is seen."""
    try:
        sink.send(Alert("drill", "a drill, nothing is wrong", 0.0, NOON))
    except Exception as problem:  # of files, networks and mail servers alike
        return Drilled(f"{type(sink).__name__}", f"accepts an alert, not {type(problem).__name__}", False)
    return Drilled(f"{type(sink).__name__}", "takes an alert", True)


def _switch() -> Drilled:
    """The kill switch engaged, seen by another object on the same file, and released."""
    with TemporaryDirectory() as folder:
        switch = KillSwitch(Path(folder) / "HALT")
        switch.engage("drill")
        engaged = KillSwitch(switch.path).is_engaged()
        switch.release("drill")
        return Drilled("kill switch", "stops and is released", engaged and not switch.is_engaged())
