"""The risk guard: every order passes here between policy and broker. Pure: no clock, no file, no network of its own.

Read `Guard.check_all` first; `CONTROLS` below the class lists what it asks, in order, of an entry, `EXIT_CONTROLS` of
an exit, and each control is one short function that says whether it refuses. Times are UTC seconds since 1970; the
caller passes them in.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pacesetter.errors import ConfigError
from pacesetter.schema import SCHEMA, translate_guard
from pacesetter.serving.risk.exposure import Exposure
from pacesetter.serving.risk.limits import RiskLimits
from pacesetter.serving.risk.order import AccountView, Decision, Order, Quote, State

__all__ = ["CONTROLS", "AccountView", "Decision", "Guard", "Order", "Quote", "State"]

DAY_SECONDS = 86_400.0
ROUNDING = 1.0 + 1e-9  # an order sized to be just within a limit passes it, a loss of just a limit acts


class Guard:
    """Limits, and all that is remembered to hold them; `to_dict` and `from_dict` carry it across restarts.

    HALTED is latched: only `resume`, by a named person, ends it. REDUCING ends with the day whose loss caused it.
    Client ids are remembered for the day and the day before; a journal's key keeps them for good.
    """

    def __init__(self, limits: RiskLimits | None = None) -> None:
        self._limits = limits or RiskLimits()
        self._state, self._reason = State.ACTIVE, ""
        self.denials: Counter[str] = Counter()
        self._clock = -math.inf
        self._day, self._day_equity, self._last_equity, self._peak_equity = -1, math.nan, math.nan, 0.0
        self._forgiven_equity = 0.0  # highest equity that a person resumed below: a fall from it has had its say
        self._bar, self._paused_until, self._stops = 0, 0, list[int]()
        self._bar_orders: Counter[str] = Counter()
        self._day_orders: Counter[str] = Counter()
        self._disabled: set[str] = set()
        self._ids: tuple[set[str], set[str]] = (set(), set())  # of the latest day so far, of the one before
        self._latest_day = -1  # which a clock that is set back does not change: no id is forgotten for it
        self._in_flight: dict[str, Order] = {}
        self._recent = self._windows()

    @property
    def limits(self) -> RiskLimits:
        """The frozen limits."""
        return self._limits

    @property
    def state(self) -> State:
        return self._state

    @property
    def reason(self) -> str:
        """Why the guard is not ACTIVE; empty while it is."""
        return self._reason

    @property
    def in_flight(self) -> Mapping[str, Order]:
        """Client id -> what is still open of each order that was allowed and is not done."""
        return dict(self._in_flight)

    @property
    def disabled(self) -> frozenset[str]:
        """Symbols that wait for a person after repeated execution."""
        return frozenset(self._disabled)

    # ---- orders ---------------------------------------------------------------------------------------------------

    def check(self, order: Order, account: AccountView, now: float) -> Decision:
        """The answer to one order alone."""
        return self.check_all((order,), account, now)[0]

    def check_all(self, orders: Iterable[Order], account: AccountView, now: float) -> tuple[Decision, ...]:
        """Allow each order and count it as in flight, or refuse it with a reason; every refusal is counted.

        Equity is marked once, then orders are checked one by one, exits first: no exit is refused because of an entry.
        """
        # Losses first: an order of this very moment must meet the state that they lead to.
        self.mark(account.equity, now, account.peak_equity)
        book = Exposure(account, self._in_flight.values())
        # Each allowed order is in the book when the next is asked about: together they cannot pass a limit.
        return tuple(self._decision(order, book, now) for order in sorted(orders, key=book.is_exit, reverse=True))

    def filled(self, client_id: str, quantity: float) -> None:
        """Count `quantity` of an order in flight as traded; what is left of it stays in flight."""
        order = self._in_flight.get(client_id)
        if order is None:
            return
        left = order.quantity - quantity
        # Filled, or by more than was open.
        if left * order.quantity <= 0.0:
            self.done(client_id)
        else:
            self._in_flight[client_id] = Order(client_id, order.symbol, left, order.price)

    def done(self, client_id: str) -> None:
        """The order is no longer in flight: filled, cancelled or rejected, and known to be so."""
        self._in_flight.pop(client_id, None)

    # ---- time and money -----------------------------------------------------------------------------------------

    def begin_bar(self, equity: float, now: float, stop_outs: int = 0) -> None:
        """A bar has closed at `now`: restart the orders per bar; `stop_outs` positions were stopped out in it."""
        self._bar += 1
        self._bar_orders.clear()
        self._stops = [bar for bar in self._stops if bar > self._bar - self._limits.stop_bars] + [self._bar] * stop_outs
        # Only a new stop-out pauses: old ones still in the window must not extend the pause.
        if stop_outs and len(self._stops) >= self._limits.stop_count:
            self._paused_until = self._bar + self._limits.stop_bars
        self.mark(equity, now)

    def mark(self, equity: float, now: float, peak_equity: float = 0.0) -> None:
        """Compare equity with the day's first and the highest; a loss beyond a limit acts, as does a clock set back.

        `peak_equity` is the highest as the account knows it, which may have seen more than the guard.
        """
        # A clock that runs backwards would reopen windows of time that were used up.
        if not math.isfinite(now) or now < self._clock:
            self.halt(f"the clock went back from {self._clock:.3f} to {now:.3f}")
            return
        self._clock = now
        if not 0.0 < equity < math.inf:
            self.halt(f"equity is {equity}")
            return
        self._begin_day(int(now // DAY_SECONDS), equity)
        # A peak from before a person resumed must not halt again for the same fall.
        told = peak_equity if self._forgiven_equity < peak_equity < math.inf else 0.0
        self._last_equity, self._peak_equity = equity, max(self._peak_equity, equity, told)
        loss, drawdown = (ROUNDING * (1.0 - equity / high) for high in (self._day_equity, self._peak_equity))
        if not drawdown < self._limits.drawdown_fraction:
            self.halt(f"drawdown {drawdown:.2%}")
        elif not loss < self._limits.halt_fraction:
            self.halt(f"loss of the day {loss:.2%}")
        elif not loss < self._limits.reduce_fraction and self._state is State.ACTIVE:
            self._state, self._reason = State.REDUCING, f"loss of the day {loss:.2%}"

    def halt(self, reason: str) -> None:
        """Let nothing through until a person resumes; the first reason stays."""
        if self._state is not State.HALTED:
            self._state, self._reason = State.HALTED, reason

    def resume(self, by: str) -> None:
        """A named person allows trading again, every symbol included; losses and rates are measured from here on."""
        if not by.strip():
            raise ConfigError("resuming needs the name of the person who resumes")
        self._state, self._reason = State.ACTIVE, ""
        self._disabled.clear()
        self._recent = self._windows()
        self._paused_until, self._stops = self._bar, []
        self._forgiven_equity = max(self._forgiven_equity, self._peak_equity)
        self._clock, self._peak_equity = -math.inf, 0.0
        self._day_equity = self._last_equity = math.nan

    # ---- across restarts ----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All that is remembered, as JSON can hold it."""
        return {
            "schema": SCHEMA,
            "state": self._state.value,
            "reason": self._reason,
            "limits": asdict(self._limits),
            "denials": dict(self.denials),
            "clock": self._clock if math.isfinite(self._clock) else None,
            "day": self._day,
            "latest_day": self._latest_day,
            "day_equity": _number(self._day_equity),
            "last_equity": _number(self._last_equity),
            "peak_equity": self._peak_equity,
            "forgiven_equity": self._forgiven_equity,
            "bar": self._bar,
            "paused_until": self._paused_until,
            "stops": list(self._stops),
            "bar_orders": dict(self._bar_orders),
            "day_orders": dict(self._day_orders),
            "disabled": sorted(self._disabled),
            "ids_today": sorted(self._ids[0]),
            "ids_before": sorted(self._ids[1]),
            "in_flight": [asdict(order) for order in self._in_flight.values()],
            "recent": {name: recent.to_list() for name, recent in self._recent.items()},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], limits: RiskLimits | None = None) -> Guard:
        """The guard that `to_dict` described, here or in an earlier version, under the given limits."""
        stored, guard = translate_guard(stored), cls(limits)
        guard._state, guard._reason = State(stored["state"]), stored["reason"]
        guard.denials = Counter(stored["denials"])
        guard._clock = -math.inf if stored["clock"] is None else stored["clock"]
        guard._day, guard._peak_equity = stored["day"], stored["peak_equity"]
        guard._latest_day = stored.get("latest_day", stored["day"])
        guard._forgiven_equity = stored.get("forgiven_equity", 0.0)  # absent where an earlier version wrote
        equities = stored["day_equity"], stored["last_equity"]
        guard._day_equity, guard._last_equity = (math.nan if each is None else each for each in equities)
        guard._bar, guard._paused_until, guard._stops = stored["bar"], stored["paused_until"], list(stored["stops"])
        guard._bar_orders, guard._day_orders = Counter(stored["bar_orders"]), Counter(stored["day_orders"])
        guard._disabled = set(stored["disabled"])
        guard._ids = (set(stored["ids_today"]), set(stored["ids_before"]))
        guard._in_flight = {order["client_id"]: Order(**order) for order in stored["in_flight"]}
        # Under today's limits: stored counts are kept, their windows may be of another length now.
        guard._recent = guard._windows(stored["recent"])
        return guard

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _begin_day(self, day: int, equity: float) -> None:
        """On a new UTC day, reset the order counts, measure losses from the previous equity, end a day of reducing."""
        if day != self._day:
            # Yesterday's last equity, so that a loss over night counts towards today.
            self._day, self._day_equity = day, self._last_equity
            if day > self._latest_day:
                self._ids, self._latest_day = (set(), self._ids[0]), day
                self._day_orders.clear()
            if self._state is State.REDUCING:
                self._state, self._reason = State.ACTIVE, ""
        if math.isnan(self._day_equity):  # the very first, or a person has resumed
            self._day_equity = equity

    def _decision(self, order: Order, book: Exposure, now: float) -> Decision:
        reason = self._refusal(order, book, now)
        if reason is None:
            self._note(order, now)
            book.add(order)
        else:
            self.denials[reason] += 1
        return Decision(order, reason is None, reason, self._state)

    def _refusal(self, order: Order, book: Exposure, now: float) -> str | None:
        """The first control that refuses."""
        for name, refuses in (EXIT_CONTROLS if book.is_exit(order) else CONTROLS).items():
            if refuses(self, order, book, now):
                return name
        return None

    def _note(self, order: Order, now: float) -> None:
        """Remember an order that was allowed."""
        side = _side(order)
        self._ids[0].add(order.client_id)
        self._in_flight[order.client_id] = order
        self._bar_orders[order.symbol] += 1
        self._day_orders[order.symbol] += 1
        self._recent["all"].add((), now)
        self._recent["copies"].add(_copy_key(order), now)
        self._recent["sides"].add(side, now)
        if self._recent["sides"].count(side, now) >= self._limits.repeat_count:
            self._disabled.add(order.symbol)

    def _windows(self, stored: Mapping[str, Iterable[tuple[float, Iterable[Any]]]] | None = None) -> dict[str, _Recent]:
        """What came up lately: all orders in a second, those of a symbol and side, and those that are alike."""
        limits = self._limits
        seconds = {"all": 1.0, "sides": limits.repeat_seconds, "copies": limits.copy_seconds}
        return {name: _Recent(length, (stored or {}).get(name, ())) for name, length in seconds.items()}


class _Recent:
    """How often each key came up in the latest `seconds`; what is older is forgotten."""

    def __init__(self, seconds: float, stored: Iterable[tuple[float, Iterable[Any]]] = ()) -> None:
        self._seconds, self._entries = seconds, deque((at, tuple(key)) for at, key in stored)
        self._counts = Counter(key for _, key in self._entries)

    def add(self, key: tuple[Any, ...], now: float) -> None:
        self._entries.append((now, key))
        self._counts[key] += 1

    def count(self, key: tuple[Any, ...], now: float) -> int:
        while self._entries and self._entries[0][0] <= now - self._seconds:
            _, old = self._entries.popleft()
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        return self._counts.get(key, 0)

    def to_list(self) -> list[tuple[float, tuple[Any, ...]]]:
        return list(self._entries)


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


def _side(order: Order) -> tuple[str, str]:
    return "buy" if order.quantity > 0.0 else "sell", order.symbol


def _copy_key(order: Order) -> tuple[str, float, float]:
    return order.symbol, order.quantity, order.price


# ---- the controls: True refuses. A comparison with NaN is False, so each is written to refuse then -------------------


def _malformed(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    is_order = 0.0 < abs(order.quantity) < math.inf and 0.0 < order.price < math.inf
    return not (is_order and book.is_sound and order.client_id and order.symbol)


def _halted(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    return guard._state is State.HALTED


def _duplicate_id(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    today, before = guard._ids
    return order.client_id in today or order.client_id in before or order.client_id in guard._in_flight


def _no_price(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    """No price to value the order, or what is held and ordered, by."""
    return not (book.has_prices and book.has_price(order.symbol))


def _collar(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    last = book.account.quotes[order.symbol].price
    return not abs(order.price / last - 1.0) <= guard._limits.collar_fraction * ROUNDING


def _bar_rate(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    return guard._bar_orders.get(order.symbol, 0) >= guard._limits.bar_count


def _day_rate(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    return guard._day_orders.get(order.symbol, 0) >= guard._limits.day_count


def _second_rate(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    return guard._recent["all"].count((), now) >= guard._limits.second_count


def _repeated(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    return order.symbol in guard._disabled


def _identical(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    return guard._recent["copies"].count(_copy_key(order), now) >= guard._limits.copy_count


def _reducing(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    return guard._state is State.REDUCING


def _paused(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    return guard._bar < guard._paused_until


def _stale(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    return not book.account.quotes[order.symbol].age_bars <= guard._limits.stale_bars


def _order_value(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    # At the higher of the two prices, so that an order cannot be made small by a low one.
    price = max(order.price, book.account.quotes[order.symbol].price)
    return not abs(order.quantity) * price <= guard._limits.order_fraction * book.account.equity * ROUNDING


def _symbol_exposure(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    value = book.value(order.symbol, order.quantity)
    return not value <= guard._limits.symbol_fraction * book.account.equity * ROUNDING


def _cluster_exposure(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    if order.symbol not in book.account.clusters:
        return False
    value = book.cluster(order.symbol, order.quantity)
    return not value <= guard._limits.symbol_fraction * book.account.equity * ROUNDING


def _gross_exposure(guard: Guard, order: Order, book: Exposure, now: float) -> bool:
    value = book.gross(order.symbol, order.quantity)
    return not value <= guard._limits.gross_fraction * book.account.equity * ROUNDING


Control = Callable[[Guard, Order, Exposure, float], bool]
# Exits skip what limits exposure, since they lower it; what guards against runaway orders holds for them too.
EXIT_CONTROLS: Mapping[str, Control] = {
    "malformed": _malformed,
    "halted": _halted,
    "duplicate_id": _duplicate_id,
    "no_price": _no_price,
    "price_collar": _collar,
    "bar_rate": _bar_rate,
    "day_rate": _day_rate,
    "second_rate": _second_rate,
    "repeated_execution": _repeated,
    "identical": _identical,
}
CONTROLS: Mapping[str, Control] = {
    **EXIT_CONTROLS,
    "reducing": _reducing,
    "paused": _paused,
    "stale": _stale,
    "order_value": _order_value,
    "symbol_exposure": _symbol_exposure,
    "cluster_exposure": _cluster_exposure,
    "gross_exposure": _gross_exposure,
}
