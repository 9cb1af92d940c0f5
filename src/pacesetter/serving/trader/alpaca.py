"""Alpaca's paper account as a broker, through alpaca-py."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, RunError, needs
from pacesetter.market.kernel import follow_best_price
from pacesetter.market.state import Account, Position
from pacesetter.serving.risk.order import LIMIT, Order
from pacesetter.serving.trader.brokers import FINAL_STATUSES, Execution, OrderStatus, Settlement

__all__ = ["AlpacaBroker"]

Array = NDArray[Any]
CENTS = 2  # digits of a price that the exchanges take
KEYS = ("ALPACA_API_KEY", "ALPACA_SECRET_KEY")
WORDS = {  # the service's for ours
    "filled": OrderStatus.FILLED,
    "canceled": OrderStatus.CANCELLED,
    "expired": OrderStatus.CANCELLED,
    "done_for_day": OrderStatus.CANCELLED,
    "rejected": OrderStatus.REJECTED,
}

log = logging.getLogger("pacesetter.brokers")


class AlpacaBroker:
    """Market orders for the day; keys come from the environment and are stored nowhere."""

    def __init__(self, symbols: Sequence[str], client: Any = None) -> None:
        self._symbols, self._client = tuple(symbols), client or _alpaca_client()
        self._paid: dict[str, float] = {}  # client id -> for what was traded of an order so far, while it is open
        self.account, self.positions = np.zeros(len(Account)), np.zeros((len(symbols), len(Position)))
        with _answered("account"):
            self._read_account()

    def settle(self, now: Array, bar: Array, orders: Iterable[Order]) -> Settlement:
        try:
            # Orders before the account: a fill in between shows in the positions now, and in its order at the next bar.
            looked_up = [(order, self._look(order.client_id)) for order in orders]
            self._read_account()
        except ConfigError:
            raise
        except Exception as problem:  # whatever the network does; the orders stay in flight
            log.warning("Alpaca does not answer (%s); no entries until it does", type(problem).__name__)
            return Settlement(is_known=False)
        for k in np.flatnonzero(self.positions[:, Position.QUANTITY]).tolist():
            self.positions[k, Position.BARS_HELD] += 1.0
            follow_best_price(self.positions, k, bar)
        fills = [self._new_fill(order, at) for order, at in looked_up if at is not None]
        closed = {order.client_id: status for order, at in looked_up if (status := self._status(at)) in FINAL_STATUSES}
        for client_id in closed:
            self._paid.pop(client_id, None)
        return Settlement(tuple(filter(None, fills)), closed)

    def submit(self, order: Order) -> OrderStatus:
        requests, enums = import_module("alpaca.trading.requests"), import_module("alpaca.trading.enums")
        options: dict[str, Any] = {
            "symbol": order.symbol,
            "qty": abs(order.quantity),
            "side": enums.OrderSide.BUY if order.quantity > 0 else enums.OrderSide.SELL,
            "time_in_force": enums.TimeInForce.DAY,
            "client_order_id": order.client_id,
        }
        if order.kind == LIMIT:
            request = requests.LimitOrderRequest(limit_price=round(order.price, CENTS), **options)
        else:
            request = requests.MarketOrderRequest(**options)
        try:
            self._client.submit_order(request)
        except Exception as problem:  # only an answer of the service is a rejection; all else may have arrived
            return OrderStatus.REJECTED if _is_refusal(problem) else OrderStatus.UNKNOWN
        return OrderStatus.SENT

    def find(self, client_id: str) -> OrderStatus:
        try:
            reported = self._look(client_id)
        except Exception:  # as above
            return OrderStatus.UNKNOWN
        return OrderStatus.PENDING if reported is None else self._status(reported)

    def cancel_all(self) -> None:
        with _answered("cancel"):
            self._client.cancel_orders()

    def restore(self, account: Array, positions: Array) -> None:
        self.account[Account.PEAK_EQUITY] = max(self.account[Account.PEAK_EQUITY], account[Account.PEAK_EQUITY])
        self.positions[:, Position.SIGNAL] = positions[:, Position.SIGNAL]
        is_same = self.positions[:, Position.QUANTITY] * positions[:, Position.QUANTITY] > 0.0  # side, as back then
        for column in (Position.BEST_PRICE, Position.BARS_HELD):
            self.positions[is_same, column] = positions[is_same, column]

    def _look(self, client_id: str) -> Any:
        """The service's order of that id; None where it never arrived."""
        try:
            return self._client.get_order_by_client_id(client_id)
        except Exception as problem:
            if getattr(problem, "status_code", None) == 404:
                return None
            raise

    def _status(self, reported: Any) -> OrderStatus:
        """Ours for the service's word; what never arrived counts as cancelled."""
        return OrderStatus.CANCELLED if reported is None else WORDS.get(_word(reported.status), OrderStatus.SENT)

    def _read_account(self) -> None:
        """Take over cash, equity and positions as the service has them."""
        reported = self._client.get_account()
        equity = float(reported.equity)
        self.account[Account.CASH], self.account[Account.EQUITY] = float(reported.cash), equity
        self.account[Account.PEAK_EQUITY] = max(self.account[Account.PEAK_EQUITY], equity)
        held = {position.symbol: position for position in self._client.get_all_positions()}
        unknown = sorted(set(held) - set(self._symbols))
        if unknown:
            raise ConfigError(f"the account at Alpaca holds {unknown[0]}, which is not traded here; close it first")
        for k, symbol in enumerate(self._symbols):
            row = self.positions[k]
            if symbol not in held:
                row[:] = 0.0
                continue
            quantity, entry = float(held[symbol].qty), float(held[symbol].avg_entry_price)
            # The service knows neither best price nor bars held; they are ours to keep as long as the side is the same.
            if row[Position.QUANTITY] * quantity <= 0.0:  # another position than before
                row[Position.BEST_PRICE], row[Position.BARS_HELD] = entry, 0.0
            row[Position.QUANTITY], row[Position.ENTRY_PRICE] = quantity, entry

    def _new_fill(self, order: Order, reported: Any) -> Execution | None:
        """What was traded of an order since `order.quantity` was left of it, at its own price.

        The service reports the mean price of all fills; earlier fills are known unless this process is new.
        """
        filled = float(reported.filled_qty or 0.0)
        left = float(reported.qty) - filled
        # `order` holds what was open when it was last looked at, so this is what was traded since.
        new = order.quantity - (left if order.quantity > 0 else -left)
        if not new:
            return None
        mean = float(reported.filled_avg_price)
        before = self._paid.get(order.client_id, mean * (filled - abs(new)))
        self._paid[order.client_id] = mean * filled
        return Execution(order.client_id, order.symbol, new, (mean * filled - before) / abs(new), 0.0, "order")


@contextmanager
def _answered(what: str) -> Iterator[None]:
    """Raise `RunError` where a request to the service fails."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as problem:  # whatever the network does
        raise RunError(
            f"Alpaca {what} request failed ({type(problem).__name__}); check the network, the keys and the account"
        ) from problem


def _alpaca_client() -> Any:
    keys = [os.environ.get(variable, "") for variable in KEYS]
    if not all(keys):
        raise ConfigError(f"broker=alpaca needs its keys in the environment: set {' and '.join(KEYS)}")
    with needs("broker=alpaca", "online"):
        client = import_module("alpaca.trading.client")
    return client.TradingClient(*keys, paper=True)


def _word(status: Any) -> str:
    return str(getattr(status, "value", status))


def _is_refusal(problem: Exception) -> bool:
    """Whether the service itself answered that it will not take the order (4xx, but neither time-out nor rate)."""
    code = getattr(problem, "status_code", None)
    return isinstance(code, int) and 400 <= code < 500 and code not in (408, 429)
