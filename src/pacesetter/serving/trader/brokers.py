"""Brokers fill orders. The one here is the market kernel itself; that of a service is in `alpaca`.

A broker that cannot be reached leaves an order UNKNOWN, never rejected: it may have arrived. `find` settles that later,
by the client id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pacesetter.market.bars import Bar, MarketBars
from pacesetter.market.batch import Accounts
from pacesetter.market.holdings import begin_with
from pacesetter.market.ledger import Fill, Flag
from pacesetter.market.orders import OrderKind
from pacesetter.market.parameters import MarketParameters
from pacesetter.serving.risk.order import LIMIT, Order

__all__ = ["FINAL_STATUSES", "Broker", "Execution", "KernelAccount", "OrderStatus", "PaperBroker", "Settlement"]

Array = NDArray[Any]
STOPS = Flag.STOP_LOSS | Flag.TRAILING_STOP
EXITS = (Flag.STOP_LOSS, Flag.TRAILING_STOP, Flag.TAKE_PROFIT, Flag.DELISTED)


class OrderStatus(StrEnum):
    """Where an order stands; the last four are final."""

    PENDING = "pending"  # journalled, not sent yet
    SENT = "sent"
    UNKNOWN = "unknown"  # sent, and no answer came
    FILLED = "filled"  # all of it, or what the bar allowed
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    DENIED = "denied"  # by the risk guard


FINAL_STATUSES = (OrderStatus.FILLED, OrderStatus.CANCELLED, OrderStatus.REJECTED)


class Execution(NamedTuple):
    """One fill. `client_id` is that of its order; a stop or limit that acts by itself has none."""

    client_id: str | None
    symbol: str
    quantity: float
    price: float
    commission: float
    reason: str


class Settlement(NamedTuple):
    """What became of orders in a bar.

    closed      client id -> final status        stop_outs   positions that a stop closed
    is_over     the account was ruined or liquidated
    is_known    False where the broker could not be asked, so that the account may be another by now
    """

    executions: tuple[Execution, ...] = ()
    closed: Mapping[str, OrderStatus] = {}
    stop_outs: int = 0
    is_over: bool = False
    is_known: bool = True


class Broker(Protocol):
    """account (Account,) and positions (K, Position) are those of the last settlement."""

    account: Array
    positions: Array

    def settle(self, now: Array, bar: Array, orders: Iterable[Order]) -> Settlement:
        """Let the bar (K, Bar) after `now` act on the open part of `orders`, one per symbol."""
        ...

    def submit(self, order: Order) -> OrderStatus:
        """Send an order once: SENT, REJECTED or UNKNOWN; the same client id is never traded twice."""
        ...

    def find(self, client_id: str) -> OrderStatus:
        """Where an order of that id stands; PENDING where it never arrived, UNKNOWN where no answer comes."""
        ...

    def cancel_all(self) -> None:
        """Cancel what is open."""
        ...

    def restore(self, account: Array, positions: Array) -> None:
        """Resume from stored rows; a broker with books of its own takes only what those lack."""
        ...


class KernelAccount:
    """One account of all symbols in the kernel, a bar at a time; the arrays are views of what it writes."""

    def __init__(self, symbols: Sequence[str], market: MarketParameters, kind: OrderKind) -> None:
        bars = MarketBars(np.zeros((2, len(symbols), len(Bar))), tuple(symbols), has_volume=True)
        self._accounts = Accounts(bars, market, kind=kind)
        self._own_costs = market.costs.own_fractions(symbols)
        self.account, self.positions = self._accounts.accounts[0], self._accounts.positions[0]
        self.fills = self._accounts.fills[0]

    def step(self, now: Array, bar: Array, actions: Array) -> int:
        """Decide `actions` (K,) at the close of `now` (K, Bar) and fill them in `bar`; gives the joined flags."""
        accounts = self._accounts
        # The kernel steps over a market of two bars, whose content is exchanged.
        accounts.bars[0], accounts.bars[1], accounts.times[0] = now, bar, 0
        accounts.bars[..., Bar.COST] = self._own_costs
        return int(accounts.step(actions[None])[0])


class PaperBroker:
    """The kernel as a broker: orders fill in the next bar, under `market`."""

    def __init__(self, symbols: Sequence[str], market: MarketParameters) -> None:
        self._kernel, self._symbols = KernelAccount(symbols, market, OrderKind.QUANTITY), tuple(symbols)
        self._market = market
        self.account, self.positions = self._kernel.account, self._kernel.positions

    def begin(self, bar: Array) -> Settlement:
        """Open the books at the close of the first bar (K, Bar) with the market's starting holdings."""
        held = begin_with(self._market, self._symbols, bar[:, Bar.CLOSE], self.account, self.positions)
        return Settlement(tuple(Execution(None, *each, 0.0, "starting holding") for each in held))

    def settle(self, now: Array, bar: Array, orders: Iterable[Order]) -> Settlement:
        open_orders = {order.symbol: order for order in orders}
        opens = dict(zip(self._symbols, bar[:, Bar.OPEN].tolist(), strict=True))
        ids = {symbol: order.client_id for symbol, order in open_orders.items()}
        quantities = [_fillable(open_orders.get(symbol), opens[symbol]) for symbol in self._symbols]
        is_over = bool(self._kernel.step(now, bar, np.array(quantities)) & Flag.TERMINATED)
        rows = self._kernel.fills
        fills = [fill for k, row in enumerate(rows) for fill in _fills(self._symbols[k], row, ids)]
        filled = {fill.client_id for fill in fills}
        # What a bar does not fill is gone after it, in the backtest's market too.
        closed = {each: OrderStatus.FILLED if each in filled else OrderStatus.CANCELLED for each in ids.values()}
        stop_outs = int(sum(int(row[Fill.FLAGS]) & STOPS != 0 for row in rows))
        return Settlement(tuple(fills), closed, stop_outs, is_over)

    def submit(self, order: Order) -> OrderStatus:
        return OrderStatus.SENT

    def find(self, client_id: str) -> OrderStatus:
        return OrderStatus.PENDING

    def cancel_all(self) -> None:
        """Nothing rests here: what the bar does not fill is cancelled by the kernel."""

    def restore(self, account: Array, positions: Array) -> None:
        self.account[:], self.positions[:] = account, positions


def _fillable(order: Order | None, price: float) -> float:
    """What the bar that opens at `price` may fill of an order; a limit order only where that is its limit or better.

    The kernel fills at the open alone, so a limit that the bar reaches later is not filled: rather too few than at
    prices that no order had.
    """
    if order is None:
        return 0.0
    is_worse = (price - order.price) * order.quantity > 0
    return 0.0 if order.kind == LIMIT and is_worse else order.quantity


def _fills(symbol: str, row: Array, ids: Mapping[str, str]) -> list[Execution]:
    """The order's own fill and the exit inside the bar, from a row (Fill,), where there were any."""
    quantity, price, commission, *leaving = row[Fill.QUANTITY : Fill.FLAGS].tolist()
    flags, own, fills = int(row[Fill.FLAGS]), ids.get(symbol), []
    if quantity:
        fills.append(Execution(own, symbol, quantity, price, commission, "order" if own else "loss limit"))
    if leaving[0]:
        reason = next(flag.name.lower().replace("_", " ") for flag in EXITS if flags & flag)
        fills.append(Execution(None, symbol, leaving[0], leaving[1], leaving[2], reason))
    return fills
