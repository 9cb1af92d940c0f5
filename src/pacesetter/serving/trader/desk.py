"""The desk: a policy's actions become orders by the kernel's own rule, pass the guard one by one, and go to a broker.

`GuardedPolicy` puts the same desk into a backtest, so that paper trading and a backtest of the same bars are one path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacesetter.envs.batch.batch import ACTIONS
from pacesetter.envs.batch.loops import account_rows, mask_rows
from pacesetter.envs.batch.observation import POSITION_SIZE, PortfolioEntry
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.backtest.backtest import Policy, Seen
from pacesetter.evaluation.backtest.hybrid import hybrid_orders
from pacesetter.market.bars import Bar, MarketBars
from pacesetter.market.ledger import Fill
from pacesetter.market.orders import Discrete, OrderKind
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.state import Account, Position
from pacesetter.panel import Panel
from pacesetter.serving.risk.clusters import clusters
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.jumps import check_jumps
from pacesetter.serving.risk.order import AccountView, Decision, Order, Quote
from pacesetter.serving.trader.brokers import Broker, KernelAccount, PaperBroker, Settlement

__all__ = ["Desk", "GuardedPolicy", "Ticket", "execution_market", "last_bars"]

Array = NDArray[Any]
TAIL_BARS = 61  # of history that a decision of the desk itself reads: 60 returns, and enough to see a delisting
NUDGE = 1.0 + 1e-12  # away from zero: a weight that is to be held must not round to a sale of what is left
WHOLE = 1e9  # a position cap that is off


class Ticket(NamedTuple):
    """What was decided at one close; all arrays are (symbol,).

    actions    as the policy gave them, hybrid ones as the continuous orders that they come to
    signals    as they were acted on: smoothed, looked up, or the weight
    weights    target shares of equity that the broker works towards
    decisions  the guard's answer to each order, exits first
    """

    actions: Array
    signals: Array
    weights: Array
    decisions: tuple[Decision, ...]

    @property
    def orders(self) -> tuple[Order, ...]:
        """Those that may be sent."""
        return tuple(decision.order for decision in self.decisions if decision.allowed)


class Desk:
    """One policy, one guard, one broker, and the orders between them.

    market   what the policy was trained under: sizes, caps, costs. Orders are sized here, under its position cap, so
             the broker executes them in `execution_market`, where that cap is off
    run      begins the client id of every order
    """

    def __init__(
        self,
        policy: Policy,
        guard: Guard,
        symbols: tuple[str, ...],
        market: MarketParameters,
        broker: Broker | None = None,
        run: str = "run",
    ) -> None:
        if policy.action not in ACTIONS:
            raise ConfigError(
                f"policy '{policy.name}' has action '{policy.action}'{did_you_mean(policy.action, ACTIONS)}"
            )
        self.policy, self.guard, self.symbols, self.market, self.run = policy, guard, symbols, market, run
        self.broker = broker or PaperBroker(symbols, execution_market(market))
        self._is_hybrid, self._rules = policy.action == "hybrid", market.packed()
        self._kind = OrderKind.CONTINUOUS if self._is_hybrid else OrderKind(ACTIONS[policy.action])
        self._sizing = KernelAccount(symbols, market, self._kind)
        self._signals, self._weights = np.zeros(len(symbols)), np.zeros(len(symbols))
        self._bar: Array | None = None

    @property
    def equity(self) -> float:
        return float(self.broker.account[Account.EQUITY])

    # ---- a bar ----------------------------------------------------------------------------------------------------

    def settle(self, panel: Panel, bars: Array, now: float) -> Settlement:
        """Let the last of `bars` (time, K, Bar), the panel's, act on the open orders; the first ever opens the books.

        Refuses one beyond `risk.jump_factor`, with nothing changed; a bar that comes alone is held against the books'.
        """
        pair = bars if len(bars) > 1 or self._bar is None else np.stack([self._bar, bars[-1]])
        check_jumps(panel, pair, self.guard.limits.jump_factor)
        if self._bar is None:
            settlement = Settlement()
        else:
            settlement = self.broker.settle(self._bar, bars[-1], self._weights, self.guard.in_flight.values())
        self._bar = bars[-1].copy()
        self.broker.positions[:, Position.SIGNAL] = self._signals  # a weight is not a signal that the policy knows
        for execution in settlement.executions:
            if execution.client_id is not None:
                self.guard.filled(execution.client_id, execution.quantity)
        for client_id in settlement.closed:
            self.guard.done(client_id)
        self.guard.begin_bar(self.equity, now, settlement.stop_outs)
        return settlement

    def drop(self, client_id: str) -> None:
        """An order was never taken: its symbol is left as it is."""
        order = self.guard.in_flight[client_id]
        self.guard.done(client_id)
        k = self.symbols.index(order.symbol)
        self._weights[k] = self._targets(np.zeros(len(self.symbols)))[k]

    def decide(self, seen: Seen, bars: Array, now: float, late_bars: float | Array = 0.0) -> Ticket:
        """Ask the policy at the close of the last of `bars`, and the guard about each order that follows.

        `late_bars` is how far the clock is behind the bar's close, or behind what is known of each symbol.
        """
        decided = np.asarray(self.policy.decide(self._own_view(seen)), dtype=np.float64)
        actions, quantities, self._signals = self._sized(decided)
        view = self._account_view(seen.panel, bars, late_bars)
        orders = self._orders(quantities, f"{self.run}-{seen.panel.index[-1]:%Y%m%dT%H%M%S}")
        decisions = self.guard.check_all(orders, view, now)
        allowed = {decision.order.symbol for decision in decisions if decision.allowed}
        sent = np.array([symbol in allowed for symbol in self.symbols])
        self._weights = self._targets(np.where(sent, quantities, 0.0))
        return Ticket(actions, self._signals.copy(), self._weights.copy(), decisions)

    def account_vector(self) -> Array:
        """The (K · PositionEntry + PortfolioEntry,) float32 account as observations hold it."""
        assert self._bar is not None
        vector = np.empty(len(self.symbols) * POSITION_SIZE + len(PortfolioEntry), np.float32)
        state = (self.broker.account, self.broker.positions, self._bar, self._rules)
        account_rows(vector[None], *(part[None] for part in state))
        return vector

    # ---- across restarts ----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All that the next bar needs, as JSON that restores it bit-exactly."""
        return {
            "policy": self.policy.name,
            "guard": self.guard.to_dict(),
            "account": self.broker.account.tolist(),
            "positions": self.broker.positions.tolist(),
            "signals": self._signals.tolist(),
            "weights": self._weights.tolist(),
            "bar": None if self._bar is None else self._bar.tolist(),
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Restore what `to_dict` gave."""
        self.guard = Guard.from_dict(stored["guard"], self.guard.limits)
        self.broker.restore(np.array(stored["account"]), np.array(stored["positions"]))
        self._signals, self._weights = np.array(stored["signals"]), np.array(stored["weights"])
        self._bar = None if stored["bar"] is None else np.array(stored["bar"])

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _own_view(self, seen: Seen) -> Seen:
        """What the policy sees: the account as these books have it, and the masks of discrete orders."""
        vector, places = self.account_vector(), len(self.symbols) * POSITION_SIZE
        account = {"position": vector[:places].reshape(-1, POSITION_SIZE), "portfolio": vector[places:]}
        masks = self._masks() if self._kind is OrderKind.DISCRETE else None
        return seen._replace(observation={**seen.observation, **account}, masks=masks)

    def _masks(self) -> Array:
        """(symbol, 7) by the environments' own rule."""
        assert self._bar is not None
        masks = np.zeros((1, len(self.symbols) * len(Discrete)), dtype=bool)
        rules, cursor = self._rules[None, None], np.zeros((1, len(Cursor)), dtype=np.int64)
        mask_rows(masks, self._bar[None, None], rules, self.broker.account[None], self.broker.positions[None], cursor)
        return masks.reshape(len(self.symbols), -1)

    def _sized(self, actions: Array) -> tuple[Array, Array, Array]:
        """(symbol,) orders, quantities and signals, by the kernel's own rule; a NaN weight changes nothing."""
        assert self._bar is not None
        if actions.shape != ((len(self.symbols), 2) if self._is_hybrid else (len(self.symbols),)):
            raise ConfigError(
                f"policy '{self.policy.name}' gave {actions.shape} actions for {len(self.symbols)} symbols"
            )
        sizing = self._sizing
        sizing.account[:], sizing.positions[:] = self.broker.account, self.broker.positions
        if self._is_hybrid:
            actions = hybrid_orders(actions, sizing.positions, self._bar[:, Bar.CLOSE], self._rules)
        left = np.isnan(actions) & (self._kind is OrderKind.TARGET)
        sizing.step(self._bar, self._bar, np.where(left, 0.0, actions))  # what it would fill is not looked at
        ordered, signals = sizing.fills[:, Fill.ORDERED], sizing.positions[:, Position.SIGNAL]
        return actions, np.where(left, 0.0, ordered), np.where(left, self._signals, signals)

    def _targets(self, quantities: Array) -> Array:
        """(symbol,) shares of equity after trading `quantities` at the last close, within the range of weights."""
        assert self._bar is not None
        after = self.broker.positions[:, Position.QUANTITY] + quantities
        lowest = -1.0 if self.market.limits.shorting else 0.0
        if self.equity <= 0.0:  # a ruined account holds no share of anything
            return np.zeros(len(after))
        return np.asarray(np.clip(after * self._bar[:, Bar.CLOSE] / self.equity * NUDGE, lowest, 1.0))

    def _orders(self, quantities: Array, begin: str) -> list[Order]:
        """Of each symbol with a quantity, at the last close; `begin` begins the client ids."""
        assert self._bar is not None
        rows = zip(self.symbols, quantities.tolist(), self._bar[:, Bar.CLOSE].tolist(), strict=True)
        return [Order(f"{begin}-{symbol}", symbol, quantity, price) for symbol, quantity, price in rows if quantity]

    def _account_view(self, panel: Panel, bars: Array, late_bars: float | Array) -> AccountView:
        """What the guard is told: prices with their age, and which symbols move as one."""
        mask = panel.mask[-len(bars) :]
        ages = np.where(mask.any(axis=0), mask[::-1].argmax(axis=0), len(bars)) + late_bars
        prices, held = bars[-1, :, Bar.CLOSE], self.broker.positions[:, Position.QUANTITY]
        return AccountView(
            self.equity,
            dict(zip(self.symbols, held.tolist(), strict=True)),
            {s: Quote(*each) for s, *each in zip(self.symbols, prices.tolist(), ages.tolist(), strict=True)},
            clusters(bars[:, :, Bar.CLOSE], self.symbols, self.guard.limits.cluster_correlation),
            float(self.broker.account[Account.PEAK_EQUITY]),
        )


class GuardedPolicy:
    """A policy behind a guard, for `backtest(guarded, panel, market=guarded.market)`.

    It keeps books of its own by the same kernel; refuses a backtest whose account is another than theirs.
    """

    action = "target"

    def __init__(self, policy: Policy, guard: Guard, panel: Panel, market: MarketParameters | None = None) -> None:
        rules = replace(market or MarketParameters(), bars_per_year=panel.bars_per_year)
        self.name, self.market = f"{policy.name} (guarded)", execution_market(rules)
        self.fitted_until = getattr(policy, "fitted_until", None)
        self.desk = Desk(policy, guard, panel.symbols, rules)
        self.tickets: list[Ticket] = []

    def decide(self, seen: Seen) -> Array:
        bars, now = last_bars(seen.panel), seen.panel.index[-1].timestamp()
        self.desk.settle(seen.panel, bars, now)
        ratio = float(seen.observation["portfolio"][PortfolioEntry.EQUITY_RATIO])
        if abs(self.desk.equity / self.market.initial_cash - ratio) > 1e-5:
            raise ConfigError("the backtest uses another market than the guard's books; give it market=guarded.market")
        self.tickets.append(self.desk.decide(seen, bars, now))
        return self.tickets[-1].weights


def execution_market(market: MarketParameters) -> MarketParameters:
    """`market` without cap and band: orders that come here were sized under them, and a holding is left alone."""
    return replace(market, limits=replace(market.limits, position_cap_fraction=WHOLE), band=0.0)


def last_bars(panel: Panel) -> Array:
    """(time, K, Bar) of the latest bars that the desk reads."""
    return MarketBars.from_panel(panel.rows(max(len(panel) - TAIL_BARS, 0), None)).values
