"""A bundle in service: bars or features in, then the training observation, the policy's orders, the guard's checks.

The desk is the paper trader's own; only its broker differs, whose account the caller reports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry, write_own_masks
from pacesetter.errors import ConfigError, DataError
from pacesetter.market.bars import Bar, MarketBars
from pacesetter.market.orders import DISCRETE_AS_CONTINUOUS, Discrete
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.state import Account, Position
from pacesetter.market.targets import joint_targets, within_account
from pacesetter.panel import SECONDS_PER_YEAR, Panel
from pacesetter.policies.agent import per_symbol
from pacesetter.policies.conditions import condition_entries
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.policies.spec import EXPECTED, SURPRISE
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.risk.guard import Decision, Guard, Order
from pacesetter.serving.risk.jumps import check_jumps
from pacesetter.serving.risk.order import MARKET
from pacesetter.serving.trader.broker import Broker, OrderStatus, Settlement, Span
from pacesetter.serving.trader.desk import Desk, OrderOptions, Ticket, last_bars
from pacesetter.serving.trader.history import GONE_BARS, History
from pacesetter.serving.trader.why import OrderReasons, order_words

__all__ = [
    "SERVED_ORDERS",
    "BundlePolicy",
    "Holding",
    "Line",
    "ReportedAccount",
    "Runtime",
    "RuntimeAnswer",
    "ShortHistoryError",
]


class ShortHistoryError(DataError):
    """Too few bars were sent so far for the first decision."""


NAMES = {int(order): order.name.lower() for order in Discrete}
SERVED_ORDERS = OrderOptions(limit_below=0.5)  # the caller sends the orders, and is told which kind
LEAST_MONEY = 1e-6  # that an account is told apart from an empty one by; shares of less are beyond what numbers hold


class Kept(NamedTuple):
    """What a policy keeps: at which bar it was asked last, with what (symbol, …) of the bar before, and what of it."""

    at: str
    before: dict[str, Array]
    after: dict[str, Array]


class BundlePolicy(Policy):
    """The bundle's model as a `Policy` of the backtest; `confidence` (symbol,) and `value` are of the last decision.

    notes   of the last decision: `option`, the names of those in force, where the policy has options, and
            `curiosity_reward`, how surprising the bar was to a policy that learned with curiosity, None at its first
    kept    what such a policy keeps from bar to bar; asked about the same bar again, it answers as before
    model   the bundle's own, or what answers for it
    asked   what the policy is asked for beside the market, by input: the bundle's own numbers by default
    entries   what the model was shown at it
    proposals   (symbol,) of a fleet: what each agent would do in an account of its own
    """

    name: str
    action: str
    fitted_until: pd.Timestamp | None
    own_account: bool
    notes: dict[str, list[Any]]
    entries: Mapping[str, Array] | None
    confidence: Array
    value: float | None

    def __init__(self, bundle: Bundle, model: Callable[[Mapping[str, Array]], dict[str, Array]] | None = None) -> None:
        self.spec, self.model = bundle.model.spec, model or bundle.model
        self.trades_targets = self.spec.trades == "targets"
        self.name, self.action = bundle.name, "target" if self.trades_targets else self.spec.action
        task = bundle.config.trading
        self.market, self.own_account = task.market if self.trades_targets else None, task.own_account
        self.fitted_until = pd.Timestamp(bundle.manifest["fitted_until"])
        self.confidence, self.value, self.entries = np.empty(0), None, None
        self.proposals: Array = np.empty(0)
        self.notes = {}
        self.kept: Kept | None = None
        self.asked: Mapping[str, Sequence[float]] = self.spec.conditions

    def decide(self, snapshot: Snapshot) -> Array:
        spec = self.spec
        # Rows of a fleet or market are told apart by place alone: another order would trade other symbols.
        if spec.symbols and snapshot.panel.symbols != spec.symbols:
            raise ConfigError(f"policy '{self.name}' is for the {len(spec.symbols)} symbols of its training, in order")
        is_whole = spec.rows == "market"
        if is_whole:
            entries = {name: entry[None] for name, entry in snapshot.observation.items()}
        else:
            entries = per_symbol(snapshot.observation, self.own_account)
        if ACTION_MASK in spec.inputs:
            entries[ACTION_MASK] = self._masks(snapshot, is_whole)
        if self.asked:
            achieved = float(snapshot.observation["portfolio"][PortfolioEntry.EQUITY_RATIO]) - 1.0
            rows = 1 if is_whole else len(snapshot.panel.symbols)
            entries |= condition_entries(self.asked, achieved, rows)
        before = self._memory_before(snapshot)
        self.entries = entries | before
        answer = self.model(self.entries)
        if not all(np.isfinite(part).all() for part in answer.values()):
            raise DataError("the policy's output is not finite; check the newest bars or features, and the account")
        symbols = len(snapshot.panel.symbols)
        self.confidence = answer["confidence"].reshape(symbols, -1).prod(axis=1)  # hybrid: of the kind and of the value
        self.value = float(answer["value"].mean()) if "value" in answer else None
        if before:
            after = {name: answer[f"{name}_after"] for name in before}
            self.kept = Kept(snapshot.panel.index[snapshot.t].isoformat(), before, after)
        self.notes = {}
        if spec.options:
            places = answer["option"].round().astype(int).ravel()
            self.notes["option"] = [spec.options[place] for place in places]
        if SURPRISE in answer:
            # The last number of what was kept says whether there was a bar before.
            pairs = zip(answer[SURPRISE].ravel().tolist(), (before[EXPECTED][:, -1] > 0).tolist(), strict=True)
            self.notes["curiosity_reward"] = [value if known else None for value, known in pairs]
        if self.market is not None:
            return self._targets(answer, snapshot, self.market)
        chosen = answer["probabilities"].argmax(axis=-1) if self.action == "discrete" else answer["orders"]
        self.proposals = chosen
        return np.asarray(chosen, dtype=np.float64).reshape((symbols, 2) if self.action == "hybrid" else symbols)

    def _memory_before(self, snapshot: Snapshot) -> dict[str, Array]:
        """What was kept of the bar before, zeros at the first; of the same bar asked about again, what it began with.

        A backtest starts without any.
        """
        spec = self.spec
        if not spec.remembered:
            return {}
        rows = 1 if spec.rows == "market" else len(snapshot.panel.symbols)
        at, known = snapshot.panel.index[snapshot.t].isoformat(), self.kept
        if known is None or (snapshot.t == snapshot.first and known.at != at):
            return {name: np.zeros((rows, *spec.inputs[name]), np.float32) for name in spec.remembered}
        return dict(known.before if known.at == at else known.after)

    # ---- across restarts ----------------------------------------------------------------------------------------

    def memory(self) -> dict[str, Any] | None:
        """What is kept, as JSON can hold it; None where nothing is."""
        if self.kept is None:
            return None
        parts = {"before": self.kept.before, "after": self.kept.after}
        return {"at": self.kept.at} | {
            part: {name: entry.tolist() for name, entry in entries.items()} for part, entries in parts.items()
        }

    def recall(self, stored: Mapping[str, Any]) -> None:
        """Take back what `memory` gave; that of another policy is left."""
        before, after = (
            {name: np.array(entry, np.float32) for name, entry in stored[part].items()} for part in ("before", "after")
        )
        fits = {name: entry.shape[1:] for name, entry in after.items()}
        if fits == {name: self.spec.inputs[name] for name in self.spec.remembered}:
            self.kept = Kept(stored["at"], before, after)

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _masks(self, snapshot: Snapshot, is_whole: bool) -> Array:
        """Masks of the account, or of each agent's own account where the answers become targets."""
        if self.trades_targets:
            position = snapshot.observation["position"]
            return np.asarray(write_own_masks(np.zeros((len(position), len(Discrete)), dtype=bool), position))
        assert snapshot.masks is not None
        return snapshot.masks.reshape(1, -1) if is_whole else snapshot.masks

    def _targets(self, answer: Mapping[str, Array], snapshot: Snapshot, market: MarketParameters) -> Array:
        """(symbol,) shares of equity by what the agents propose, as `FleetTargets` in a backtest."""
        held = np.asarray(snapshot.observation["position"][:, PositionEntry.WEIGHT], dtype=np.float64)
        if "orders" in answer:
            self.proposals = proposals = answer["orders"].reshape(-1)
        else:
            self.proposals = answer["probabilities"].argmax(axis=-1)
            # The expected order of a discrete agent, as its proposal is in a backtest.
            proposals = answer["probabilities"] @ np.array(DISCRETE_AS_CONTINUOUS, np.float32)
        proposals = proposals.astype(np.float64)
        if self.spec.action == "target":
            targets = within_account(proposals, market)
        else:
            targets = joint_targets(proposals, held, market)
        return np.where(snapshot.panel.mask[snapshot.t], targets, np.nan)


@dataclass(frozen=True)
class Holding:
    """A position as the caller has it; the best price since entry defaults to the entry price."""

    quantity: float
    entry_price: float
    best_price: float | None = None
    bars_held: int = 0


@dataclass(frozen=True)
class ReportedAccount:
    """An account as the caller has it, in its own currency; positions stopped out in the last bar are counted."""

    cash: float
    holdings: Mapping[str, Holding] = field(default_factory=dict)
    peak_equity: float | None = None
    stop_outs: int = 0


class ReportedBroker(Broker):
    """A broker whose books the caller keeps: what was open at a bar is done at the next, as the caller then reports."""

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self.symbols = symbols
        self.account, self.positions = np.zeros(len(Account)), np.zeros((len(symbols), len(Position)))
        self.stop_outs = 0

    def report(self, account: ReportedAccount, prices: Array) -> None:
        """Take over the caller's books at the last `prices` (symbol,); signals stay as they are."""
        self.positions[:, : Position.SIGNAL] = 0.0
        self.positions[:, Position.BARS_HELD] = 0.0
        for symbol, held in account.holdings.items():
            row = self.positions[self.symbols.index(symbol)]
            row[Position.QUANTITY], row[Position.ENTRY_PRICE] = held.quantity, held.entry_price
            # The entry is the most careful guess: a trailing stop starts from there.
            row[Position.BEST_PRICE] = held.entry_price if held.best_price is None else held.best_price
            row[Position.BARS_HELD] = held.bars_held
        # Dust in an empty account would make shares of equity explode.
        cash = account.cash if abs(account.cash) > LEAST_MONEY else 0.0
        # Summed symbol by symbol as the kernel does, so that shares of equity are the backtest's bit for bit.
        equity = cash + sum((self.positions[:, Position.QUANTITY] * prices).tolist())
        self.account[:] = cash, equity, max(account.peak_equity or equity, equity, LEAST_MONEY), 0.0
        self.stop_outs = account.stop_outs

    def settle(self, now: Array, bar: Array, orders: Iterable[Order], span: Span) -> Settlement:
        # The caller trades: what really filled is in the account that it reports next.
        closed = {order.client_id: OrderStatus.FILLED for order in orders}
        return Settlement((), closed, self.stop_outs, False)

    def submit(self, order: Order) -> OrderStatus:
        return OrderStatus.SENT

    def find(self, order: Order) -> OrderStatus:
        return OrderStatus.UNKNOWN

    def open_orders(self) -> tuple[str, ...]:
        return ()

    def cancel_all(self) -> None:
        """Nothing is open here: orders are the caller's."""

    def restore(self, account: Array, positions: Array) -> None:
        self.account[:], self.positions[:] = account, positions


@dataclass(frozen=True, slots=True)
class Line:
    """The answer for one symbol.

    action      as the policy gave it; of a hybrid policy the continuous order that it comes to
    signal      as it is acted on
    confidence  how likely the policy, drawing its order, draws this one; where orders are numbers, one on the same side
                of their middle, and of a hybrid policy of the same kind too. A master's is that of each symbol's agent
    quantity    signed, that the policy asks for            allowed    signed, after the guard
    limit       control of the guard that refused, or None  client_id  under which to send the order, or None
    option      the option in force, of a policy that has options
    order_type  market, or limit at the last close where the policy is less sure than `limit_below`
    why         the features behind an order that is allowed, where reasons are asked for; else None
    """

    symbol: str
    order: str
    action: float
    signal: float
    confidence: float
    quantity: float
    allowed: float
    limit: str | None
    client_id: str | None
    option: str | None = None
    order_type: str = MARKET
    why: str | None = None


@dataclass(frozen=True)
class RuntimeAnswer:
    """What was decided at the close of the bar known at `time`."""

    time: pd.Timestamp
    lines: tuple[Line, ...]
    value: float | None
    state: str


class Runtime:
    """A bundle with its history, desk and guard; not thread-safe.

    symbols   what is served; those of the training where None. A fleet or market serves exactly its own
    clock     UTC seconds since 1970, which data is fresh or stale by
    orders    least confidence of an entry, and below which confidence an order is a limit order
    has_why   whether each answer says why; asks the model once for each feature
    """

    def __init__(
        self,
        bundle: Bundle,
        symbols: tuple[str, ...] | None = None,
        guard: Guard | None = None,
        clock: Callable[[], float] = time.time,
        orders: OrderOptions = SERVED_ORDERS,
        has_why: bool = False,
    ) -> None:
        spec = bundle.model.spec
        self.bundle, self.clock = bundle, clock
        self.symbols = symbols or spec.symbols or bundle.features.symbols
        if spec.symbols and self.symbols != spec.symbols:
            raise ConfigError(f"this policy serves exactly its {len(spec.symbols)} symbols; leave the symbols out")
        self.policy = BundlePolicy(bundle)
        self.guard = guard or Guard(bundle.limits)
        self.history = History.of(bundle, self.symbols)
        self.market = serving_market(bundle)
        self.broker = ReportedBroker(self.symbols)
        risk = bundle.served_risk(self.symbols)
        self.desk = Desk(self.policy, self.guard, self.symbols, self.market, self.broker, bundle.name, orders, risk)
        self.reasons = OrderReasons(bundle.model, bundle.manifest.get("feature_moments")) if has_why else None
        self._settled: pd.Timestamp | None = None  # bar that the desk's books stand at
        self.ticket: Ticket | None = None  # of the last decision

    @property
    def bar_seconds(self) -> float:
        """Mean seconds between bars."""
        return SECONDS_PER_YEAR / self.bundle.features.bars_per_year

    def feed(self, bars: Panel) -> None:
        """Take newer bars without deciding; refuses those with a price beyond `guard.jump_factor`."""
        if self.history.panel is not None:
            # Enough old bars to find the close before, also of a symbol that paused.
            joined = self.history.panel.rows(-GONE_BARS, None).append(bars)
            check_jumps(joined, MarketBars.from_panel(joined).values, self.guard.limits.jump_factor, len(bars))
        self.history.append(bars)
        if self.desk.risk is not None:  # before old bars are forgotten
            self.desk.risk.append(bars)

    @contextmanager
    def use_request(self, asked: Mapping[str, Sequence[float]]) -> Iterator[None]:
        """Decide for what is `asked`, by input of the policy, and for the bundle's own numbers elsewhere."""
        self.policy.asked = {**self.policy.spec.conditions, **asked}
        try:
            yield
        finally:
            self.policy.asked = self.policy.spec.conditions

    def decide(self, account: ReportedAccount, bars: Panel | None = None) -> RuntimeAnswer:
        """Take newer bars, if any, and decide at the last one; refuses while features are still unknown.

        A symbol with fewer bars than fix its features counts as stale: it may be left, not entered.
        """
        if bars is not None:
            self.feed(bars)
        panel, missing = self.history.panel, self.history.missing_bars()
        if panel is None or missing > 0:
            count = max(missing, 1)
            raise ShortHistoryError(
                f"history is too short: {count} more {'bar is' if count == 1 else 'bars are'} needed; send them as bars"
            )
        # An age of ∞ makes the guard's own rule for stale prices refuse entries.
        return self._decide(panel, self.history.observation(), account, np.where(self.history.is_short, np.inf, 0.0))

    def decide_features(self, panel: Panel, entries: Mapping[str, Array], account: ReportedAccount) -> RuntimeAnswer:
        """Decide on given entries (symbol, …) at the last bar of `panel`, which need only have closes."""
        return self._decide(panel, entries, account, np.zeros(len(self.symbols)))

    # ---- across restarts ----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, object]:
        """All that the next decision needs beside the bars, as JSON can hold it."""
        settled = None if self._settled is None else self._settled.isoformat()
        return {"symbols": self.symbols, "settled": settled, "desk": self.desk.to_dict()}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Restore what `to_dict` gave; refuses the books of other symbols."""
        if tuple(stored["symbols"]) != self.symbols:
            raise ConfigError(
                f"the stored books have {len(stored['symbols'])} other symbols than the {len(self.symbols)} served"
            )
        self.desk.restore(stored["desk"])
        self.guard = self.desk.guard
        self._settled = None if stored["settled"] is None else pd.Timestamp(stored["settled"])

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _decide(
        self, panel: Panel, entries: Mapping[str, Array], account: ReportedAccount, more_late: Array
    ) -> RuntimeAnswer:
        bars, now, t = last_bars(panel), self.clock(), len(panel) - 1
        if self._settled is not None and panel.index[-1] < self._settled:
            raise DataError(f"the books are at {self._settled}; a decision at {panel.index[-1]} would go back in time")
        prices = dict(zip(self.symbols, bars[-1, :, Bar.CLOSE].tolist(), strict=True))
        unknown = [symbol for symbol, held in account.holdings.items() if held.quantity and not prices[symbol]]
        if unknown:  # at no price it would count as lost, and halt
            raise DataError(f"'{unknown[0]}' is held, but has no price; send one")
        self.broker.report(account, bars[-1, :, Bar.CLOSE])
        # A second question about the same bar must not settle again, nor restart the guard's count of orders per bar.
        if panel.index[-1] != self._settled:
            self.desk.settle(panel, bars, now)
            self._settled = panel.index[-1]
        late_bars = max(now - panel.index[-1].timestamp(), 0.0) / self.bar_seconds
        shown = {**entries, "position": np.zeros((len(self.symbols), 1)), "portfolio": np.zeros(1)}
        snapshot = Snapshot(
            panel, t, shown, first=-1
        )  # a server has no first bar: what a policy keeps is restored or empty
        self.ticket = ticket = self.desk.decide(snapshot, bars, now, late_bars + more_late)
        return RuntimeAnswer(panel.index[-1], self._lines(ticket), self.policy.value, self.guard.state.value)

    def _lines(self, ticket: Ticket) -> tuple[Line, ...]:
        checked = {decision.order.symbol: decision for decision in ticket.decisions}
        confidence = self.policy.confidence.astype(np.float64).round(6).tolist()
        rows = zip(self.symbols, ticket.actions.tolist(), ticket.signals.tolist(), confidence, strict=True)
        options = self.policy.notes.get("option", [None] * len(self.symbols))
        why = self._explain_orders(ticket)
        return tuple(
            self._line(*row, checked.get(row[0]), option, why.get(row[0]))
            for row, option in zip(rows, options, strict=True)
        )

    def _explain_orders(self, ticket: Ticket) -> dict[str, str]:
        """Symbol -> why its order, of those that are allowed."""
        if self.reasons is None or self.policy.entries is None:
            return {}
        orders = {self.symbols.index(order.symbol): order_words(order) for order in ticket.orders}
        return {self.symbols[k]: said for k, said in self.reasons.sentences(self.policy.entries, orders).items()}

    def _line(
        self,
        symbol: str,
        action: float,
        signal: float,
        confidence: float,
        checked: Decision | None,
        option: str | None,
        why: str | None,
    ) -> Line:
        quantity = 0.0 if checked is None else checked.order.quantity
        is_allowed = checked is not None and checked.allowed
        return Line(
            symbol,
            NAMES[int(action)] if self.policy.action == "discrete" else _side(quantity),
            action,
            signal,
            confidence,
            quantity,
            quantity if is_allowed else 0.0,
            None if checked is None else checked.reason,
            checked.order.client_id if checked is not None and is_allowed else None,
            option,
            self.desk.options.kind(confidence),
            why,
        )


def _side(quantity: float) -> str:
    return "buy" if quantity > 0 else "sell" if quantity < 0 else "hold"


def serving_market(bundle: Bundle) -> MarketParameters:
    """The rules the policy was trained under, with annual rates per bar of its data."""
    market: MarketParameters = bundle.config.trading.market
    return replace(market, bars_per_year=bundle.features.bars_per_year)
