"""The broker in this process: the market kernel itself fills the orders in the next bar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pacesetter.arrays import Array
from pacesetter.market.account_bars import apply_market
from pacesetter.market.bars import PLAIN, Bar, MarketBars
from pacesetter.market.batch import Accounts
from pacesetter.market.holdings import begin_with
from pacesetter.market.ledger import Fill, Flag
from pacesetter.market.orders import OrderKind
from pacesetter.market.parameters import MarketParameters
from pacesetter.serving.risk.order import LIMIT, Order
from pacesetter.serving.trader.broker import (
    Broker,
    BrokerOptions,
    Execution,
    OrderStatus,
    Settlement,
    Span,
)

__all__ = ["STOPS", "KernelAccount", "PaperBroker", "PaperOptions", "exit_reason"]

STOPS = Flag.STOP_LOSS | Flag.TRAILING_STOP
EXITS = (Flag.STOP_LOSS, Flag.TRAILING_STOP, Flag.TAKE_PROFIT, Flag.LIQUIDATED, Flag.DELISTED)


@dataclass(frozen=True)
class PaperOptions(BrokerOptions):
    """The paper broker has no options: costs, cash and exits are the policy's own market."""

    @property
    def is_local(self) -> bool:
        return True

    def open(self, symbols: Sequence[str], market: MarketParameters) -> Broker:
        return PaperBroker(symbols, market)


class KernelAccount:
    """One account of all symbols in the kernel, a bar at a time; the arrays are views of what it writes."""

    def __init__(self, symbols: Sequence[str], market: MarketParameters, kind: OrderKind) -> None:
        bars = MarketBars(np.zeros((2, len(symbols), PLAIN)), tuple(symbols), has_volume=True)
        # What the market asks of bars is applied to each that comes.
        plain = replace(market, lot=None, tick=None, prices="adjusted", dividends=False, splits=False)
        self._accounts = Accounts(bars, plain, kind=kind)
        self._symbols, self._market = tuple(symbols), market
        self.account, self.positions = self._accounts.accounts[0], self._accounts.positions[0]
        self.fills = self._accounts.fills[0]

    def step(self, now: Array, bar: Array, actions: Array) -> int:
        """Decide `actions` (K,) at the close of `now` (K, Bar) and fill them in `bar`; gives the joined flags."""
        accounts = self._accounts
        # The kernel steps over a market of two bars, which are exchanged.
        accounts.bars, accounts.times[0] = apply_market(np.stack([now, bar]), self._symbols, self._market), 0
        return int(accounts.step(actions[None])[0])


class PaperBroker(Broker):
    """The kernel as a broker: orders fill in the next bar, under `market`."""

    cuts_openings = True

    def __init__(self, symbols: Sequence[str], market: MarketParameters) -> None:
        self._kernel, self._symbols = KernelAccount(symbols, market, OrderKind.QUANTITY), tuple(symbols)
        self._market = market
        self.account, self.positions = self._kernel.account, self._kernel.positions

    def begin(self, bar: Array) -> Settlement:
        """Open the books at the close of the first bar (K, Bar) with the market's starting holdings."""
        held = begin_with(self._market, self._symbols, bar[:, Bar.CLOSE], self.account, self.positions)
        return Settlement(tuple(Execution(None, *each, 0.0, "starting holding") for each in held))

    def settle(self, now: Array, bar: Array, orders: Iterable[Order], span: Span) -> Settlement:
        open_orders = {order.symbol: order for order in orders}
        opens = dict(zip(self._symbols, bar[:, Bar.OPEN].tolist(), strict=True))
        ids = {symbol: order.client_id for symbol, order in open_orders.items()}
        quantities = [_fillable(open_orders.get(symbol), opens[symbol]) for symbol in self._symbols]
        is_over = bool(self._kernel.step(now, bar, np.array(quantities)) & Flag.TERMINATED)
        rows = self._kernel.fills
        traded = np.flatnonzero((rows[:, Fill.QUANTITY] != 0.0) | (rows[:, Fill.EXIT_QUANTITY] != 0.0)).tolist()
        fills = [fill for k in traded for fill in _fills(self._symbols[k], rows[k], ids)]
        filled = {fill.client_id for fill in fills}
        # What a bar does not fill is gone after it, in the backtest's market too.
        closed = {each: OrderStatus.FILLED if each in filled else OrderStatus.CANCELLED for each in ids.values()}
        stop_outs = int(np.count_nonzero(rows[:, Fill.FLAGS].astype(np.int64) & STOPS))
        return Settlement(tuple(fills), closed, stop_outs, is_over)

    def submit(self, order: Order) -> OrderStatus:
        self.check_kind(order)
        return OrderStatus.SENT

    def find(self, order: Order) -> OrderStatus:
        return OrderStatus.PENDING

    def open_orders(self) -> tuple[str, ...]:
        return ()

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
        fills.append(Execution(None, symbol, leaving[0], leaving[1], leaving[2], exit_reason(flags)))
    return fills


def exit_reason(flags: int) -> str:
    """Which exit the flags of a position name, in words."""
    return next(str(flag.name).lower().replace("_", " ") for flag in EXITS if flags & flag)
