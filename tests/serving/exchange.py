"""Fakes of exchanges: a real HTTP server on the loopback, with one account, its orders, its market and its faults.

`AlpacaExchange` answers as Alpaca's trading interface does, `BinanceExchange` as Binance's, spot or linear; alpaca-py
and ccxt talk to them. The test decides what fills (`trade`), and what goes wrong with which request: `script` lists
faults in order, `chance` draws one for a request. They allow what a venue may allow, shorts included, so that a mistake
of the trader shows in the account.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

__all__ = ["FAULTS", "AlpacaExchange", "BinanceExchange", "Exchange", "Fault", "alpaca_client", "listening"]

STEP = Decimal("1e-9")  # nine digits are taken of a quantity, as Alpaca does
COIN = Decimal("1e-8")
HELD_SECONDS = 60.0  # that a slow answer is held at most
DELIVERY_SECONDS = 10.0  # that a request is waited for; one whose connection failed never comes
RECEIVE_MS = 5_000  # age at which Binance refuses a request
MOMENT = "2026-01-02T21:00:00Z"
FAULTS = (
    *("504", "504_after", "504_late", "500", "500_after", "429", "429_after", "cut", "cut_after"),
    *(
        "garbled",
        "garbled_after",
        "wrong",
        "wrong_after",
        "repeated",
        "slow",
        "slow_after",
    ),  # the last two cost a time-out
)
OPEN = ("accepted", "new", "partially_filled", "pending_cancel")


class Fault(NamedTuple):
    """What goes wrong with the next request of a method whose path has these letters.

    `_after` acts first, `_late` with the next bar. `garbled` answers no JSON, `wrong` JSON of another shape; `repeated`
    gives an earlier answer of that path again, which may be about another order, and lets an order arrive twice; `kill`
    calls `exchange.on_kill` and then answers nothing.
    """

    kind: str
    method: str = ""
    path: str = ""

    def is_of(self, method: str, path: str) -> bool:
        return self.method in ("", method) and self.path in path


@dataclass
class Resting:
    """An order as the exchange has it; quantities are signed. One with a `stop` waits until that price is reached."""

    client_id: str
    symbol: str
    quantity: Decimal
    kind: str
    limit: Decimal | None
    stop: Decimal | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    filled: Decimal = Decimal(0)
    paid: Decimal = Decimal(0)  # money, without a sign
    status: str = "accepted"
    fee_quantity: Decimal = Decimal(0)  # taken from what was bought
    trades: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def left(self) -> Decimal:
        return self.quantity - self.filled


class Exchange:
    """The account at the venue; every public method may be called while the server answers."""

    def __init__(self, symbols: tuple[str, ...], cash: float = 100_000.0) -> None:
        self.symbols, self.cash = symbols, Decimal(str(cash))
        self.held = dict.fromkeys(symbols, Decimal(0))
        self.prices = dict.fromkeys(symbols, Decimal(1))
        self.whole_only: set[str] = set()  # symbols that are not traded in fractions
        self.step, self.fee_fraction = STEP, Decimal(0)
        self.is_fee_in_kind = False  # whether a buyer pays in what is bought
        self.is_closed = False  # while it is, nothing fills
        self.share: Callable[[Resting], float] = lambda order: 1.0  # of each order that a bar fills
        self.traded_until = 0  # nanoseconds
        self.times = Counter[str]()  # how often an order of each client id was accepted
        self.on_kill: Callable[[], None] = lambda: None
        self.orders: dict[str, Resting] = {}  # by client id
        self.script: list[Fault] = []
        self.chance: Callable[[str, str], str | None] = lambda method, path: None
        self.refuses: Callable[[str], bool] = lambda symbol: False  # whether an order of a symbol is rejected
        self.shown: Callable[[str, Any], Any] = lambda path, content: content  # what is answered to a question
        self.slow_cancels = 0  # so many looks at an order show it as pending_cancel before it is cancelled
        self.requests: list[tuple[str, str]] = []
        self.released = threading.Event()  # what a slow answer waits for
        self.held_answers = 0  # slow requests that wait now
        self.sent = self.handled = 0  # requests that clients of this process sent, and those that came
        self._numbers = 0  # of trades
        self._late: list[Any] = []  # orders that arrive with the next bar
        self.lock, self._cancelling = threading.RLock(), dict[str, int]()
        self._answers: dict[tuple[str, str], tuple[int, Any]] = {}  # the last good one of each path

    # ---- what the market does -------------------------------------------------------------------------------------

    def trade(self, at: int, bars: dict[str, list[float]]) -> None:
        """Fill a share of what is left of each open order in a bar [open, high, low, close] of each symbol.

        At the open, a limit order at its limit or better; then stops that the bar reaches. A bar is traded once,
        however often a trader that restarts comes by it.
        """
        with self.lock:
            if at <= self.traded_until:
                return
            self.traded_until = at
        self.wait_for_requests()
        with self.lock:
            while self._late:
                self.accept(self._late.pop(0))
            for order in sorted(self.orders.values(), key=lambda each: each.stop is not None):
                # One whose cancellation is under way may still fill.
                if order.is_open and not self.is_closed and (price := _fill_price(order, bars[order.symbol])):
                    order.stop = None
                    self.fill(order, Decimal(str(self.share(order))), price)
            self.prices = {symbol: Decimal(str(bar[-1])) for symbol, bar in bars.items()}

    def wait_for_requests(self) -> None:
        """Until what a client gave up on is there too: a bar is longer than a request is under way."""
        end = time.monotonic() + DELIVERY_SECONDS
        while self.handled < self.sent and time.monotonic() < end:
            time.sleep(0.001)

    def fill(self, order: Resting, share: Decimal, price: Decimal) -> None:
        quantity = order.left if share == 1 else (order.left * share).quantize(self.step, ROUND_DOWN)
        if not quantity:
            return
        order.filled += quantity
        order.paid += abs(quantity) * price
        if not order.left:
            order.status = "filled"
        elif order.status != "pending_cancel":
            order.status = "partially_filled"
        fee = abs(quantity) * self.fee_fraction
        in_kind = fee.quantize(COIN, ROUND_DOWN) if self.is_fee_in_kind and quantity > 0 else Decimal(0)
        paid = Decimal(0) if self.is_fee_in_kind and quantity > 0 else (fee * price).quantize(COIN, ROUND_DOWN)
        order.fee_quantity += in_kind
        self._numbers += 1
        order.trades.append(
            {"id": self._numbers, "quantity": abs(quantity), "price": price, "in_kind": in_kind, "paid": paid}
        )
        self.move(order.symbol, quantity - in_kind, Decimal(0))
        self.cash -= quantity * price + paid

    def move(self, symbol: str, quantity: Decimal, price: Decimal) -> None:
        """Change a position, as a fill or somebody by hand does."""
        with self.lock:
            self.held[symbol] += quantity
            self.cash -= quantity * price

    def confirm(self) -> None:
        """End the cancellations that are under way."""
        with self.lock:
            for order in self.orders.values():
                order.status = "canceled" if order.status == "pending_cancel" else order.status

    def split(self, symbol: str, factor: int) -> None:
        """So many shares for each one held."""
        with self.lock:
            self.held[symbol] *= factor
            self.prices[symbol] /= factor

    @property
    def equity(self) -> Decimal:
        return self.cash + sum((quantity * self.prices[symbol] for symbol, quantity in self.held.items()), Decimal(0))

    def working(self, symbol: str) -> Decimal:
        """What is left of the symbol's open orders, signed."""
        return sum((each.left for each in self.orders.values() if each.symbol == symbol and each.is_open), Decimal(0))

    # ---- what it answers ------------------------------------------------------------------------------------------

    def fault(self, method: str, path: str) -> str:
        with self.lock:
            self.requests.append((method, path))
            for place, fault in enumerate(self.script):
                if fault.is_of(method, path):
                    return self.script.pop(place).kind
            return self.chance(method, path) or ""

    def take(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[str, tuple[int, Any]]:
        """The fault that a request meets, and the answer where it is acted on now."""
        with self.lock:
            self.handled += 1
            kind, request = self.fault(method, path), (method, path, query, body)
            if kind.endswith("_late") and self.is_order(method, path):
                self._late.append(body or query)
            if kind == "repeated":
                return kind, self.repeat(*request)
            return kind, self.answer(*request) if not kind or kind.endswith("_after") else (0, None)

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Act on a request, and answer it."""
        with self.lock:
            code, content = self.respond(method, path, query, body)
            if code == 200:
                content = self.shown(path, content) if method == "GET" else content
                self._answers[method, path] = code, content
            return code, content

    def repeat(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Act twice on an order; to a question give the answer before again, or the right one where there is none."""
        with self.lock:
            if method == "GET":
                return self._answers.get((method, path)) or self.answer(method, path, query, body)
            self.respond(method, path, query, body)
            return self.respond(method, path, query, body)

    def respond(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        raise NotImplementedError

    def accept(self, body: Any) -> tuple[int, Any]:
        raise NotImplementedError

    def is_order(self, method: str, path: str) -> bool:
        """Whether a request sends an order."""
        return method == "POST" and "order" in path

    def keep(self, order: Resting) -> None:
        """Take an order in, under another key where its client id was used before."""
        self.times[order.client_id] += 1
        count = self.times[order.client_id]
        self.orders[order.client_id if count == 1 else f"{order.client_id}#{count}"] = order

    def has_met(self, stop: Decimal, symbol: str, quantity: Decimal) -> bool:
        """Whether the price is beyond a stop already."""
        return (self.prices[symbol] - stop) * quantity >= 0

    def ask_to_cancel(self, order: Resting) -> None:
        if order.status != "pending_cancel":
            self._cancelling[order.id] = self.slow_cancels
            order.status = "pending_cancel" if self.slow_cancels else "canceled"

    def look_at(self, order: Resting) -> Resting:
        """An order that is asked about; its cancellation is a look nearer."""
        if order.status == "pending_cancel":
            self._cancelling[order.id] -= 1
            if self._cancelling[order.id] <= 0:
                order.status = "canceled"
        return order

    def entry(self, symbol: str) -> Decimal:
        """The mean price of the fills on the position's side."""
        side = self.held[symbol]
        fills = [each for each in self.orders.values() if each.symbol == symbol and each.filled * side > 0]
        size = sum((abs(each.filled) for each in fills), Decimal(0))
        return sum((each.paid for each in fills), Decimal(0)) / size if size else self.prices[symbol]


def _fill_price(order: Resting, bar: list[float]) -> Decimal | None:
    """At what a bar [open, high, low, close] fills an order; None where it does not."""
    first, high, low, _ = (Decimal(str(price)) for price in bar)
    if order.stop is not None:
        if order.quantity < 0:
            return min(first, order.stop) if low <= order.stop else None
        return max(first, order.stop) if high >= order.stop else None
    is_worse = order.limit is not None and (first - order.limit) * order.quantity > 0
    return None if is_worse else first


class AlpacaExchange(Exchange):
    """Alpaca's trading interface, v2: client ids are unique for good, a closed market lets orders rest."""

    def respond(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        match method, path.removeprefix("/v2/").split("/"):
            case "GET", ["account"]:
                return 200, self._account()
            case "GET", ["positions"]:
                return 200, [self._position(symbol) for symbol, quantity in self.held.items() if quantity]
            case "GET", ["assets", symbol]:
                return (200, self._asset(symbol)) if symbol in self.symbols else (404, _error("asset not found"))
            case "GET", ["orders:by_client_order_id"]:
                order = self.orders.get(query["client_order_id"])
                return (404, _error("order not found")) if order is None else (200, _alpaca_order(self.look_at(order)))
            case "GET", ["orders"]:
                return 200, [_alpaca_order(order) for order in self.orders.values() if order.is_open]
            case "POST", ["orders"]:
                return self.accept(body)
            case "DELETE", ["orders"]:
                still = [order for order in self.orders.values() if order.is_open]
                for order in still:
                    self.ask_to_cancel(order)
                return 207, [{"id": order.id, "status": 200} for order in still]
            case "DELETE", ["orders", order_id]:
                named = next((each for each in self.orders.values() if each.id == order_id), None)
                if named is None:
                    return 404, _error("order not found")
                if not named.is_open:
                    return 422, _error(f"order is already in {named.status} state")
                self.ask_to_cancel(named)
                return 204, None
        return 404, _error("no such route")

    def accept(self, body: Any) -> tuple[int, Any]:
        if body["client_order_id"] in self.orders:
            return 422, _error("client_order_id must be unique", 40010001)
        if body["symbol"] not in self.symbols or self.refuses(body["symbol"]):
            return 403, _error("insufficient buying power")
        size = Decimal(str(body["qty"])).quantize(STEP, ROUND_DOWN)
        if body["symbol"] in self.whole_only and size % 1:
            return 422, _error("asset is not fractionable")
        if not size:
            return 422, _error("qty must be > 0")
        names = ("limit_price", "stop_price")
        limit, stop = (None if body.get(name) is None else Decimal(str(body[name])) for name in names)
        quantity = size if body["side"] == "buy" else -size
        if stop is not None and self.has_met(stop, body["symbol"], quantity):
            return 422, _error("stop price must be less than current price")
        order = Resting(body["client_order_id"], body["symbol"], quantity, body["type"], limit, stop)
        self.keep(order)
        return 200, _alpaca_order(order)

    def _account(self) -> dict[str, Any]:
        money = {"cash": str(self.cash), "equity": str(self.equity)}
        return {"id": str(uuid.UUID(int=1)), "account_number": "1", "status": "ACTIVE", "currency": "USD", **money}

    def _position(self, symbol: str) -> dict[str, Any]:
        quantity, price = self.held[symbol], str(self.prices[symbol])
        return {
            "asset_id": str(uuid.UUID(int=2)),
            "symbol": symbol,
            "exchange": "NYSE",
            "asset_class": "us_equity",
            "avg_entry_price": str(self.entry(symbol)),
            "qty": str(quantity),
            "cost_basis": "0",
            "side": "long" if quantity > 0 else "short",
            "current_price": price,
        }

    def _asset(self, symbol: str) -> dict[str, Any]:
        flags = dict.fromkeys(("tradable", "marginable", "shortable", "easy_to_borrow"), True)
        names = {"id": str(uuid.UUID(int=2)), "class": "us_equity", "exchange": "NYSE", "status": "active"}
        return {**names, **flags, "symbol": symbol, "fractionable": symbol not in self.whole_only}


def _alpaca_order(order: Resting) -> dict[str, Any]:
    mean = str(order.paid / abs(order.filled)) if order.filled else None
    moments = dict.fromkeys(("created_at", "updated_at", "submitted_at"), MOMENT)
    return {
        "id": order.id,
        "client_order_id": order.client_id,
        "symbol": order.symbol,
        "status": order.status,
        "qty": str(abs(order.quantity)),
        "filled_qty": str(abs(order.filled)),
        "filled_avg_price": mean,
        "side": "buy" if order.quantity > 0 else "sell",
        "type": order.kind,
        "order_class": "simple",
        "time_in_force": "day",
        "extended_hours": False,
        "limit_price": order.limit and str(order.limit),
        "stop_price": order.stop and str(order.stop),
        **moments,
    }


class BinanceExchange(Exchange):
    """Binance's REST interface, as much of it as ccxt asks for; symbols like BTC/USDT, or BTC/USDT:USDT of contracts.

    A client id is unique among open orders only, and a request whose time stamp is too old is refused. Orders are
    looked at by the symbol's own name, e.g. BTCUSDT.
    """

    def __init__(self, symbols: tuple[str, ...], cash: float = 100_000.0, is_linear: bool = False) -> None:
        super().__init__(symbols, cash)
        self.is_linear, self.names = is_linear, {_plain(symbol): symbol for symbol in symbols}
        self.step, self.tick, self.least_cost = Decimal("0.00001"), Decimal("0.0001"), Decimal(5)
        self.fee_fraction, self.is_fee_in_kind = Decimal("0.001"), not is_linear
        self.skew_ms = 0  # of its clock before ours
        self.funding: list[dict[str, Any]] = []
        self.candles: dict[str, list[list[Any]]] = {}

    @property
    def now_ms(self) -> int:
        return int(time.time() * 1000) + self.skew_ms

    def pay_funding(self, symbol: str, rate: float, at_ms: int) -> None:
        """Take that share of a position's value."""
        with self.lock:
            paid = (self.held[symbol] * self.prices[symbol] * Decimal(str(rate))).quantize(COIN)
            self.cash -= paid
            self.funding.append({"symbol": _plain(symbol), "income": str(-paid), "asset": "USDT", "time": at_ms})

    def is_order(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/order")

    def respond(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        asked = {**query, **(body or {})}
        is_public = path.endswith(("/time", "/exchangeInfo", "/24hr", "/klines"))
        if not is_public and abs(self.now_ms - int(asked["timestamp"])) > RECEIVE_MS:
            return 400, _binance_error(-1021, "Timestamp for this request is outside of the recvWindow.")
        match method, path.split("/")[-1]:
            case "GET", "time":
                return 200, {"serverTime": self.now_ms}
            case "GET", "exchangeInfo":
                is_own = path.startswith("/fapi") if self.is_linear else path.startswith("/api")
                return 200, {"symbols": [self._market(name) for name in self.names] if is_own else []}
            case "GET", "account":
                return 200, self._balances()
            case "GET", "positionRisk":
                return 200, [self._risk(symbol) for symbol, quantity in self.held.items() if quantity]
            case "GET", "leverageBracket":
                return 200, []
            case "GET", "24hr":
                price = str(self.prices[self.names[asked["symbol"]]])
                return 200, {"symbol": asked["symbol"], "lastPrice": price, "closeTime": self.now_ms}
            case "GET", "klines":
                rows = [row for row in self.candles[asked["symbol"]] if row[0] >= int(asked.get("startTime", 0))]
                return 200, rows[: int(asked.get("limit", 500))]
            case "GET", "income":
                start, end = int(asked.get("startTime", 0)), int(asked.get("endTime", 2**62))
                rows = [row | {"incomeType": "FUNDING_FEE", "tranId": 1} for row in self.funding]
                return 200, [row for row in rows if start <= row["time"] <= end]
            case "GET", "openOrders":
                return 200, [self._order(each) for each in self.orders.values() if each.is_open]
            case "GET", "myTrades" | "userTrades":
                return 200, [
                    row
                    for each in self.orders.values()
                    if _number(each) == int(asked["orderId"])
                    for row in self._trades(each)
                ]
            case "POST", "order":
                return self.accept(asked)
            case "GET" | "DELETE", "order":
                order = self._named(asked)
                if order is None or (method == "DELETE" and not order.is_open):
                    unknown = (-2013, "Order does not exist.") if method == "GET" else (-2011, "Unknown order sent.")
                    return 400, _binance_error(*unknown)
                if method == "DELETE":
                    self.ask_to_cancel(order)
                else:
                    self.look_at(order)
                return 200, self._order(order)
        return 404, _binance_error(-1100, f"no such route {method} {path}")

    def accept(self, body: Any) -> tuple[int, Any]:
        own, symbol = body.get("newClientOrderId", ""), self.names.get(body["symbol"], "")
        if any(each.client_id == own and each.is_open for each in self.orders.values()):
            return 400, _binance_error(-2010, "Duplicate order sent.")
        if self.is_closed:
            return 400, _binance_error(-1013, "Market is closed.")
        if not symbol or self.refuses(symbol):
            return 400, _binance_error(-2010, "Account has insufficient balance for requested action.")
        size, price = Decimal(body["quantity"]), Decimal(body.get("price", self.prices[symbol]))
        is_reducing = str(body.get("reduceOnly", "")).lower() == "true"
        if not size or size % self.step:
            return 400, _binance_error(-1013, "Filter failure: LOT_SIZE")
        if size * price < self.least_cost and not is_reducing:
            return 400, _binance_error(-1013, "Filter failure: NOTIONAL")
        quantity = size if body["side"] == "BUY" else -size
        if is_reducing and abs(quantity + self.working(symbol)) > abs(self.held[symbol]):
            return 400, _binance_error(-2022, "ReduceOnly Order is rejected.")
        limit = price if body["type"] == "LIMIT" else None
        stop = Decimal(body["stopPrice"]) if body["type"] == "STOP_LOSS" else None
        if stop is not None and self.has_met(stop, symbol, quantity):
            return 400, _binance_error(-2010, "Stop price would trigger immediately.")
        kind = body["type"].lower().removesuffix("_loss")
        self.keep(order := Resting(own, symbol, quantity, kind, limit, stop))
        return 200, self._order(order)

    def _named(self, asked: dict[str, str]) -> Resting | None:
        def is_it(order: Resting) -> bool:
            return order.client_id == asked.get("origClientOrderId") or str(_number(order)) == asked.get("orderId")

        # Of several with one client id the newest.
        return next((each for each in reversed(self.orders.values()) if is_it(each)), None)

    def _market(self, name: str) -> dict[str, Any]:
        base = self.names[name].split("/")[0]
        kinds = {"PRICE_FILTER": {"tickSize": str(self.tick), "minPrice": str(self.tick), "maxPrice": "1000000"}}
        for kind in ("LOT_SIZE", "MARKET_LOT_SIZE"):
            kinds[kind] = {"stepSize": str(self.step), "minQty": str(self.step), "maxQty": "900000000"}
        least = str(self.least_cost)
        kinds |= {"MIN_NOTIONAL": {"notional": least}} if self.is_linear else {"NOTIONAL": {"minNotional": least}}
        filters = [{"filterType": kind, **values} for kind, values in kinds.items()]
        shared = {"symbol": name, "status": "TRADING", "baseAsset": base, "quoteAsset": "USDT", "filters": filters}
        if self.is_linear:
            return shared | {
                "pair": name,
                "contractType": "PERPETUAL",
                "marginAsset": "USDT",
                "quantityPrecision": 5,
                "pricePrecision": 4,
                "orderTypes": ["LIMIT", "MARKET"],
            }
        return shared | {
            "isSpotTradingAllowed": True,
            "permissions": ["SPOT"],
            "orderTypes": ["LIMIT", "MARKET", "STOP_LOSS"],
            "baseAssetPrecision": 8,
            "quotePrecision": 8,
        }

    def _balances(self) -> dict[str, Any]:
        if self.is_linear:
            money = {"asset": "USDT", "walletBalance": str(self.equity), "marginBalance": str(self.equity)}
            more = {"availableBalance": str(self.equity), "initialMargin": "0", "updateTime": 1}
            return {"assets": [money | more], "positions": []}
        held = {"USDT": self.cash} | {symbol.split("/")[0]: quantity for symbol, quantity in self.held.items()}
        rows = [{"asset": asset, "free": str(quantity), "locked": "0"} for asset, quantity in held.items()]
        return {"balances": [*rows, {"asset": "BNB", "free": "3", "locked": "0"}]}

    def _risk(self, symbol: str) -> dict[str, Any]:
        quantity, price = self.held[symbol], self.prices[symbol]
        gain = quantity * (price - self.entry(symbol))
        row = {"symbol": _plain(symbol), "positionSide": "BOTH", "positionAmt": str(quantity), "marginAsset": "USDT"}
        row |= {"entryPrice": str(self.entry(symbol)), "markPrice": str(price), "notional": str(quantity * price)}
        zeros = ("isolatedMargin", "isolatedWallet", "liquidationPrice", "initialMargin", "maintMargin")
        return row | dict.fromkeys(zeros, "0") | {"unRealizedProfit": str(gain), "updateTime": str(self.now_ms)}

    def _order(self, order: Resting) -> dict[str, Any]:
        words = {"accepted": "NEW", "partially_filled": "PARTIALLY_FILLED", "pending_cancel": "PENDING_CANCEL"}
        status = words.get(order.status, order.status.upper())
        mean = str(order.paid / abs(order.filled)) if order.filled else "0"
        return {
            "symbol": _plain(order.symbol),
            "orderId": _number(order),
            "clientOrderId": order.client_id,
            "price": str(order.limit or 0),
            "origQty": str(abs(order.quantity)),
            "executedQty": str(abs(order.filled)),
            "cummulativeQuoteQty": str(order.paid),
            "cumQuote": str(order.paid),
            "avgPrice": mean,
            "status": status,
            "type": "STOP_LOSS" if order.kind == "stop" else order.kind.upper(),
            "side": "BUY" if order.quantity > 0 else "SELL",
            "timeInForce": "GTC",
            "time": self.now_ms,
            "updateTime": self.now_ms,
        }

    def _trades(self, order: Resting) -> list[dict[str, Any]]:
        base = order.symbol.split("/")[0]
        return [
            {
                "symbol": _plain(order.symbol),
                "id": trade["id"],
                "orderId": _number(order),
                "price": str(trade["price"]),
                "qty": str(trade["quantity"]),
                "quoteQty": str(trade["quantity"] * trade["price"]),
                "commission": str(trade["in_kind"] or trade["paid"]),
                "commissionAsset": base if trade["in_kind"] else "USDT",
                "time": self.now_ms,
                "isBuyer": order.quantity > 0,
                "isMaker": False,
                "side": "BUY" if order.quantity > 0 else "SELL",
            }
            for trade in order.trades
        ]


def _plain(symbol: str) -> str:
    """BTC/USDT:USDT as BTCUSDT."""
    return symbol.split(":")[0].replace("/", "")


def _number(order: Resting) -> int:
    return int(uuid.UUID(order.id)) % 10**12


def _binance_error(code: int, message: str) -> dict[str, Any]:
    return {"code": code, "msg": message}


def _error(message: str, code: int = 40010000) -> dict[str, Any]:
    return {"code": code, "message": message}


class _Handler(BaseHTTPRequestHandler):
    """One connection; answers are written at once, so that none waits for an acknowledgement."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    exchange: Exchange

    def log_message(self, *words: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        exchange, parts = self.exchange, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        content = _read(body, self.headers.get("Content-Type") or "")
        if parts.path == "/market":  # a trader's feed in another process says that a bar is over
            exchange.trade(**content)
            self._reply(200, {})
            return
        kind, answer = exchange.take(self.command, parts.path, query, content)
        match kind.removesuffix("_after").removesuffix("_late"):
            case "" | "repeated":
                self._reply(*answer)
            case "cut":
                self._cut()
            case "kill":
                exchange.on_kill()
                self._cut()
            case "garbled":
                self._reply(200, None, b"<html>please wait</html>")
            case "wrong":
                self._reply(200, {})
            case "slow":
                exchange.held_answers += 1
                exchange.released.wait(HELD_SECONDS)
                exchange.held_answers -= 1
                self.close_connection = True
            case code:
                self._reply(int(code), _error("try again later"))

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815

    def _reply(self, code: int, content: Any, text: bytes = b"") -> None:
        text = text if content is None else json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()


def _read(body: bytes, kind: str) -> Any:
    """JSON, or the fields of a form."""
    if not body:
        return None
    return json.loads(body) if "json" in kind else {name: each[0] for name, each in parse_qs(body.decode()).items()}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error here."""


@contextmanager
def listening(exchange: Exchange) -> Iterator[str]:
    """Serve the exchange; gives its URL."""
    handler = type("Handler", (_Handler,), {"exchange": exchange})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        exchange.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def alpaca_client(url: str) -> Any:
    """alpaca-py's own client of the exchange at the URL."""
    from alpaca.trading.client import TradingClient

    return TradingClient("key", "secret", paper=True, url_override=url)
