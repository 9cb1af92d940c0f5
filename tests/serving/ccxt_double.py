"""What the tests have in ccxt's place where it is not installed: its errors, and its Binance client as far as we ask.

It talks to `exchange.BinanceExchange` over HTTP and gives answers as ccxt does. `library(url)` is ccxt itself where it
is there, with every client pointed to the URL.
"""

# ruff: noqa: N818  # errors are named as ccxt names them
from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import requests

__all__ = ["double", "is_ccxt_there", "real"]


class BaseError(Exception):
    """Of all."""


class OperationFailed(BaseError):
    """It is not known what happened."""


class NetworkError(OperationFailed): ...


class RequestTimeout(NetworkError): ...


class ExchangeNotAvailable(NetworkError): ...


class DDoSProtection(NetworkError): ...


class InvalidNonce(NetworkError): ...


class BadResponse(OperationFailed): ...


class ExchangeError(BaseError):
    """The exchange says no."""


class NotSupported(ExchangeError): ...


class InsufficientFunds(ExchangeError): ...


class InvalidOrder(ExchangeError): ...


class OrderNotFound(InvalidOrder): ...


class OperationRejected(ExchangeError): ...


CODES = {
    -1021: InvalidNonce,
    -2010: InsufficientFunds,
    -2011: OrderNotFound,
    -2013: OrderNotFound,
    -1013: InvalidOrder,
    -2022: OperationRejected,
}
STATUSES = {"NEW": "open", "PARTIALLY_FILLED": "open", "PENDING_CANCEL": "canceling", "FILLED": "closed"}


class binance:  # noqa: N801  # as ccxt names it
    """Binance, spot or linear, as ccxt's own class behaves."""

    id = "binance"
    url = ""  # set for a test

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings, self.apiKey, self.secret = settings, "", ""
        self.urls = {"api": {}, "test": {}, "demo": {}}
        self.has = {"fetchFundingHistory": True, "fetchTime": True}
        self.requiredCredentials = {"apiKey": True, "secret": True, "password": False}
        self.markets: dict[str, Any] = {}
        self.is_linear = settings.get("options", {}).get("defaultType") == "swap"
        self.mode, self._difference, self._session = "live", 0, requests.Session()

    def set_sandbox_mode(self, enabled: bool) -> None:
        self.mode = "sandbox"

    def enable_demo_trading(self, enabled: bool) -> None:
        self.mode = "demo"

    def parse_json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return None

    # ---- requests -------------------------------------------------------------------------------------------------

    def _ask(self, method: str, spot: str, linear: str = "", **asked: Any) -> Any:
        path = (linear or spot.replace("/api/v3", "/fapi/v1")) if self.is_linear else spot
        asked["timestamp"] = int(time.time() * 1000) - self._difference
        kind = "data" if method == "POST" else "params"
        try:
            answer = self._session.request(
                method, self.url + path, timeout=self.settings.get("timeout", 10_000) / 1000, **{kind: asked}
            )
        except requests.Timeout as problem:
            raise RequestTimeout(f"{self.id} {method}") from problem
        except requests.RequestException as problem:
            raise NetworkError(f"{self.id} {method}") from problem
        return _content(answer, self.parse_json)

    def load_time_difference(self) -> int:
        now = int(time.time() * 1000)
        self._difference = now - self._ask("GET", "/api/v3/time")["serverTime"]
        return self._difference

    def load_markets(self) -> dict[str, Any]:
        if self.settings.get("options", {}).get("adjustForTimeDifference"):
            self.load_time_difference()
        rows = self._ask("GET", "/api/v3/exchangeInfo")["symbols"]
        self.markets = {(made := self._market(row))["symbol"]: made for row in rows}
        return self.markets

    def _market(self, row: Mapping[str, Any]) -> dict[str, Any]:
        filters = {each["filterType"]: each for each in row["filters"]}
        cost = filters.get("NOTIONAL", filters.get("MIN_NOTIONAL"))
        symbol = f"{row['baseAsset']}/{row['quoteAsset']}" + (f":{row['marginAsset']}" if self.is_linear else "")
        least = {"min": float(filters["LOT_SIZE"]["minQty"]), "max": float(filters["LOT_SIZE"]["maxQty"])}
        return {
            "id": row["symbol"],
            "symbol": symbol,
            "base": row["baseAsset"],
            "quote": row["quoteAsset"],
            "settle": "USDT" if self.is_linear else None,
            "spot": not self.is_linear,
            "swap": self.is_linear,
            "linear": self.is_linear or None,
            "contractSize": row.get("contractSize", 1.0) if self.is_linear else None,
            "active": row["status"] == "TRADING",
            "precision": {"amount": filters["LOT_SIZE"]["stepSize"], "price": filters["PRICE_FILTER"]["tickSize"]},
            "limits": {"amount": least, "cost": {"min": float(cost.get("notional", cost.get("minNotional")))}},
        }

    def _symbol(self, name: str) -> str:
        return next(symbol for symbol, market in self.markets.items() if market["id"] == name)

    def amount_to_precision(self, symbol: str, amount: float) -> str:
        step = Decimal(self.markets[symbol]["precision"]["amount"])
        size = Decimal(str(amount)).quantize(step, ROUND_DOWN)
        if not size:
            raise InvalidOrder(f"amount of {symbol} must be greater than {step}")
        return str(size)

    def price_to_precision(self, symbol: str, price: float) -> str:
        return str(Decimal(str(price)).quantize(Decimal(self.markets[symbol]["precision"]["price"]), ROUND_HALF_UP))

    # ---- orders ---------------------------------------------------------------------------------------------------

    def create_order(
        self, symbol: str, kind: str, side: str, amount: float, price: float | None, params: Mapping[str, Any]
    ) -> Any:
        asked = {"symbol": self.markets[symbol]["id"], "type": kind.upper(), "side": side.upper()}
        asked |= {"quantity": self.amount_to_precision(symbol, amount), "newClientOrderId": params["clientOrderId"]}
        if price is not None:
            asked |= {"price": self.price_to_precision(symbol, price), "timeInForce": "GTC"}
        if params.get("reduceOnly"):
            asked["reduceOnly"] = "true"
        return self._order(self._ask("POST", "/api/v3/order", **asked))

    def fetch_order(self, key: str, symbol: str, params: Mapping[str, Any]) -> Any:
        asked = {"symbol": self.markets[symbol]["id"], "origClientOrderId": params["clientOrderId"]}
        return self._order(self._ask("GET", "/api/v3/order", **asked))

    def cancel_order(self, key: str, symbol: str) -> Any:
        return self._order(self._ask("DELETE", "/api/v3/order", symbol=self.markets[symbol]["id"], orderId=key))

    def fetch_open_orders(self) -> list[Any]:
        return [self._order(row) for row in self._ask("GET", "/api/v3/openOrders")]

    def fetch_my_trades(self, symbol: str, since: Any, limit: Any, params: Mapping[str, Any]) -> list[Any]:
        asked = {"symbol": self.markets[symbol]["id"], "orderId": params["orderId"]}
        return [
            {
                "id": str(row["id"]),
                "order": str(row["orderId"]),
                "timestamp": row["time"],
                "price": float(row["price"]),
                "amount": float(row["qty"]),
                "fees": [{"currency": row["commissionAsset"], "cost": float(row["commission"])}],
            }
            for row in self._ask("GET", "/api/v3/myTrades", "/fapi/v1/userTrades", **asked)
        ]

    def _order(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "id": str(row["orderId"]),
            "clientOrderId": row["clientOrderId"],
            "symbol": self._symbol(row["symbol"]),
            "side": row["side"].lower(),
            "amount": float(row["origQty"]),
            "filled": float(row["executedQty"]),
            "average": float(row["avgPrice"]) or None,
            "status": STATUSES.get(row["status"], row["status"].lower()),
            "timestamp": row["time"],
        }

    # ---- money ----------------------------------------------------------------------------------------------------

    def fetch_balance(self) -> dict[str, Any]:
        answer = self._ask("GET", "/api/v3/account", "/fapi/v3/account")
        if self.is_linear:
            return {"total": {row["asset"]: float(row["marginBalance"]) for row in answer["assets"]}}
        return {"total": {row["asset"]: float(row["free"]) + float(row["locked"]) for row in answer["balances"]}}

    def fetch_positions(self) -> list[Any]:
        return [
            {
                "symbol": self._symbol(row["symbol"]),
                "contracts": abs(float(row["positionAmt"])),
                "contractSize": 1.0,
                "side": "long" if float(row["positionAmt"]) > 0 else "short",
                "entryPrice": float(row["entryPrice"]),
            }
            for row in self._ask("GET", "", "/fapi/v3/positionRisk")
        ]

    def fetch_ticker(self, symbol: str) -> dict[str, Any]:
        row = self._ask("GET", "/api/v3/ticker/24hr", symbol=self.markets[symbol]["id"])
        return {"symbol": symbol, "last": float(row["lastPrice"])}

    def fetch_funding_history(self, symbol: Any, since: int, limit: Any, params: Mapping[str, Any]) -> list[Any]:
        rows = self._ask("GET", "", "/fapi/v1/income", startTime=since, endTime=params["until"])
        return [
            {"symbol": self._symbol(row["symbol"]), "amount": float(row["income"]), "timestamp": row["time"]}
            for row in rows
        ]

    def fetch_ohlcv(self, symbol: str, timeframe: str, since: int) -> list[list[float]]:
        if not self.markets:
            self.load_markets()
        rows = self._ask("GET", "/api/v3/klines", symbol=self.markets[symbol]["id"], startTime=since)
        return [[row[0], *map(float, row[1:6])] for row in rows]


def _content(answer: requests.Response, parse_json: Callable[[str], Any]) -> Any:
    """The JSON of an answer; else the error that ccxt makes of it."""
    if answer.status_code in (418, 429):
        raise DDoSProtection(answer.text)
    if answer.status_code >= 500:
        raise ExchangeNotAvailable(answer.text)
    content = parse_json(answer.text)
    if answer.status_code >= 400:
        raise CODES.get(content["code"], ExchangeError)(content["msg"])
    return content


# ---- which library ------------------------------------------------------------------------------------------------


def double(url: str) -> Any:
    """A stand-in for the module ccxt, whose clients talk to the URL."""
    errors = {name: each for name, each in globals().items() if isinstance(each, type) and issubclass(each, Exception)}
    made = type("binance", (binance,), {"url": url})
    return SimpleNamespace(**errors, exchanges=["binance", "okx"], binance=made)


def is_ccxt_there() -> bool:
    return importlib.util.find_spec("ccxt") is not None


def real(url: str) -> Any:
    """ccxt itself, whose Binance talks to the URL instead."""
    library = importlib.import_module("ccxt")
    made = ModuleType("ccxt")
    made.__dict__.update(library.__dict__)
    made.binance = _pointed(library.binance, url)  # type: ignore[attr-defined]
    return made


def _pointed(own: Any, url: str) -> Callable[[Mapping[str, Any]], Any]:
    def make(settings: Mapping[str, Any]) -> Any:
        client = own({**settings, "enableRateLimit": False})  # or a bar takes seconds

        def point() -> None:
            client.urls["api"] = {name: url + urlsplit(each).path for name, each in client.urls["api"].items()}

        def switch(wrapped: Callable[[bool], None], enabled: bool) -> None:
            wrapped(enabled)
            point()

        point()
        for mode in ("set_sandbox_mode", "enable_demo_trading"):
            setattr(client, mode, partial(switch, getattr(client, mode)))
        return client

    return make
