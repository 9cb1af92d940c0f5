"""The desk: a policy's actions become orders by the kernel's own rule, pass the guard one by one, and go to a broker.

`GuardedPolicy` puts the same desk into a backtest, so that paper trading and a backtest of the same bars are one path.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import POSITION_SIZE, PortfolioEntry, PositionEntry
from pacesetter.envs.batch.batch import ACTIONS
from pacesetter.envs.batch.loops import account_rows, mask_rows
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.market.account_bars import apply_market
from pacesetter.market.bars import PLAIN, Bar, MarketBars, is_trading
from pacesetter.market.kernel import exit_level, follow_best_price, has_exits
from pacesetter.market.ledger import Fill
from pacesetter.market.orders import Discrete, OrderKind, smallest_order
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.state import Account, Position
from pacesetter.panel import Panel
from pacesetter.policies.hybrid import hybrid_orders
from pacesetter.policies.market_rows import with_account
from pacesetter.policies.policy import QUANTITIES, Policy, Snapshot
from pacesetter.serving.risk.clusters import clusters
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.jumps import check_jumps
from pacesetter.serving.risk.order import LIMIT, MARKET, STOP, AccountView, Decision, Order, Quote
from pacesetter.serving.trader.broker import Broker, Execution, OrderStatus, Settlement
from pacesetter.serving.trader.feeds import SPLIT_FRACTION
from pacesetter.serving.trader.paper_broker import STOPS, KernelAccount, PaperBroker, exit_reason
from pacesetter.serving.trader.sizing import ServedRisk

__all__ = ["LOW_CONFIDENCE", "Desk", "GuardedPolicy", "OrderOptions", "Ticket", "last_bars", "rounding"]

LOW_CONFIDENCE = "low_confidence"  # why an order was refused before the guard was asked
SAME_SPLIT = 1e-3  # relative, up to which a venue's position is that of the feed's split: a feed rounds its prices
SAME_QUANTITY = 1e-9  # relative, and of one share where less is held
SPECK = 1e-9  # of equity: what the rounding of sums leaves of an order
TAIL_BARS = 61  # of history that a decision of the desk itself reads: 60 returns, and enough to see a delisting


@dataclass(frozen=True)
class OrderOptions:
    """What the policy's confidence does to its orders; by default nothing, as in a backtest.

    min_confidence    an order that opens or adds is not sent below it, e.g. 0.6; 0 is off
    limit_below       below it an order is a limit order at the last close, else a market order; 0: all are
    flatten_on_halt   whether a halt closes every position with the next bar, instead of leaving them as they are
    """

    min_confidence: float = 0.0
    limit_below: float = 0.0
    flatten_on_halt: bool = False

    def __post_init__(self) -> None:
        check_range(0, 1, owner="orders", min_confidence=self.min_confidence, limit_below=self.limit_below)

    def kind(self, confidence: float) -> str:
        """market or limit."""
        return LIMIT if confidence < self.limit_below else MARKET


class Ticket(NamedTuple):
    """What was decided at one close; all arrays are (symbol,).

    actions    as the policy gave them, hybrid ones as the continuous orders that they come to
    signals    as they were acted on: smoothed, looked up, or the weight
    quantities signed, of the orders that the guard allowed; 0 elsewhere
    decisions  the guard's answer to each order, exits first, and the stops of what is held last
    is_decided by the policy; else it flattens what a halted desk holds
    """

    actions: Array
    signals: Array
    quantities: Array
    decisions: tuple[Decision, ...]
    is_decided: bool = True

    @property
    def orders(self) -> tuple[Order, ...]:
        """The orders that may be sent."""
        return tuple(decision.order for decision in self.decisions if decision.allowed)


class Desk:
    """One policy, one guard, one broker, and the orders between them.

    market   what the policy was trained under: sizes, caps, costs. Orders are sized here, by the kernel's own rule, and
             the broker fills these quantities
    run      prefix of every order's client id
    options  how sure the policy must be, and what kind of order it then sends
    risk     the step that turns a policy's targets, which are then views, into those of the account
    """

    def __init__(
        self,
        policy: Policy,
        guard: Guard,
        symbols: tuple[str, ...],
        market: MarketParameters,
        broker: Broker | None = None,
        run: str = "run",
        options: OrderOptions | None = None,
        risk: ServedRisk | None = None,
    ) -> None:
        if risk is not None and policy.action != "target":
            raise ConfigError(
                f"risk sizes weights, but policy '{policy.name}' gives {policy.action} orders; give weights, or leave "
                "risk out"
            )
        self.risk, self.options = risk, options or OrderOptions()
        if policy.action not in ACTIONS:
            raise ConfigError(
                f"policy '{policy.name}' has action '{policy.action}'{did_you_mean(policy.action, ACTIONS)}"
            )
        self.policy, self.guard, self.symbols, self.market, self.run = policy, guard, symbols, market, run
        self.broker = broker or PaperBroker(symbols, market)
        self._is_hybrid, self._rules = policy.action == "hybrid", market.to_vector()
        self._kind = OrderKind.CONTINUOUS if self._is_hybrid else OrderKind(ACTIONS[policy.action])
        self._sizing = KernelAccount(symbols, market, self._kind)
        self._gross = market.limits.gross_leverage - market.limits.reserve_cash_fraction
        self._gross_cut = self._gross if self.broker.cuts_openings else math.inf
        self._signals = np.zeros(len(symbols))
        self._bar: Array | None = None
        self._adjustments: list[Execution] = []  # of the book, told with the next settlement
        self.booked: Array | None = None  # (symbol,) sums of the fills, where somebody keeps them
        self.stops: dict[str, str] = {}  # symbol -> which exit the last bar met, of a position at a venue
        self.too_small: dict[str, str] = {}  # symbol -> why the broker does not take an order as small as the last

    @property
    def equity(self) -> float:
        return float(self.broker.account[Account.EQUITY])

    # ---- a bar ----------------------------------------------------------------------------------------------------

    def settle(self, panel: Panel, bars: Array, now: float) -> Settlement:
        """Let the last of `bars` (time, K, Bar), the panel's, act on the open orders; the first ever opens the books.

        Refuses one beyond `guard.jump_factor`, with nothing changed; a bar that comes alone is held against the books'.
        """
        pair = bars if len(bars) > 1 or self._bar is None else np.stack([self._bar, bars[-1]])
        check_jumps(panel, pair, self.guard.limits.jump_factor)
        if self._bar is None:
            settlement = self.broker.begin(bars[-1])
        else:
            # Settled before anything is decided: the policy must see the account after the bar's fills.
            span = panel.index[-2] if len(panel) > 1 else panel.index[-1], panel.index[-1]
            settlement = self.broker.settle(self._bar, bars[-1], self.guard.in_flight.values(), span)
        if self.broker.is_outside:
            met = self._filled_stops(settlement) + self._follow(self.broker.positions, bars[-1])
            settlement = settlement._replace(stop_outs=met)
        if self._adjustments:
            settlement = settlement._replace(executions=(*self._adjustments, *settlement.executions))
            self._adjustments = []
        self._bar = bars[-1].copy()
        self.broker.positions[:, Position.SIGNAL] = self._signals  # the kernel keeps the quantity there
        for execution in settlement.executions:
            if execution.client_id is not None:
                self.guard.record_fill(execution.client_id, execution.quantity)
        for client_id in settlement.closed:
            self.guard.close_order(client_id)
        # After fills and closed orders are noted, so that exposure and losses are those of the new books.
        self.guard.begin_bar(self.equity, now, settlement.stop_outs)
        return settlement

    def split_quantities(self) -> Array:
        """(symbol,) quantities that a split added, and that the next settlement tells."""
        added = np.zeros(len(self.symbols))
        for each in self._adjustments:
            added[self.symbols.index(each.symbol)] += each.quantity
        return added

    def rescale(self, panel: Panel, booked: Array) -> dict[str, float]:
        """Bring the books to the prices of `panel`, whose last bar is theirs, where its source re-based them since.

        Gives symbol -> factor of the prices. `booked` (symbol,) are the quantities that the fills sum to. Orders in
        flight in these symbols are to be dropped here; a venue rescales its own positions, and where it has, that is
        booked.
        """
        assert self._bar is not None
        closes, factors = last_bars(panel)[-1, :, Bar.CLOSE], {}
        for k, (symbol, close) in enumerate(zip(self.symbols, closes.tolist(), strict=True)):
            factor = close / self._bar[k, Bar.CLOSE] if self._bar[k, Bar.CLOSE] > 0.0 else 1.0
            if factor == 0.0 or abs(factor - 1.0) <= SPLIT_FRACTION:
                continue
            factors[symbol], row = factor, self.broker.positions[k]
            self._bar[k, [Bar.OPEN, Bar.HIGH, Bar.LOW, Bar.CLOSE]] *= factor
            self._bar[k, Bar.VOLUME] /= factor
            held = float(row[Position.QUANTITY])
            if self.broker.is_outside:
                is_split = math.isclose(held, booked[k] / factor, rel_tol=SAME_SPLIT)
                more = held - float(booked[k]) if is_split else 0.0
            else:
                more = held / factor - held
                row[Position.QUANTITY] += more
                row[Position.ENTRY_PRICE] *= factor
            row[Position.BEST_PRICE] *= factor
            if more:
                self._adjustments.append(Execution(None, symbol, more, 0.0, 0.0, "split"))
            if self.risk is not None:
                self.risk.rescale(symbol, factor)
        return factors

    def drop(self, client_id: str) -> None:
        """An order was never taken: its symbol is left as it is."""
        self.guard.close_order(client_id)

    def decide(self, snapshot: Snapshot, bars: Array, now: float, late_bars: float | Array = 0.0) -> Ticket:
        """Ask the policy at the close of the last of `bars`, and the guard about each order that follows.

        `late_bars` is how many bars the clock is past the bar's close, or past what is known of each symbol.
        """
        if self.risk is not None:
            self.risk.begin(snapshot.panel)
            self.risk.adopt(self.broker.account, self.broker.positions, self._last_bars[:, Bar.CLOSE])
        decided = np.asarray(self.policy.decide(self._own_view(snapshot)), dtype=np.float64)
        if self.risk is not None:
            decided = self.risk.size(decided, self.broker.account, self.broker.positions, self._last_bars, self._rules)
        actions, quantities, self._signals = self._size_orders(decided)
        if not self.broker.cuts_openings:
            quantities = self._cut_to_gross(quantities)
        for symbol in self.stops:
            place = self.symbols.index(symbol)
            quantities[place] = -self.broker.positions[place, Position.QUANTITY]
        view, begin = self._account_view(snapshot.panel, bars, late_bars), self._begin(snapshot.panel)
        orders, unsure = self._by_confidence(self._orders(quantities, begin))
        decisions = (*self.guard.check_all(self._round_orders(orders), view, now), *unsure)
        quantities = self._allowed_quantities(decisions)
        # After the orders, so that a stop is of what their exits leave.
        stops = self.guard.check_all(self._stop_orders(begin), view, now)
        return Ticket(actions, self._signals.copy(), quantities, (*decisions, *stops))

    def flatten_orders(self, panel: Panel, bars: Array, now: float) -> Ticket:
        """While halted: an order against every position, less the exits in flight; needs no policy."""
        held = self.broker.positions[:, Position.QUANTITY]
        orders = self._round_orders(self._orders(-held, f"{self._begin(panel)}-flat"))
        decisions = self.guard.flatten(orders, self._account_view(panel, bars, 0.0), now)
        return Ticket(
            np.zeros(len(held)), self._signals.copy(), self._allowed_quantities(decisions), decisions, is_decided=False
        )

    def _allowed_quantities(self, decisions: tuple[Decision, ...]) -> Array:
        """(symbol,) quantities that may be sent."""
        sent = {decision.order.symbol: decision.order.quantity for decision in decisions if decision.allowed}
        return np.array([sent.get(symbol, 0.0) for symbol in self.symbols])

    def _round_orders(self, orders: list[Order]) -> list[Order]:
        """Orders as the broker takes them: less what is in flight on the same side, in its steps, none too small."""
        broker, self.too_small, sendable = self.broker, {}, []
        held = dict(zip(self.symbols, broker.positions[:, Position.QUANTITY].tolist(), strict=True))
        for order in orders:
            less = self._less_flying(order)
            if not less.quantity or (broker.is_outside and abs(less.quantity) * less.price < SPECK * self.equity):
                continue
            fitted = broker.fit_order(less, held[order.symbol])
            if isinstance(fitted, str):
                self.too_small[order.symbol] = fitted
            else:
                sendable.append(fitted)
        return sendable

    def _less_flying(self, order: Order) -> Order:
        """An order less those in flight on its side, where they rest over bars.

        They may still fill, whatever was asked of them: an entry is not sent twice, nor is an exit. An exit closes no
        more than the fills explain: positions that a venue reports may be old ones.
        """
        if not self.broker.is_outside:
            return order
        same = [each for each in self.guard.in_flight.values() if each.symbol == order.symbol]
        flying = sum(abs(each.quantity) for each in same if each.quantity * order.quantity > 0.0)
        place, side = self.symbols.index(order.symbol), math.copysign(1.0, order.quantity)
        most = abs(order.quantity)
        if self.unexplained[place] and side * self.broker.positions[place, Position.QUANTITY] < 0.0:
            assert self.booked is not None
            most = min(most, max(-side * float(self.booked[place]), 0.0))
        return replace(order, quantity=side * max(most - flying, 0.0))

    @property
    def unexplained(self) -> Array:
        """(symbol,) whether a venue's position is another than its fills sum to: one is late, or the answer is old."""
        held = self.broker.positions[:, Position.QUANTITY]
        if self.booked is None or not self.broker.is_outside:
            return np.zeros(len(held), dtype=bool)
        unexplained: Array = np.abs(held - self.booked) > rounding(held)
        return unexplained

    def _stop_orders(self, begin: str) -> list[Order]:
        """A stop for each position, where stops rest at the broker: of what no exit in flight closes, at its level."""
        if not (self.broker.takes_stops and has_exits(self._rules)):
            return []
        orders, positions = [], self.broker.positions
        for k in np.flatnonzero(positions[:, Position.QUANTITY]).tolist():
            symbol, held = self.symbols[k], float(positions[k, Position.QUANTITY])
            level = _stop_level(positions, k, self._rules)
            if not 0.0 < level < math.inf or symbol in self.stops:
                continue
            order = self._less_flying(Order(f"{begin}-stop-{symbol}", symbol, -held, level, STOP))
            fitted = self.broker.fit_order(order, held) if order.quantity else ""
            if isinstance(fitted, Order):
                orders.append(fitted)
        return orders

    def _filled_stops(self, settlement: Settlement) -> int:
        """How many stops that rested at the broker were filled."""
        stops = {client_id for client_id, order in self.guard.in_flight.items() if order.kind == STOP}
        return sum(name in stops and status is OrderStatus.FILLED for name, status in settlement.closed.items())

    def _follow(self, positions: Array, bar: Array) -> int:
        """Note which exits the bar (K, Bar) met, by the kernel's own rule, and follow it; gives how many were stops.

        What met one and is still held is closed by an order at the bar's close: a venue knows nothing of
        `market.exits`, and a stop that rested there may not have filled.
        """
        self.stops, stop_outs = {}, 0
        for k in np.flatnonzero(positions[:, Position.QUANTITY]).tolist():
            if has_exits(self._rules) and is_trading(bar, k) and positions[k, Position.ENTRY_PRICE] > 0.0:
                level, flag = exit_level(positions, k, bar, self._rules)
                if level > 0.0 and self._is_closable(k, bar):
                    self.stops[self.symbols[k]] = exit_reason(flag)
                    stop_outs += bool(int(flag) & STOPS)
            positions[k, Position.BARS_HELD] += 1.0
            follow_best_price(positions, k, bar)  # after the exits: a bar's own high must not raise its own stop
        return stop_outs

    def _is_closable(self, place: int, bar: Array) -> bool:
        """Whether what is held is enough for an order; what a fee in kind left of a position may not be."""
        symbol, held = self.symbols[place], float(self.broker.positions[place, Position.QUANTITY])
        return isinstance(
            self.broker.fit_order(Order("exit", symbol, -held, float(bar[place, Bar.CLOSE])), held), Order
        )

    def _begin(self, panel: Panel) -> str:
        return f"{self.run}-{panel.index[-1]:%Y%m%dT%H%M%S}"

    def _by_confidence(self, orders: list[Order]) -> tuple[list[Order], tuple[Decision, ...]]:
        """Orders by kind, and refusals of those that open or add below the least confidence."""
        known = self.policy.confidence
        if known is None or len(known) != len(self.symbols) or self.options == OrderOptions():
            return orders, ()
        sure = dict(zip(self.symbols, np.asarray(known, dtype=np.float64).tolist(), strict=True))
        held = dict(zip(self.symbols, self.broker.positions[:, Position.QUANTITY].tolist(), strict=True))
        kept, refused = [], []
        for order in orders:
            is_exit = held[order.symbol] * order.quantity < 0 and abs(order.quantity) <= abs(held[order.symbol])
            if sure[order.symbol] < self.options.min_confidence and not is_exit:
                self.guard.denials[LOW_CONFIDENCE] += 1
                refused.append(Decision(order, False, LOW_CONFIDENCE, self.guard.state))
            elif order.symbol in self.stops:  # a stop is not left to a limit that may not be met
                kept.append(order)
            else:
                kept.append(order.of_kind(self.options.kind(sure[order.symbol])))
        return kept, tuple(refused)

    def account_vector(self) -> Array:
        """The (K · PositionEntry + PortfolioEntry,) float32 account as observations hold it."""
        assert self._bar is not None
        vector = np.empty(len(self.symbols) * POSITION_SIZE + len(PortfolioEntry), np.float32)
        state = (self.broker.account, self.broker.positions, self._bar, self._rules)
        account_rows(vector[None], *(part[None] for part in state))
        return vector

    # ---- across restarts ----------------------------------------------------------------------------------------

    def replace_policy(self, policy: Policy, risk: ServedRisk | None) -> None:
        """Let another policy decide from the next bar on, with these books."""
        if risk is not None and self.risk is not None:
            risk.take_over(self.risk)
        self.policy, self.risk = policy, risk

    def to_dict(self) -> dict[str, Any]:
        """All that the next bar needs, as JSON can hold it bit-exactly."""
        return {
            "policy": self.policy.name,
            "guard": self.guard.to_dict(),
            "account": _name_columns(self.broker.account[None], Account)[0],
            "positions": self._rows_by_symbol(self.broker.positions, Position),
            "signals": dict(zip(self.symbols, self._signals.tolist(), strict=True)),
            "bar": None if self._bar is None else self._rows_by_symbol(self._bar, Bar),
            **({} if self.risk is None else {"risk": self.risk.to_dict()}),
            **self._policy_memory(),
        }

    def _rows_by_symbol(self, rows: Array, columns: type[IntEnum]) -> dict[str, dict[str, float]]:
        """Rows (symbol, column) by symbol and name."""
        return dict(zip(self.symbols, _name_columns(rows, columns), strict=True))

    def _policy_memory(self) -> dict[str, Any]:
        """What the policy keeps from bar to bar; nothing of most."""
        memory = self.policy.memory()
        return {} if memory is None else {"memory": memory}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Resume from what `to_dict` gave."""
        self.guard = Guard.from_dict(stored["guard"], self.guard.limits)
        account, positions = _row(stored["account"], Account), self._rows(stored["positions"], Position)
        self.broker.restore(account, positions)
        self._signals = self._by_symbol(stored["signals"])  # earlier `weights` came to the orders in flight
        self._bar = None if stored["bar"] is None else self._rows(stored["bar"], Bar)
        if self.risk is not None and "risk" in stored:
            self.risk.restore(stored["risk"])
        if "memory" in stored:
            self.policy.recall(stored["memory"])

    def _rows(self, stored: Any, columns: type[IntEnum]) -> Array:
        """(symbol, column) of rows stored by symbol and name."""
        if isinstance(stored, list):  # an earlier version wrote rows in the order of the symbols
            return np.array([_row(row, columns) for row in stored])
        return np.array([_row(stored[symbol], columns) for symbol in self.symbols])

    def _by_symbol(self, stored: Any) -> Array:
        return np.array(stored if isinstance(stored, list) else [stored[symbol] for symbol in self.symbols])

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _own_view(self, snapshot: Snapshot) -> Snapshot:
        """What the policy sees: the account as these books have it, and the masks of discrete orders."""
        masks = self._masks() if self._kind is OrderKind.DISCRETE else None
        observation = with_account(snapshot.observation, self.account_vector())
        if self.risk is not None:
            # A policy sees its own position, in its own units; the base is none of its business.
            position = np.array(observation["position"])
            state = self.broker.account, self.broker.positions, self._last_bars[:, Bar.CLOSE]
            position[:, PositionEntry.WEIGHT] = self.risk.views_held(*state)
            observation["position"] = position
        return snapshot._replace(observation=observation, masks=masks)

    @property
    def _last_bars(self) -> Array:
        """(symbol, Bar) the last bar."""
        assert self._bar is not None
        return self._bar

    def _masks(self) -> Array:
        """(symbol, 7) by the environments' own rule, on what the market asks of bars: lots decide what is sent."""
        bars = apply_market(self._last_bars[None], self.symbols, self.market)
        masks = np.zeros((1, len(self.symbols) * len(Discrete)), dtype=bool)
        rules, cursor = self._rules[None, None], np.zeros((1, len(Cursor)), dtype=np.int64)
        mask_rows(masks, bars[None], rules, self.broker.account[None], self.broker.positions[None], cursor)
        return masks.reshape(len(self.symbols), -1)

    def _size_orders(self, actions: Array) -> tuple[Array, Array, Array]:
        """(symbol,) orders, quantities and signals, by the kernel's own rule; a NaN weight changes nothing."""
        assert self._bar is not None
        if actions.shape != ((len(self.symbols), 2) if self._is_hybrid else (len(self.symbols),)):
            raise ConfigError(
                f"policy '{self.policy.name}' gave {actions.shape} actions for {len(self.symbols)} symbols"
            )
        sizing = self._sizing
        # On a copy of the books: the step below moves money in it, and only what it ordered is read.
        sizing.account[:], sizing.positions[:] = self.broker.account, self.broker.positions
        if self._is_hybrid:
            actions = hybrid_orders(actions, sizing.positions, self._bar[:, Bar.CLOSE], self._rules)
        left = np.isnan(actions) & (self._kind is OrderKind.TARGET)
        sizing.step(self._bar, self._bar, np.where(left, 0.0, actions))  # what it would fill is not looked at
        ordered, signals = sizing.fills[:, Fill.ORDERED], sizing.positions[:, Position.SIGNAL]
        return actions, np.where(left, 0.0, ordered), np.where(left, self._signals, signals)

    def _cut_to_gross(self, quantities: Array) -> Array:
        """(symbol,) quantities, openings cut by one factor where together they pass the gross limit, as in training."""
        assert self._bar is not None
        held, prices = self.broker.positions[:, Position.QUANTITY], self._bar[:, Bar.CLOSE]
        is_opening = quantities * held >= 0.0
        after = np.abs(np.where(is_opening, held, held + quantities)) @ prices
        needed = np.abs(quantities[is_opening]) @ prices[is_opening]
        budget = min(self._gross * self.equity, self.broker.notional_cap) - after
        if needed == 0.0 or needed <= budget:
            return quantities
        cut = max(budget, 0.0) / needed
        kept = np.where(is_opening, quantities * cut, quantities)
        least = smallest_order(self.equity, self._rules)
        return np.where(is_opening & (np.abs(kept) * prices < least), 0.0, kept)

    def _orders(self, quantities: Array, begin: str) -> list[Order]:
        """Orders for each symbol with a quantity, at the last close; client ids start with `begin`."""
        assert self._bar is not None
        rows = zip(self.symbols, quantities.tolist(), self._bar[:, Bar.CLOSE].tolist(), strict=True)
        return [Order(f"{begin}-{symbol}", symbol, quantity, price) for symbol, quantity, price in rows if quantity]

    def _account_view(self, panel: Panel, bars: Array, late_bars: float | Array) -> AccountView:
        """What the guard receives: prices with their age, and which symbols move together."""
        mask = panel.mask[-len(bars) :]
        # Bars since the last observed one; a symbol not seen in the tail is at least that old.
        ages = np.where(mask.any(axis=0), mask[::-1].argmax(axis=0), len(bars)) + late_bars
        prices, held = bars[-1, :, Bar.CLOSE], self.broker.positions[:, Position.QUANTITY]
        limits = self.guard.limits
        return AccountView(
            self.equity,
            dict(zip(self.symbols, held.tolist(), strict=True)),
            {s: Quote(*each) for s, *each in zip(self.symbols, prices.tolist(), ages.tolist(), strict=True)},
            clusters(bars[:, :, Bar.CLOSE], self.symbols, limits.cluster_correlation) if limits.has_clusters else {},
            float(self.broker.account[Account.PEAK_EQUITY]),
            self.market.limits.shorting and self.broker.can_short,
            self._gross_cut,
            self.broker.notional_cap,
        )


class GuardedPolicy(Policy):
    """A policy behind a guard, for `backtest(guarded, panel, market=guarded.market)`.

    It keeps books of its own by the same kernel; refuses a backtest whose account is another than theirs.
    """

    name: str
    action = QUANTITIES
    fitted_until: pd.Timestamp | None

    def __init__(
        self,
        policy: Policy,
        guard: Guard,
        panel: Panel,
        market: MarketParameters | None = None,
        risk: ServedRisk | None = None,
    ) -> None:
        rules = replace(market or MarketParameters(), bars_per_year=panel.bars_per_year)
        self.name, self.market = f"{policy.name} (guarded)", rules
        self.fitted_until = policy.fitted_until
        self.desk = Desk(policy, guard, panel.symbols, rules, risk=risk)
        self.tickets: list[Ticket] = []

    def decide(self, snapshot: Snapshot) -> Array:
        bars, now = last_bars(snapshot.panel), snapshot.panel.index[-1].timestamp()
        self.desk.settle(snapshot.panel, bars, now)
        ratio = float(snapshot.observation["portfolio"][PortfolioEntry.EQUITY_RATIO])
        # The observation is float32, hence the tolerance.
        if abs(self.desk.equity / self.market.initial_cash - ratio) > 1e-5:
            raise ConfigError("the backtest uses another market than the guard's books; give it market=guarded.market")
        self.tickets.append(self.desk.decide(snapshot, bars, now))
        return self.tickets[-1].quantities


def rounding(held: Array) -> Array:
    """(symbol,) by how much positions and the sums of their fills may differ."""
    return SAME_QUANTITY * np.maximum(np.abs(held), 1.0)


def _stop_level(positions: Array, place: int, rules: Array) -> float:
    """The price at which a position is stopped out, by the kernel's own rule; not above 0, or infinite, without one."""
    bar = np.zeros((place + 1, PLAIN))
    is_long = positions[place, Position.QUANTITY] > 0.0
    # A bar that opens well and then falls through every level: its exit is at the stop itself.
    bar[place, [Bar.OPEN, Bar.LOW, Bar.HIGH]] = [math.inf if is_long else -math.inf, -math.inf, math.inf]
    return float(exit_level(positions, place, bar, rules)[0])


def _name_columns(rows: Array, columns: type[IntEnum]) -> list[dict[str, float]]:
    """The numbers of each row by the names of its columns, so that a stored state survives another order of them."""
    there = list(columns)[: rows.shape[1]]  # plain bars have fewer than all
    names = [column.name.lower() for column in there]
    return [dict(zip(names, row, strict=True)) for row in rows[:, there].tolist()]


def _row(stored: Any, columns: type[IntEnum]) -> Array:
    """The row that `_name_columns` stored, or that an earlier version stored by position."""
    if isinstance(stored, list):
        return np.array(stored + [0.0] * ((PLAIN if columns is Bar else len(columns)) - len(stored)))
    # Bars of an earlier version have no cost of their own.
    named = {Bar.COST.name.lower(): 0.0, **stored} if columns is Bar else stored
    names = [column.name.lower() for column in columns]
    return np.array([named[name] for name in names if name in named or columns is not Bar])


def last_bars(panel: Panel) -> Array:
    """(time, K, Bar) of the latest bars that the desk reads."""
    return MarketBars.from_panel(panel.rows(max(len(panel) - TAIL_BARS, 0), None)).values
