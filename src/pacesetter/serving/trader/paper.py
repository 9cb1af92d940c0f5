"""The paper trader: new bar → fills → features → decision → guard → journal → orders → vitals, bar after bar.

A bar is journalled completely before its orders are sent, so a process killed at any moment resumes where it stopped:
nothing lost, nothing doubled. Whatever goes wrong ends in a clean halt: the guard and the kill switch stay latched
until a person resumes.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import DataError, PacesetterError, RunError
from pacesetter.market.state import Account, Position
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import Observe
from pacesetter.policies.policy import Snapshot
from pacesetter.serving.api.runtime import BundlePolicy
from pacesetter.serving.journal import tables
from pacesetter.serving.journal.entries import make_page
from pacesetter.serving.journal.journal import Journal, Row
from pacesetter.serving.monitor.alerts import CRITICAL, Alert
from pacesetter.serving.monitor.watch import Vitals, Watch
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.order import Order, State
from pacesetter.serving.trader.broker import OrderStatus
from pacesetter.serving.trader.bundle_follower import BundleFollower
from pacesetter.serving.trader.decision_log import DecisionLog
from pacesetter.serving.trader.desk import Desk, Ticket, last_bars, rounding
from pacesetter.serving.trader.feeds import Feed
from pacesetter.serving.trader.record import PublicRecord
from pacesetter.serving.trader.waiting import await_answer
from pacesetter.serving.trader.why import OrderReasons, order_words

__all__ = ["PaperResult", "PaperTrader"]

SWITCH_SECONDS = 0.25  # between two looks at the kill switch while waiting
POLL_SECONDS = 10.0  # between two questions for new bars
STALE_BARS = 100  # that are looked through for the last one of a symbol
SILENT_ORDERS = 2  # in a row without an answer, after which the rest of a bar's orders is not sent

log = logging.getLogger("pacesetter.paper")


class PaperResult(NamedTuple):
    """State of a run: bars decided on since its first start, those of this session, whether the feed is at its end."""

    bars: int
    new_bars: int
    equity: float
    state: State
    reason: str
    denials: Mapping[str, int]
    is_at_end: bool


class Display(Protocol):
    """Somebody who is shown that trading begins, and each bar once it is done."""

    def open(self) -> None: ...

    def bar(self) -> None: ...


class PaperTrader:
    """One desk on one feed, with its journal, kill switch and watch."""

    def __init__(
        self,
        desk: Desk,
        feed: Feed,
        journal: Journal,
        switch: KillSwitch,
        watch: Watch,
        observe: Observe,
        succession: BundleFollower | None = None,
        reasons: OrderReasons | None = None,
        decision_log: DecisionLog | None = None,
        record: PublicRecord | None = None,
    ) -> None:
        self.reasons, self.decision_log, self.record = reasons, decision_log, record
        self.desk, self.feed, self.journal, self.switch, self.watch = desk, feed, journal, switch, watch
        self.observe, self.succession = observe, succession
        self.bars = 0  # decided on so far
        self.display: Display | None = None  # who watches
        where = journal.engine.url.render_as_string(hide_password=True)
        self._name = f"run '{journal.run}' in {where}"  # that the switch is engaged by where a limit of its own acted
        self._panel: Panel | None = None
        self._booked = np.zeros(len(desk.symbols))  # sum of the journal's fills
        self._noted_difference = ""
        self._noted_small: set[str] = set()  # symbols whose too small orders were journalled
        desk.broker.meanwhile = self._sync_within_bar

    def run(self, most_bars: int | None = None) -> PaperResult:
        """Trade until the feed ends, or for `most_bars`; what goes wrong halts cleanly and is raised again.

        Stored bars wait for a switch that somebody else engaged, so that none passes untraded; under a limit of its own
        guard they go on, as in a backtest behind it.
        Bars other than those that the journal was written on are refused with nothing touched, and so is a run that
        another process trades.
        """
        with self.journal.hold():
            return self._run(most_bars)

    def _run(self, most_bars: int | None) -> PaperResult:
        state = self._read_state()  # outside the try: what is refused here touches nothing, not even the switch
        before = self.bars
        try:
            self._resume(state)
            if self.display is not None:
                self.display.open()
            for count, bar in enumerate(self._new_bars()):
                self._trade(bar)
                if self.display is not None:
                    self.display.bar()
                if count + 1 == most_bars:
                    break
        except Exception as problem:
            self._halt(problem)
            raise
        finally:
            self.desk.broker.finish()
            if self.record is not None and self.record.lines:
                self.record.write_page()
        guard, new = self.desk.guard, self.bars - before
        is_at_end = self.feed.is_stored and self._panel is not None and self.feed.after(self._last) is None
        return PaperResult(self.bars, new, self.desk.equity, guard.state, guard.reason, dict(guard.denials), is_at_end)

    # ---- one bar --------------------------------------------------------------------------------------------------

    def _trade(self, panel: Panel) -> None:
        """Fills of the last bar of `panel`, the decision at its close, the page in the journal, and then the orders."""
        started, desk, at = time.perf_counter(), self.desk, panel.index[-1]
        now, bars = self.feed.clock.now(at), last_bars(panel)
        settlement = desk.settle(panel, bars, now)
        late = max(now - at.timestamp(), 0.0) / _bar_seconds(panel)
        if settlement.is_over:
            desk.guard.halt("the account was ruined or liquidated")
        for fill in settlement.executions:
            self._booked[desk.symbols.index(fill.symbol)] += fill.quantity
        desk.booked = self._booked
        difference = self._difference(desk.guard.in_flight.values(), settlement.strangers)
        if settlement.is_known and difference:
            self._note_difference(difference)
        self._sync_within_bar()
        followed = self._follow(at)
        observation = self.observe(panel)
        snapshot = Snapshot(panel, len(panel) - 1, observation, None, len(panel) - 1 - self.bars)
        # An account that could not be read, or that no known fill explains, is treated as infinitely old: exits pass,
        # entries do not.
        is_known = settlement.is_known and not desk.unexplained.any()
        ticket = self._ticket(snapshot, bars, now, late if is_known else math.inf)
        denied = [not each.allowed for each in ticket.decisions if each.reason != "halted"]  # which has its own alert
        self.watch.record_decisions(ticket.actions, denied, observation)
        # Counted before the state is written, which must say that this bar is done.
        self.bars, self._panel = self.bars + 1, panel
        vitals = self._vitals(late, time.perf_counter() - started)
        alerts = self.watch.check(vitals, now)  # sent before they are journalled: rather twice than never
        why = self._explain_orders(ticket)
        page = make_page(desk, at, bars[-1], settlement, ticket, vitals, alerts, self._state(), why, followed)
        if not self.journal.record(page):
            raise RunError(f"another process trades run '{self.journal.run}'; stop one of the two, then resume")
        self._publish()
        if self.decision_log is not None and ticket.is_decided:
            self.decision_log.add(at, desk.policy)
        for symbol, reason in desk.stops.items():
            self.journal.note("stop", f"'{symbol}' met its {reason} in bar {at}; it is closed by an order at the bar")
        self._note_small_orders()
        self._send(ticket)

    def _publish(self) -> None:
        """Append what the journal has to the public record; one that cannot be written is caught up with later."""
        if self.record is None or self._panel is None:
            return
        try:
            self.record.update(self.journal, self._panel, self.desk.policy.name)
        except OSError as problem:
            log.error("the public record in %s was not written: %s", self.record.folder, problem)

    def staleness(self) -> str:
        """How old the newest bars are, in words: of all, and of the symbols that lack the last ones."""
        if self._panel is None:
            return ""
        panel = self._panel.rows(max(len(self._panel) - STALE_BARS, 0), None)
        late = max(self.feed.clock.now(self._last) - self._last.timestamp(), 0.0) / _bar_seconds(panel)
        missing = np.where(panel.mask.any(axis=0), panel.mask[::-1].argmax(axis=0), len(panel))
        old = [f"{panel.symbols[k]} {missing[k]}" for k in np.flatnonzero(missing).tolist()]
        more = f" and {len(old) - 3} more" if len(old) > 3 else ""
        return f"data {late:.1f} bars old" + (f", missing bars: {', '.join(old[:3])}{more}" if old else "")

    def _note_small_orders(self) -> None:
        """Journal, once for each symbol, why its orders are too small for the broker."""
        for symbol, sentence in self.desk.too_small.items():
            if symbol not in self._noted_small:
                self._noted_small.add(symbol)
                log.warning("%s; it is not sent", sentence)
                self.journal.note("minimum", f"{sentence}; it is not sent")

    def _ticket(self, snapshot: Snapshot, bars: Array, now: float, late: float) -> Ticket:
        """The policy's orders; or, halted and asked to flatten, one against every position."""
        desk = self.desk
        is_flattening = desk.guard.state is State.HALTED and desk.options.flatten_on_halt
        if is_flattening and np.any(desk.broker.positions[:, Position.QUANTITY]):
            return desk.flatten_orders(snapshot.panel, bars, now)
        return desk.decide(snapshot, bars, now, late)

    def _explain_orders(self, ticket: Ticket) -> list[str]:
        """A sentence for each order that may be sent, where they are asked for; they are logged too."""
        entries = self.desk.policy.entries
        if self.reasons is None or entries is None:
            return []
        places = {symbol: place for place, symbol in enumerate(self.desk.symbols)}
        orders = {places[order.symbol]: order_words(order) for order in ticket.orders}
        said = list(self.reasons.sentences(entries, orders).values())
        for sentence in said:
            log.info("%s", sentence)
        return said

    def _follow(self, at: pd.Timestamp) -> list[str]:
        """Let the newest bundle that may decide this bar do so, where the trader follows a store; says what changed.

        The sentences are journalled with the bar, so that a kill leaves both or neither.
        """
        if self.succession is None:
            return []
        bundle, sentences = self.succession.find_current(at)
        for sentence in sentences:
            log.info("%s", sentence)
        if bundle is not None:
            self.desk.replace_policy(BundlePolicy(bundle), bundle.served_risk(self.desk.symbols))
            if self.reasons is not None:
                self.reasons = OrderReasons.of(bundle)
        return sentences

    def _send(self, ticket: Ticket) -> None:
        """Send what was allowed, checking the switch before each order; log what was refused."""
        for decision in ticket.decisions:
            if not decision.allowed:
                log.info("%s is refused: %s", decision.order.client_id, decision.reason)
        statuses: dict[str, OrderStatus] = {}
        silent = 0
        for order in ticket.orders:
            self._sync_within_bar()
            # A halt in the middle of sending stops the rest; what is sent already is cancelled by the halt itself.
            is_halted = self.desk.guard.state is State.HALTED and ticket.is_decided
            is_sent = not is_halted and silent < SILENT_ORDERS
            status = self.desk.broker.submit(order) if is_sent else OrderStatus.CANCELLED
            statuses[order.client_id] = status
            silent = silent + 1 if status is OrderStatus.UNKNOWN else silent if not is_sent else 0
        self._set_statuses(statuses)

    def _set_statuses(self, statuses: Mapping[str, OrderStatus]) -> None:
        for client_id, status in statuses.items():
            if status in (OrderStatus.CANCELLED, OrderStatus.REJECTED):
                self.desk.drop(client_id)
        if statuses:
            self.journal.set_statuses(statuses)

    # ---- waiting and halting ----------------------------------------------------------------------------------------

    def _new_bars(self) -> Iterator[Panel]:
        """The panel with each new bar appended, one at a time, as they come."""
        if not self._is_over() and self._panel is None:
            yield self.feed.history(None)
        while not self._is_over() and (bars := self._next()) is not None:
            for row in range(len(bars)):
                joined = self._append_bar(bars.rows(row, row + 1))
                if joined is not None:
                    yield joined
            if len(bars) == 0:
                self._wait(POLL_SECONDS)

    def _is_over(self) -> bool:
        """Whether stored bars end here, before the next one is taken: a person, or another trader, halted."""
        self._sync_switch()
        return self.feed.is_stored and self.switch.is_engaged() and self.switch.engaged_by() != self._name

    def _next(self) -> Panel | None:
        """What the feed has; a feed that fails has nothing now, and the data grows old."""
        try:
            bars = self._ask_feed()
        except DataError as problem:
            log.warning("no new bars: %s", problem)
            self.journal.note("feed", str(problem))
            assert self._panel is not None
            return self._panel.rows(0, 0)  # none, as after a poll; the age of the data raises the alert
        assert self._panel is not None
        for sentence in () if bars is None else bars.notes:
            if sentence not in self._panel.notes:
                log.warning("%s", sentence)
                self.journal.note("feed", sentence)
        return bars

    def _ask_feed(self) -> Panel | None:
        """What the feed has after the last bar; a halt does not wait for a source that holds its answer."""
        last = self._last
        if self.feed.is_stored:
            return self.feed.after(last)
        return await_answer(lambda: self.feed.after(last), self._sync_switch, "the feed")

    def _append_bar(self, bar: Panel) -> Panel | None:
        """The history with a bar appended; one out of order or of other symbols is noted and left out."""
        assert self._panel is not None
        if self.feed.is_stored and bar.index[0] > self._last:
            return self.feed.history(bar.index[0])  # the same bars, none of which is copied
        try:
            return self._panel.append(bar)
        except DataError as problem:
            self.journal.note("out_of_order", str(problem))
            return None

    def _wait(self, seconds: float) -> None:
        """Wait for new bars while checking the kill switch and the age of the data."""
        clock = self.feed.clock
        for _ in range(math.ceil(seconds / SWITCH_SECONDS)):
            self._sync_switch()
            clock.sleep(SWITCH_SECONDS)
        assert self._panel is not None
        now = clock.now(self._last)
        age = (now - self._last.timestamp()) / _bar_seconds(self._panel)
        for alert in self.watch.check(Vitals(data_age_bars=age), now):
            self.journal.note("alert", alert.message)

    def _sync_switch(self, by: str | None = None) -> None:
        """Synchronise kill switch and guard, and report what changed; `by` is who engages it if not this trader."""
        change = self.switch.sync_with_guard(self.desk.guard, self._name if by is None else by)
        if change is not None and change[0] == "halt":
            self._announce_halt()
        elif change is not None:
            self.journal.note(*change)

    def _sync_within_bar(self) -> None:
        """Heed the switch, but on stored bars only the guard's own halt: a person's waits for the end of the bar."""
        if not self.feed.is_stored or self.desk.guard.state is State.HALTED:
            self._sync_switch()

    def _announce_halt(self) -> None:
        """Alert first, without waiting; cancel; then write to the journal, whether or not the broker answered."""
        reason, alerts = self.desk.guard.reason, self.watch.alerts
        alerts.latest.pop("halt", None)  # told every time, for since the last one a person resumed
        alerts.send(Alert("halt", reason, 1.0, time.time(), CRITICAL))
        try:
            self.desk.broker.cancel_all()
        finally:
            self.journal.note("halt", reason)

    def _halt(self, problem: Exception) -> None:
        """Stop for good: latch the switch first, then cancel and report, as far as anything still works."""
        reason = str(problem) if isinstance(problem, PacesetterError) else f"{type(problem).__name__}: {problem}"
        self.desk.guard.halt(reason)  # in memory first, which cannot fail
        for step in (lambda: self.switch.engage(reason), self._announce_halt):
            try:
                step()
            except Exception as second:  # the disk, the broker or the journal may be what failed
                log.error("halted, but not recorded everywhere: %s", second)

    # ---- starting -------------------------------------------------------------------------------------------------

    def _read_state(self) -> Row | None:
        """The state to resume from, and the bars up to it; None before the first. Refuses a feed of other bars."""
        stored = self.journal.checkpoint()
        if stored is None:
            return None
        with self._refuse_damage():
            state, bars, last = stored[1], int(stored[1]["bars"]), pd.Timestamp(stored[1]["last"], tz="UTC")
        panel = self.feed.history(last)
        is_there = len(panel) > 0 and panel.index[-1] == last
        if not is_there or any(
            state.get(name, expected) != expected for name, expected in self._identity(last).items()
        ):
            raise RunError(
                f"run '{self.journal.run}' is at {last}, and up to there this feed has other symbols or bars; "
                "give the same data, or another run= or folder= for a book of its own"
            )
        self._check_unseen(last)
        self.bars, self._panel = bars, panel
        return state

    def _check_unseen(self, last: pd.Timestamp) -> None:
        """Refuse a policy that was fitted on stored bars behind `last`: it would trade what it learned from."""
        until = self.desk.policy.fitted_until
        if until is None or not self.feed.is_stored:
            return
        bars = self.feed.after(last)
        if bars is not None and bars.index[0] <= until:
            raise RunError(
                f"run '{self.journal.run}' is at {last}, and {self.desk.policy.name} was fitted until {until}; resume "
                "with the bundle that was used there, or give another run= or folder= for a book of its own"
            )

    @contextmanager
    def _refuse_damage(self) -> Iterator[None]:
        """Refuse a stored state that lacks something."""
        try:
            yield
        except (LookupError, TypeError, ValueError) as problem:
            raise RunError(
                f"the last state of run '{self.journal.run}' is damaged ({problem!r}); continue from a copy of it"
            ) from problem

    def _resume(self, state: Row | None) -> None:
        """Restore a state: books, guard, orders in flight; refuses books that do not add up."""
        self.journal.verify()
        if state is not None:
            with self._refuse_damage():
                self.desk.restore(state["desk"])
                self.watch.restore(state["watch"])
                if self.succession is not None and "follow" in state:
                    self.succession.restore(state["follow"])
        # Before orders are reconciled: a run that was halted must not send its pending ones.
        self._latch()
        booked = self.journal.holdings()
        self._booked = np.array([booked.get(symbol, 0.0) for symbol in self.desk.symbols])
        if state is not None:
            self._rescale()
        self._reconcile()
        if state is not None:
            self._publish()  # what a kill kept from the record
            self._log_other_policy(state["desk"].get("policy"))

    def _rescale(self) -> None:
        """Bring the books to prices that the source has re-based since, as for a split; orders in flight there end."""
        if self.feed.is_stored or self._panel is None:
            return
        for symbol, factor in self.desk.rescale(self._panel, self._booked).items():
            if not self.desk.broker.is_outside:  # a venue is asked what became of them
                dropped = [each.client_id for each in self.desk.guard.in_flight.values() if each.symbol == symbol]
                self._set_statuses(dict.fromkeys(dropped, OrderStatus.CANCELLED))
            self.journal.note("split", f"the history of '{symbol}' was re-based by {factor:.6g}; the book is rescaled")

    def _latch(self) -> None:
        """Stay halted, and log it, where the journal's last event is a halt, which the state may not know yet."""
        changes = [row for row in self.journal.rows(tables.events) if row["kind"] in ("halt", "resume")]
        was_halted = bool(changes) and changes[-1]["kind"] == "halt"
        if was_halted:
            self.desk.guard.halt(changes[-1]["message"])
        self._sync_switch(by="")
        if was_halted and self.desk.guard.state is State.HALTED:
            log.warning("still halted: %s", self.desk.guard.reason)

    def _log_other_policy(self, before: str | None) -> None:
        """Log where the book was another policy's: intended after a rollback, otherwise perhaps a mistake."""
        name = self.desk.policy.name
        if before not in (None, name):
            sentence = f"{name} resumes with the book of {before}, {self.bars} bars old"
            log.warning("%s; for a book of its own give another run= or folder=", sentence)
            self.journal.note("policy", sentence)

    def _reconcile(self) -> None:
        """Compare the broker's positions with the fills, and ask it about orders whose status is not known."""
        orders, known = list(self.desk.guard.in_flight.values()), {}
        statuses = [self.desk.broker.find(order) for order in orders]
        self._compare([order for order, at in zip(orders, statuses, strict=True) if at is not OrderStatus.PENDING])
        for order, at in zip(orders, statuses, strict=True):
            stored = self.journal.rows(tables.orders, client_id=order.client_id)
            if not stored:
                raise RunError(f"the journal has lost order {order.client_id}, now in flight; continue from a copy")
            status = stored[0]["status"]
            if status in (OrderStatus.CANCELLED, OrderStatus.REJECTED):
                self.desk.drop(order.client_id)
            elif status in (OrderStatus.PENDING, OrderStatus.UNKNOWN):
                known[order.client_id] = self._settle_interrupted(order, at)
        self._set_statuses(known)

    def _compare(self, arrived: Sequence[Order]) -> None:
        """Refuse positions other than the fills and any part of the orders that arrived, whose fills come later."""
        if self._difference(arrived):
            self.desk.broker.refresh()
        if difference := self._difference(arrived):
            raise RunError(difference)

    def _difference(self, arrived: Iterable[Order], strangers: Sequence[str] = ()) -> str:
        """Which position is neither the sum of its fills nor that and a part of the orders that arrived; or nothing.

        strangers   open orders at the broker that are not in flight here
        """
        held, booked = self.desk.broker.positions[:, Position.QUANTITY], self._booked + self.desk.split_quantities()
        least, most = booked - rounding(held), booked + rounding(held)
        # Orders that arrived may have filled in part, or not at all, since they were looked at.
        for order in arrived:
            bound = most if order.quantity > 0.0 else least
            bound[self.desk.symbols.index(order.symbol)] += order.quantity
        for k in np.flatnonzero(~((least <= held) & (held <= most)))[:1].tolist():
            return (
                f"the broker holds {held[k]:g} of '{self.desk.symbols[k]}', the journal's fills sum to "
                f"{booked[k]:g}; correct it, then resume"
            )
        for stranger in strangers[:1]:
            return f"the broker has an open order that the journal does not know, {stranger}; cancel it, then resume"
        return ""

    def _note_difference(self, difference: str) -> None:
        """Halt for a position that no fill explains; where it is halted already, journal it once."""
        if self.desk.guard.state is not State.HALTED:
            self.desk.guard.halt(difference)
        elif difference not in (self.desk.guard.reason, self._noted_difference):
            self.journal.note("difference", difference)
        self._noted_difference = difference

    def _settle_interrupted(self, order: Order, status: OrderStatus) -> OrderStatus:
        """Where an order stands whose sending was interrupted: sent now, if it never arrived and still may be."""
        if status is not OrderStatus.PENDING:
            return status
        broker, is_halted = self.desk.broker, self.desk.guard.state is State.HALTED
        if broker.is_outside and (is_halted or not broker.has_unique_ids):
            # It may be on its way still: it stays in flight, and the next bar asks again and cancels it. Where ids are
            # taken twice, a second one could be traded beside it.
            return OrderStatus.UNKNOWN
        return OrderStatus.CANCELLED if is_halted else broker.submit(order)

    # ---- what is written ------------------------------------------------------------------------------------------

    def _state(self) -> Row:
        """The state from which the next bar, or a restart, continues."""
        books = {"desk": self.desk.to_dict(), "watch": self.watch.to_dict()}
        if self.succession is not None:
            books["follow"] = self.succession.to_dict()
        return {**books, "bars": self.bars, "last": self._last.value, **self._identity(self._last)}

    def _identity(self, at: pd.Timestamp) -> dict[str, object]:
        """What a restart must find again of the bars up to `at`."""
        return {"symbols": list(self.desk.symbols), "fed": self.feed.digest(at)}

    @property
    def _last(self) -> pd.Timestamp:
        assert self._panel is not None
        return self._panel.index[-1]

    def _vitals(self, late_bars: float, seconds: float) -> Vitals:
        account = self.desk.broker.account
        drawdown = 1.0 - account[Account.EQUITY] / account[Account.PEAK_EQUITY]
        return self.watch.vitals(self.desk.policy.action, float(drawdown), late_bars, seconds)


def _bar_seconds(panel: Panel) -> float:
    """The usual time between two bars."""
    # The median: weekends and holidays are not the usual distance.
    return float(np.median(np.diff(panel.index[-100:].asi8))) / 1e9 if len(panel) > 1 else math.inf
