"""The risk guard: every order passes here between policy and broker. Pure: no clock, no file, no network of its own.

Read `Guard.check_all` first; `refusals.py` lists what it asks, in order, of an entry and of an exit, `memory.py` is
what it remembers. Times are UTC seconds since 1970; the caller passes them in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pacesetter.errors import ConfigError
from pacesetter.serving.risk.exposure import ROUNDING, Exposure
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.memory import GuardMemory, recent_windows, side_key
from pacesetter.serving.risk.order import STOP, AccountView, Decision, Order, Quote, State
from pacesetter.serving.risk.refusals import CONTROLS, EXIT_CONTROLS, STOP_CONTROLS

__all__ = ["AccountView", "Decision", "Guard", "Order", "Quote", "State"]

DAY_SECONDS = 86_400.0


class Guard:
    """Limits, and all that is remembered to hold them; `to_dict` and `from_dict` carry it across restarts.

    HALTED is latched: only `resume`, by a named person, ends it. REDUCING ends with the day whose loss caused it.
    Client ids are remembered for the day and the day before; a journal's key keeps them for good.
    """

    def __init__(self, limits: GuardLimits | None = None) -> None:
        self._limits = limits or GuardLimits()
        self._memory = GuardMemory(recent_windows(self._limits))

    @property
    def denials(self) -> Counter[str]:
        """Reason -> orders that were refused for it."""
        return self._memory.denials

    @property
    def limits(self) -> GuardLimits:
        """The frozen limits."""
        return self._limits

    @property
    def state(self) -> State:
        return self._memory.state

    @property
    def reason(self) -> str:
        """Why the guard is not ACTIVE; empty while it is."""
        return self._memory.reason

    @property
    def in_flight(self) -> Mapping[str, Order]:
        """Client id -> what is still open of each order that was allowed and is not done."""
        return dict(self._memory.in_flight)

    @property
    def disabled(self) -> frozenset[str]:
        """Symbols that wait for a person after repeated execution."""
        return frozenset(self._memory.disabled)

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
        asked = list(orders)
        if not asked:
            return ()
        book = Exposure(account, self._memory.in_flight.values())
        # Each allowed order is in the book when the next is asked about: together they cannot pass a limit.
        return tuple(self._decision(order, book, now) for order in sorted(asked, key=book.is_exit, reverse=True))

    def flatten(self, orders: Iterable[Order], account: AccountView, now: float) -> tuple[Decision, ...]:
        """Let exits through while it is halted, where a person asked for that beforehand; all rules of exits hold.

        Refuses what would do more than close a position, exits in flight counted.
        """
        if self._memory.state is not State.HALTED:
            raise ConfigError("positions are flattened by a halt; halt first")
        book = Exposure(account, self._memory.in_flight.values())
        return tuple(self._decision(order, book, now, is_flattening=True) for order in orders)

    def record_fill(self, client_id: str, quantity: float) -> None:
        """Count `quantity` of an order in flight as traded; what is left of it stays in flight."""
        order = self._memory.in_flight.get(client_id)
        if order is None:
            return
        left = order.quantity - quantity
        # Filled, up to the rounding of sums, or by more than was open.
        if left * order.quantity <= (ROUNDING - 1.0) * order.quantity**2:
            self.close_order(client_id)
        else:
            self._memory.in_flight[client_id] = replace(order, quantity=left)

    def close_order(self, client_id: str) -> None:
        """The order is no longer in flight: filled, cancelled or rejected, and known to be so."""
        self._memory.in_flight.pop(client_id, None)

    # ---- time and money -----------------------------------------------------------------------------------------

    def begin_bar(self, equity: float, now: float, stop_outs: int = 0) -> None:
        """A bar has closed at `now`: restart the orders per bar; `stop_outs` positions were stopped out in it."""
        memory = self._memory
        memory.bar += 1
        memory.bar_orders.clear()
        oldest = memory.bar - self._limits.stop_bars
        memory.stops = [bar for bar in memory.stops if bar > oldest] + [memory.bar] * stop_outs
        # Only a new stop-out pauses: old ones still in the window must not extend the pause.
        if stop_outs and len(memory.stops) >= self._limits.stop_count:
            memory.paused_until = memory.bar + self._limits.stop_bars
        self.mark(equity, now)

    def mark(self, equity: float, now: float, peak_equity: float = 0.0) -> None:
        """Compare equity with the day's first and the highest; a loss beyond a limit acts, as does a clock set back.

        `peak_equity` is the highest as the account knows it, which may have seen more than the guard.
        """
        memory = self._memory
        # A clock that runs backwards would reopen windows of time that were used up.
        if not math.isfinite(now) or now < memory.clock:
            self.halt(f"the clock went back from {memory.clock:.3f} to {now:.3f}")
            return
        memory.clock = now
        if not 0.0 < equity < math.inf:
            self.halt(f"equity is {equity}")
            return
        self._begin_day(int(now // DAY_SECONDS), equity)
        # A peak from before a person resumed must not halt again for the same fall.
        known = peak_equity if memory.forgiven_equity < peak_equity < math.inf else 0.0
        memory.last_equity, memory.peak_equity = equity, max(memory.peak_equity, equity, known)
        loss, drawdown = (ROUNDING * (1.0 - equity / high) for high in (memory.day_equity, memory.peak_equity))
        if not drawdown < self._limits.drawdown_fraction:
            self.halt(f"drawdown {drawdown:.2%}")
        elif not loss < self._limits.halt_fraction:
            self.halt(f"loss of the day {loss:.2%}")
        elif not loss < self._limits.reduce_fraction and memory.state is State.ACTIVE:
            memory.state, memory.reason = State.REDUCING, f"loss of the day {loss:.2%}"

    def halt(self, reason: str) -> None:
        """Let nothing through until a person resumes; the first reason stays."""
        memory = self._memory
        if memory.state is not State.HALTED:
            memory.state, memory.reason = State.HALTED, reason

    def resume(self, by: str) -> None:
        """A named person allows trading again, every symbol included; losses and rates are measured from here on."""
        memory = self._memory
        if not by.strip():
            raise ConfigError("resuming needs the name of the person who resumes")
        memory.state, memory.reason = State.ACTIVE, ""
        memory.disabled.clear()
        memory.recent = recent_windows(self._limits)
        memory.paused_until, memory.stops = memory.bar, []
        memory.forgiven_equity = max(memory.forgiven_equity, memory.peak_equity)
        memory.clock, memory.peak_equity = -math.inf, 0.0
        memory.day_equity = memory.last_equity = math.nan

    # ---- across restarts ----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, object]:
        """All that is remembered, as JSON can hold it."""
        return self._memory.to_dict(self._limits)

    @classmethod
    def from_dict(cls, stored: Mapping[str, object], limits: GuardLimits | None = None) -> Guard:
        """The guard that `to_dict` described, under the given limits."""
        guard = cls(limits)
        guard._memory = GuardMemory.from_dict(stored, guard._limits)
        return guard

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _begin_day(self, day: int, equity: float) -> None:
        """On a new UTC day, reset the order counts, measure losses from the previous equity, end a day of reducing."""
        memory = self._memory
        if day != memory.day:
            # Yesterday's last equity, so that a loss over night counts towards today.
            memory.day, memory.day_equity = day, memory.last_equity
            if day > memory.latest_day:
                memory.ids, memory.latest_day = (set(), memory.ids[0]), day
                memory.day_orders.clear()
            if memory.state is State.REDUCING:
                memory.state, memory.reason = State.ACTIVE, ""
        if math.isnan(memory.day_equity):  # the very first, or a person has resumed
            memory.day_equity = equity

    def _decision(self, order: Order, book: Exposure, now: float, is_flattening: bool = False) -> Decision:
        is_exit = book.is_exit(order)
        reason = self._refusal(order, book, now, is_exit, is_flattening)
        if reason is None:
            self._memory.note(order, now)
            if self._memory.recent["sides"].count(side_key(order), now) >= self._limits.repeat_count:
                self._memory.disabled.add(order.symbol)
            book.add(order, is_exit)
        else:
            self.denials[reason] += 1
        return Decision(order, reason is None, reason, self._memory.state)

    def _refusal(self, order: Order, book: Exposure, now: float, is_exit: bool, is_flattening: bool) -> str | None:
        """The first control that refuses; while a halt is flattened, it refuses all but exits."""
        controls = CONTROLS if not is_exit else STOP_CONTROLS if order.kind == STOP else EXIT_CONTROLS
        for name, refuses in controls.items():
            is_passed = name == "halted" and is_flattening and is_exit
            if not is_passed and refuses(self._memory, self._limits, order, book, now):
                return name
        return None
