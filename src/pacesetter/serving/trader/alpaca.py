"""Alpaca as a venue, through alpaca-py; its paper account unless real money is asked for."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from importlib import import_module
from typing import Any

from pacesetter.errors import ConfigError, RunError, needs
from pacesetter.market.parameters import MarketParameters
from pacesetter.serving.risk.order import LIMIT, MARKET, STOP, Order
from pacesetter.serving.trader.broker import Broker, OrderStatus
from pacesetter.serving.trader.venue import (
    NoAnswerError,
    OpenOrder,
    RefusedError,
    Venue,
    VenueAccount,
    VenueOptions,
    VenueOrder,
)

__all__ = ["AlpacaBroker", "AlpacaOptions"]

TIMEOUT_SECONDS = 5.0  # of every request: until it is connected, and between two parts of the answer
MOST_REQUESTS, PER_SECONDS = 190, 60.0  # Alpaca refuses from 200 a minute on
MOST_OPEN = 500  # orders that one answer lists
KEYS = ("ALPACA_API_KEY", "ALPACA_SECRET_KEY")
FRACTION, WHOLE = Decimal("1e-9"), Decimal(1)  # steps of a quantity
CENT, SMALL = Decimal("0.01"), Decimal("0.0001")  # steps of a price, from a dollar on and below
LEAST_DOLLARS = 1.0  # of an order in a fraction of a share
WORDS = {  # the service's for ours
    "filled": OrderStatus.FILLED,
    "canceled": OrderStatus.CANCELLED,
    "expired": OrderStatus.CANCELLED,
    "done_for_day": OrderStatus.CANCELLED,
    "replaced": OrderStatus.CANCELLED,
    "rejected": OrderStatus.REJECTED,
}


@dataclass(frozen=True)
class AlpacaOptions(VenueOptions):
    """Alpaca has no options of its own; keys come from ALPACA_API_KEY and ALPACA_SECRET_KEY alone."""

    def check(self) -> None:
        _alpaca_client(self.live)

    def open(self, symbols: Sequence[str], market: MarketParameters) -> Broker:
        return AlpacaBroker(symbols, options=self)


class AlpacaBroker(Venue):
    """Market, limit and stop orders for the day; keys come from the environment and are stored nowhere."""

    takes_stops = True

    def __init__(self, symbols: Sequence[str], client: Any = None, options: AlpacaOptions | None = None) -> None:
        options = options or AlpacaOptions()
        self.name, self.notional_cap = f"Alpaca{' with REAL MONEY' if options.live else ''}", options.cap
        self._client = client or _alpaca_client(options.live)
        _limit(self._client)
        super().__init__(symbols)
        self._in_fractions = frozenset(symbol for symbol in symbols if self._is_fractionable(symbol))

    def place(self, order: Order) -> None:
        requests, enums = import_module("alpaca.trading.requests"), import_module("alpaca.trading.enums")
        options: dict[str, Any] = {
            "symbol": order.symbol,
            "qty": abs(order.quantity),
            "side": enums.OrderSide.BUY if order.quantity > 0 else enums.OrderSide.SELL,
            "time_in_force": enums.TimeInForce.DAY,
            "client_order_id": order.client_id,
        }
        if order.kind == LIMIT:
            request = requests.LimitOrderRequest(limit_price=order.price, **options)
        elif order.kind == STOP:
            request = requests.StopOrderRequest(stop_price=order.price, **options)
        else:
            request = requests.MarketOrderRequest(**options)
        with _translate_errors():
            self._client.submit_order(request)

    def find_order(self, order: Order) -> VenueOrder | None:
        with _translate_errors():
            try:
                reported = self._client.get_order_by_client_id(order.client_id)
            except Exception as problem:
                if getattr(problem, "status_code", None) == 404:
                    return None
                raise
            if reported.client_order_id != order.client_id or reported.symbol != order.symbol:
                raise NoAnswerError(f"an answer about {reported.client_order_id} instead of {order.client_id}")
            word = str(getattr(reported.status, "value", reported.status))
            sizes = (reported.qty, reported.filled_qty, reported.filled_avg_price)
            quantity, filled, price = (float(number or 0.0) for number in sizes)
            return VenueOrder(str(reported.id), WORDS.get(word, OrderStatus.SENT), quantity, filled, price)

    def cancel(self, order: Order, reported: VenueOrder) -> None:
        with _translate_errors():
            self._client.cancel_order_by_id(reported.key)

    def cancel_everything(self) -> None:
        with _translate_errors():
            self._client.cancel_orders()

    def list_open(self) -> list[OpenOrder]:
        requests, enums = import_module("alpaca.trading.requests"), import_module("alpaca.trading.enums")
        request = requests.GetOrdersRequest(
            status=enums.QueryOrderStatus.OPEN, symbols=list(self._symbols), limit=MOST_OPEN
        )
        with _translate_errors():
            listed = self._client.get_orders(request)
            ours = [each for each in listed if each.symbol in self._symbols]
            return [OpenOrder(each.client_order_id, each.symbol, _remaining_size(each)) for each in ours]

    def read_account(self, prices: Mapping[str, float]) -> VenueAccount:
        with _translate_errors():
            account, held = self._client.get_account(), self._client.get_all_positions()
            holdings = {each.symbol: (float(each.qty), float(each.avg_entry_price)) for each in held}
            return VenueAccount(float(account.cash), float(account.equity), holdings)

    def fit_order(self, order: Order, held: float) -> Order | str:
        is_short = order.quantity < 0 and held <= 0  # which Alpaca takes in whole shares only
        step = FRACTION if order.symbol in self._in_fractions and not is_short else WHOLE
        # First to twelve digits, where the rounding of sums disappears: 10.999999999999998 is 11.
        size = float(Decimal(f"{abs(order.quantity):.12f}").quantize(step, ROUND_DOWN))
        price = order.price
        if order.kind != MARKET:
            price = float(Decimal(f"{price:.12f}").quantize(CENT if price >= 1.0 else SMALL))
        is_whole_exit = size == abs(held) and held * order.quantity < 0.0
        if size == 0.0 or (size % 1.0 and size * price < LEAST_DOLLARS and not is_whole_exit):
            least = "a share" if step == WHOLE else f"{LEAST_DOLLARS:g} dollar"
            return (
                f"an order of {abs(order.quantity):.8g} '{order.symbol}' ({abs(order.quantity) * price:.2f} dollars) "
                f"is below the minimum of Alpaca, {least}"
            )
        return replace(order, quantity=size if order.quantity > 0 else -size, price=price)

    def _is_fractionable(self, symbol: str) -> bool:
        try:
            with _translate_errors():
                asset = self._client.get_asset(symbol)
        except RefusedError as problem:
            raise ConfigError(f"Alpaca has no '{symbol}' to trade ({problem}); give data.symbols=[…]") from problem
        except NoAnswerError as problem:
            raise RunError(f"Alpaca asset request failed ({problem}); check the network, then start again") from problem
        if not asset.tradable:
            raise ConfigError(f"'{symbol}' cannot be traded at Alpaca now; give data.symbols=[…] without it")
        return bool(asset.fractionable)


def _remaining_size(order: Any) -> float:
    """What is left of an order, signed."""
    left = float(order.qty or 0.0) - float(order.filled_qty or 0.0)
    return left if str(getattr(order.side, "value", order.side)) == "buy" else -left


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise `RefusedError` where the service itself says no: 4xx, neither time-out nor rate; else `NoAnswerError`."""
    try:
        yield
    except NoAnswerError:
        raise
    except Exception as problem:  # whatever the network does, and answers that cannot be read
        code = getattr(problem, "status_code", None)
        if isinstance(code, int) and 400 <= code < 500 and code not in (408, 429):
            raise RefusedError(f"{type(problem).__name__} {code}") from problem
        raise NoAnswerError(type(problem).__name__ + (f" {code}" if code else "")) from problem


def _alpaca_client(is_live: bool) -> Any:
    keys = [os.environ.get(variable, "") for variable in KEYS]
    if not all(keys):
        raise ConfigError(f"broker=alpaca needs its keys in the environment: set {' and '.join(KEYS)}")
    with needs("broker=alpaca", "online"):
        client = import_module("alpaca.trading.client")
    return client.TradingClient(*keys, paper=not is_live)


def _limit(client: Any) -> None:
    """Give every request of a client a time limit, and none a second try: a POST that is repeated may double.

    Requests wait where they would be too many: one that is refused for that is an order without an answer.
    """
    adapters = import_module("requests.adapters")
    sent: deque[float] = deque(maxlen=MOST_REQUESTS)

    class Limited(adapters.HTTPAdapter):  # type: ignore[misc,name-defined]
        def send(self, request: Any, **options: Any) -> Any:
            if len(sent) == MOST_REQUESTS:
                time.sleep(max(sent[0] + PER_SECONDS - time.monotonic(), 0.0))
            sent.append(time.monotonic())
            return super().send(request, **{**options, "timeout": options.get("timeout") or TIMEOUT_SECONDS})

    # alpaca-py has no options for either; without these names it must not be used, so a missing one is an error.
    assert client._retry is not None
    client._retry = 0
    for scheme in ("https://", "http://"):
        client._session.mount(scheme, Limited())
