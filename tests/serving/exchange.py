"""A fake of Alpaca's trading interface: a real HTTP server on the loopback, with one account, its orders and faults.

alpaca-py talks to it by `client(exchange)`. The test decides what fills (`trade`), and what goes wrong with which
request: `script` lists faults in order, `chance` draws one for a request. It allows what a venue may allow, shorts
included, so that a mistake of the trader shows in the account.
"""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

__all__ = ["FAULTS", "Exchange", "Fault", "client", "listening"]

STEP = Decimal("1e-9")  # nine digits are taken of a quantity, as Alpaca does
MOMENT = "2026-01-02T21:00:00Z"
FAULTS = ("504", "504_after", "504_late", "500", "500_after", "429", "cut", "cut_after", "slow", "slow_after")
OPEN = ("accepted", "new", "partially_filled", "pending_cancel")


class Fault(NamedTuple):
    """What goes wrong with the next request of a method whose path has these letters.

    `_after` acts first, `_late` with the next bar.
    """

    kind: str
    method: str = ""
    path: str = ""

    def is_of(self, method: str, path: str) -> bool:
        return self.method in ("", method) and self.path in path


@dataclass
class Resting:
    """An order as the exchange has it; quantities are signed."""

    client_id: str
    symbol: str
    quantity: Decimal
    kind: str
    limit: Decimal | None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    filled: Decimal = Decimal(0)
    paid: Decimal = Decimal(0)  # money, without a sign
    status: str = "accepted"

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def left(self) -> Decimal:
        return self.quantity - self.filled

    def to_json(self) -> dict[str, Any]:
        mean = str(self.paid / abs(self.filled)) if self.filled else None
        moments = dict.fromkeys(("created_at", "updated_at", "submitted_at"), MOMENT)
        return {
            "id": self.id,
            "client_order_id": self.client_id,
            "symbol": self.symbol,
            "status": self.status,
            "qty": str(abs(self.quantity)),
            "filled_qty": str(abs(self.filled)),
            "filled_avg_price": mean,
            "side": "buy" if self.quantity > 0 else "sell",
            "type": self.kind,
            "order_class": "simple",
            "time_in_force": "day",
            "extended_hours": False,
            "limit_price": self.limit and str(self.limit),
            **moments,
        }


class Exchange:
    """The account at the venue; every public method may be called while the server answers."""

    def __init__(self, symbols: tuple[str, ...], cash: float = 100_000.0) -> None:
        self.symbols, self.cash = symbols, Decimal(str(cash))
        self.held = dict.fromkeys(symbols, Decimal(0))
        self.prices = dict.fromkeys(symbols, Decimal(1))
        self.whole_only: set[str] = set()  # symbols that are not traded in fractions
        self.orders: dict[str, Resting] = {}  # by client id
        self.script: list[Fault] = []
        self.chance: Callable[[str, str], str | None] = lambda method, path: None
        self.refuses: Callable[[str], bool] = lambda symbol: False  # whether an order of a symbol is rejected
        self.slow_cancels = 0  # so many looks at an order show it as pending_cancel before it is cancelled
        self.requests: list[tuple[str, str]] = []
        self.released = threading.Event()  # what a slow answer waits for, or its client's patience
        self.patience = 1.0
        self.held_answers = 0  # slow requests that wait now
        self._late: list[Any] = []  # orders that arrive with the next bar
        self._lock, self._cancelling = threading.RLock(), dict[str, int]()

    # ---- what the market does -------------------------------------------------------------------------------------

    def trade(self, opens: dict[str, float], closes: dict[str, float], share: Callable[[Resting], float]) -> None:
        """Fill that share of what is left of each open order at the open, a limit order at its limit or better."""
        with self._lock:
            while self._late:
                self._accept(self._late.pop(0))
            for order in list(self.orders.values()):
                price = Decimal(str(opens[order.symbol]))
                is_worse = order.limit is not None and (price - order.limit) * order.quantity > 0
                if order.is_open and not is_worse:  # one whose cancellation is under way may still fill
                    self._fill(order, Decimal(str(share(order))), price)
            self.prices = {symbol: Decimal(str(price)) for symbol, price in closes.items()}

    def _fill(self, order: Resting, share: Decimal, price: Decimal) -> None:
        quantity = order.left if share == 1 else (order.left * share).quantize(STEP, ROUND_DOWN)
        if not quantity:
            return
        order.filled += quantity
        order.paid += abs(quantity) * price
        if not order.left:
            order.status = "filled"
        elif order.status != "pending_cancel":
            order.status = "partially_filled"
        self.move(order.symbol, quantity, price)

    def move(self, symbol: str, quantity: Decimal, price: Decimal) -> None:
        """Change a position, as a fill or somebody by hand does."""
        with self._lock:
            self.held[symbol] += quantity
            self.cash -= quantity * price

    def confirm(self) -> None:
        """End the cancellations that are under way."""
        with self._lock:
            for order in self.orders.values():
                order.status = "canceled" if order.status == "pending_cancel" else order.status

    def split(self, symbol: str, factor: int) -> None:
        """So many shares for each one held."""
        with self._lock:
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
        with self._lock:
            self.requests.append((method, path))
            for place, fault in enumerate(self.script):
                if fault.is_of(method, path):
                    return self.script.pop(place).kind
            return self.chance(method, path) or ""

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        with self._lock:
            match method, path.removeprefix("/v2/").split("/"):
                case "GET", ["account"]:
                    return 200, self._account()
                case "GET", ["positions"]:
                    return 200, [self._position(symbol) for symbol, quantity in self.held.items() if quantity]
                case "GET", ["assets", symbol]:
                    return (200, self._asset(symbol)) if symbol in self.symbols else (404, _error("asset not found"))
                case "GET", ["orders:by_client_order_id"]:
                    return self._look(query["client_order_id"])
                case "POST", ["orders"]:
                    return self._accept(body)
                case "DELETE", ["orders"]:
                    still = [order for order in self.orders.values() if order.is_open]
                    for order in still:
                        self._cancel(order)
                    return 207, [{"id": order.id, "status": 200} for order in still]
                case "DELETE", ["orders", order_id]:
                    named = next((each for each in self.orders.values() if each.id == order_id), None)
                    if named is None:
                        return 404, _error("order not found")
                    if not named.is_open:
                        return 422, _error(f"order is already in {named.status} state")
                    self._cancel(named)
                    return 204, None
            return 404, _error("no such route")

    def _accept(self, body: Any) -> tuple[int, Any]:
        if body["client_order_id"] in self.orders:
            return 422, _error("client_order_id must be unique", 40010001)
        if body["symbol"] not in self.symbols or self.refuses(body["symbol"]):
            return 403, _error("insufficient buying power")
        size = Decimal(str(body["qty"])).quantize(STEP, ROUND_DOWN)
        if body["symbol"] in self.whole_only and size % 1:
            return 422, _error("asset is not fractionable")
        if not size:
            return 422, _error("qty must be > 0")
        limit = Decimal(str(body["limit_price"])) if body.get("limit_price") is not None else None
        quantity = size if body["side"] == "buy" else -size
        order = Resting(body["client_order_id"], body["symbol"], quantity, body["type"], limit)
        self.orders[order.client_id] = order
        return 200, order.to_json()

    def _look(self, client_id: str) -> tuple[int, Any]:
        order = self.orders.get(client_id)
        if order is None:
            return 404, _error("order not found")
        if order.status == "pending_cancel":
            self._cancelling[order.id] -= 1
            if self._cancelling[order.id] <= 0:
                order.status = "canceled"
        return 200, order.to_json()

    def _cancel(self, order: Resting) -> None:
        if order.status != "pending_cancel":
            self._cancelling[order.id] = self.slow_cancels
            order.status = "pending_cancel" if self.slow_cancels else "canceled"

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
            "avg_entry_price": self._entry(symbol),
            "qty": str(quantity),
            "cost_basis": "0",
            "side": "long" if quantity > 0 else "short",
            "current_price": price,
        }

    def _entry(self, symbol: str) -> str:
        """The mean price of the fills on the position's side."""
        side = self.held[symbol]
        fills = [each for each in self.orders.values() if each.symbol == symbol and each.filled * side > 0]
        size = sum((abs(each.filled) for each in fills), Decimal(0))
        return str(sum((each.paid for each in fills), Decimal(0)) / size if size else self.prices[symbol])

    def _asset(self, symbol: str) -> dict[str, Any]:
        flags = dict.fromkeys(("tradable", "marginable", "shortable", "easy_to_borrow"), True)
        names = {"id": str(uuid.UUID(int=2)), "class": "us_equity", "exchange": "NYSE", "status": "active"}
        return {**names, **flags, "symbol": symbol, "fractionable": symbol not in self.whole_only}


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
        kind = exchange.fault(self.command, parts.path)
        acts = not kind or kind.endswith("_after")
        answer = (0, None)
        if acts:
            answer = exchange.answer(self.command, parts.path, query, json.loads(body) if body else None)
        if kind.endswith("_late") and self.command == "POST":
            exchange._late.append(json.loads(body))
        match kind.removesuffix("_after").removesuffix("_late"):
            case "":
                self._reply(*answer)
            case "cut":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            case "slow":
                exchange.held_answers += 1
                exchange.released.wait(exchange.patience)
                exchange.held_answers -= 1
                self.close_connection = True
            case code:
                self._reply(int(code), _error("try again later"))

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815

    def _reply(self, code: int, content: Any) -> None:
        text = b"" if content is None else json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()


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


def client(url: str) -> Any:
    """alpaca-py's own client of the exchange at the URL."""
    from alpaca.trading.client import TradingClient

    return TradingClient("key", "secret", paper=True, url_override=url)
