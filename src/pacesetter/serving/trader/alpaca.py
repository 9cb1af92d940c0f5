"""Alpaca's paper account as a venue, through alpaca-py."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from importlib import import_module
from typing import Any

from pacesetter.errors import ConfigError, RunError, needs
from pacesetter.serving.risk.order import LIMIT, Order
from pacesetter.serving.trader.brokers import (
    NoAnswerError,
    OrderStatus,
    RefusedError,
    Venue,
    VenueAccount,
    VenueOrder,
)

__all__ = ["AlpacaBroker"]

TIMEOUT_SECONDS = 5.0  # of every request: until it is connected, and between two parts of the answer
KEYS = ("ALPACA_API_KEY", "ALPACA_SECRET_KEY")
FRACTION, WHOLE = Decimal("1e-9"), Decimal(1)  # steps of a quantity
CENT, SMALL = Decimal("0.01"), Decimal("0.0001")  # steps of a price, from a dollar on and below
WORDS = {  # the service's for ours
    "filled": OrderStatus.FILLED,
    "canceled": OrderStatus.CANCELLED,
    "expired": OrderStatus.CANCELLED,
    "done_for_day": OrderStatus.CANCELLED,
    "replaced": OrderStatus.CANCELLED,
    "rejected": OrderStatus.REJECTED,
}


class AlpacaBroker(Venue):
    """Market and limit orders for the day; keys come from the environment and are stored nowhere."""

    name = "Alpaca"

    def __init__(self, symbols: Sequence[str], client: Any = None) -> None:
        self._client = client or _alpaca_client()
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
        else:
            request = requests.MarketOrderRequest(**options)
        with _translate_errors():
            self._client.submit_order(request)

    def find_order(self, client_id: str) -> VenueOrder | None:
        with _translate_errors():
            try:
                reported = self._client.get_order_by_client_id(client_id)
            except Exception as problem:
                if getattr(problem, "status_code", None) == 404:
                    return None
                raise
            word = str(getattr(reported.status, "value", reported.status))
            sizes = (float(number or 0.0) for number in (reported.qty, reported.filled_qty, reported.filled_avg_price))
            return VenueOrder(str(reported.id), WORDS.get(word, OrderStatus.SENT), *sizes)

    def cancel(self, order: VenueOrder) -> None:
        with _translate_errors():
            self._client.cancel_order_by_id(order.key)

    def cancel_everything(self) -> None:
        with _translate_errors():
            self._client.cancel_orders()

    def read_account(self) -> VenueAccount:
        with _translate_errors():
            account, held = self._client.get_account(), self._client.get_all_positions()
            holdings = {each.symbol: (float(each.qty), float(each.avg_entry_price)) for each in held}
            return VenueAccount(float(account.cash), float(account.equity), holdings)

    def round_order(self, order: Order, held: float) -> Order:
        is_short = order.quantity < 0 and held <= 0  # which Alpaca takes in whole shares only
        step = FRACTION if order.symbol in self._in_fractions and not is_short else WHOLE
        # First to twelve digits, where the rounding of sums disappears: 10.999999999999998 is 11.
        size = float(Decimal(f"{abs(order.quantity):.12f}").quantize(step, ROUND_DOWN))
        price = order.price
        if order.kind == LIMIT:
            price = float(Decimal(f"{price:.12f}").quantize(CENT if price >= 1.0 else SMALL))
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


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise `RefusedError` where the service itself says no: 4xx, neither time-out nor rate; else `NoAnswerError`."""
    try:
        yield
    except Exception as problem:  # whatever the network does, and answers that cannot be read
        code = getattr(problem, "status_code", None)
        if isinstance(code, int) and 400 <= code < 500 and code not in (408, 429):
            raise RefusedError(f"{type(problem).__name__} {code}") from problem
        raise NoAnswerError(type(problem).__name__ + (f" {code}" if code else "")) from problem


def _alpaca_client() -> Any:
    keys = [os.environ.get(variable, "") for variable in KEYS]
    if not all(keys):
        raise ConfigError(f"broker=alpaca needs its keys in the environment: set {' and '.join(KEYS)}")
    with needs("broker=alpaca", "online"):
        client = import_module("alpaca.trading.client")
    return client.TradingClient(*keys, paper=True)


def _limit(client: Any) -> None:
    """Give every request of a client a time limit, and none a second try: a POST that is repeated may double."""
    adapters = import_module("requests.adapters")

    class Limited(adapters.HTTPAdapter):  # type: ignore[misc,name-defined]
        def send(self, request: Any, **options: Any) -> Any:
            return super().send(request, **{**options, "timeout": options.get("timeout") or TIMEOUT_SECONDS})

    # alpaca-py has no options for either; without these names it must not be used, so a missing one is an error.
    assert client._retry is not None
    client._retry = 0
    for scheme in ("https://", "http://"):
        client._session.mount(scheme, Limited())
