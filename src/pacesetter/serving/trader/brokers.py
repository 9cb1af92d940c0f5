"""Brokers fill orders. The one here is the market kernel itself; those outside are a `Venue`.

A broker that cannot be reached leaves an order UNKNOWN, never rejected: it may have arrived. `find` settles that later,
by the client id.

A `Venue` is a broker outside this process, with books of its own, that may answer late, wrongly or never. What keeps an
order from being doubled or lost is there, once for all of them. An adapter, e.g. `alpaca`, only makes the requests.

- An order is placed once. After a lost answer it is looked up by its client id, never sent again.
- What a bar did not fill is cancelled before the next decision, as in the backtest's market. Where the cancellation is
  not confirmed in time the order stays in flight, and the desk subtracts it.
- Requests run on threads of their own, one at a time. While an answer is awaited `meanwhile` runs, so that a halt never
  waits for a venue.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, RunError
from pacesetter.market.account_bars import apply_market
from pacesetter.market.bars import PLAIN, Bar, MarketBars
from pacesetter.market.batch import Accounts
from pacesetter.market.holdings import begin_with
from pacesetter.market.ledger import Fill, Flag
from pacesetter.market.orders import OrderKind
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.state import Account, Position
from pacesetter.serving.risk.order import LIMIT, Order

__all__ = [
    "FINAL_STATUSES",
    "STOPS",
    "Broker",
    "Execution",
    "KernelAccount",
    "NoAnswerError",
    "OrderStatus",
    "PaperBroker",
    "RefusedError",
    "Settlement",
    "Venue",
    "VenueAccount",
    "VenueOrder",
    "exit_reason",
]

Array = NDArray[Any]
T = TypeVar("T")
STOPS = Flag.STOP_LOSS | Flag.TRAILING_STOP
EXITS = (Flag.STOP_LOSS, Flag.TRAILING_STOP, Flag.TAKE_PROFIT, Flag.LIQUIDATED, Flag.DELISTED)

WATCH_SECONDS = 0.25  # between two calls of `meanwhile`
MOST_SECONDS = 300.0  # that the requests of one bar or one order may take together
CANCEL_PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0)  # seconds before each look at orders whose cancellation was asked for
READ_PAUSES = (0.1, 0.4)  # seconds before positions that lack a known fill are read again
DUST = 5e-10  # half of the smallest step of a venue

log = logging.getLogger("pacesetter.brokers")


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
        quantities = [_fillable_quantity(open_orders.get(symbol), opens[symbol]) for symbol in self._symbols]
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


def _fillable_quantity(order: Order | None, price: float) -> float:
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


# ---- a broker outside ---------------------------------------------------------------------------------------------


class NoAnswerError(Exception):
    """It is not known whether the request was acted on: a time-out, a cut connection, a 5xx, too many requests."""


class RefusedError(Exception):
    """The venue's own answer that it will not."""


class VenueOrder(NamedTuple):
    """An order as the venue reports it; quantities have no sign.

    key      the venue's own name of it          status   SENT while it is open
    filled   of `quantity`, at `mean_price`, which is 0 before the first fill
    """

    key: str
    status: OrderStatus
    quantity: float
    filled: float
    mean_price: float


class VenueAccount(NamedTuple):
    """Money, and symbol -> (signed quantity, mean entry price) of what is held."""

    cash: float
    equity: float
    holdings: Mapping[str, tuple[float, float]]


class Venue(ABC):
    """account (Account,) and positions (K, Position) are those of the last settlement that was answered."""

    name: str

    def __init__(self, symbols: Sequence[str]) -> None:
        self._symbols = tuple(symbols)
        self.account, self.positions = np.zeros(len(Account)), np.zeros((len(symbols), len(Position)))
        self.meanwhile: Callable[[], None] = lambda: None
        self._paid: dict[str, float] = {}  # client id -> for what was traded of an order so far, while it is open
        self._line = threading.Lock()  # held by the request under way
        self._cancelling: list[threading.Thread] = []
        try:
            self._take_account()
        except (NoAnswerError, RefusedError) as problem:
            raise RunError(
                f"{self.name} account request failed ({problem}); check the network, the keys and the account"
            ) from problem

    # ---- requests, by the adapter ---------------------------------------------------------------------------------

    @abstractmethod
    def place(self, order: Order) -> None:
        """Send an order under its client id, once."""

    @abstractmethod
    def find_order(self, client_id: str) -> VenueOrder | None:
        """The order of that client id; None where it never arrived."""

    @abstractmethod
    def cancel(self, order: VenueOrder) -> None:
        """Ask that an open order be cancelled."""

    @abstractmethod
    def cancel_everything(self) -> None:
        """Ask that all open orders of the account be cancelled."""

    @abstractmethod
    def read_account(self) -> VenueAccount:
        """The account now."""

    @abstractmethod
    def round_order(self, order: Order, held: float) -> Order:
        """The order in the venue's steps of quantity, towards zero, and of price; without a request."""

    # ---- what a broker does ---------------------------------------------------------------------------------------

    def settle(self, now: Array, bar: Array, orders: Iterable[Order]) -> Settlement:
        asked = tuple(orders)
        return self._ask(lambda: self._settle(asked))

    def submit(self, order: Order) -> OrderStatus:
        return self._ask(lambda: self._submit(order))

    def find(self, client_id: str) -> OrderStatus:
        return self._ask(lambda: self._find(client_id))

    def cancel_all(self) -> None:
        """Have everything cancelled as soon as the request under way is over; waits for nothing."""
        thread = threading.Thread(target=self._cancel_everything, daemon=True)
        self._cancelling.append(thread)
        thread.start()

    def finish(self) -> None:
        """Wait until the cancellations that were asked for were sent, at the end of a session."""
        while self._cancelling:
            self._cancelling.pop().join(MOST_SECONDS)

    def restore(self, account: Array, positions: Array) -> None:
        self.account[Account.PEAK_EQUITY] = max(self.account[Account.PEAK_EQUITY], account[Account.PEAK_EQUITY])
        self.positions[:, Position.SIGNAL] = positions[:, Position.SIGNAL]
        is_same = self.positions[:, Position.QUANTITY] * positions[:, Position.QUANTITY] > 0.0  # side, as back then
        for column in (Position.BEST_PRICE, Position.BARS_HELD):
            self.positions[is_same, column] = positions[is_same, column]

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _ask(self, call: Callable[[], T]) -> T:
        """The result of a call on a thread of its own; `meanwhile` runs here until it comes."""
        answer: Future[T] = Future()

        def work() -> None:
            with self._line:
                try:
                    answer.set_result(call())
                except BaseException as problem:  # raised again where it is awaited
                    answer.set_exception(problem)

        threading.Thread(target=work, daemon=True).start()
        end = time.monotonic() + MOST_SECONDS
        while not wait((answer,), WATCH_SECONDS).done:
            self.meanwhile()
            if time.monotonic() > end:
                raise RunError(f"{self.name} did not finish answering in {MOST_SECONDS:g} s; check it, then resume")
        return answer.result()

    def _settle(self, orders: tuple[Order, ...]) -> Settlement:
        try:
            # Orders before the account: a fill in between shows in the positions now, and in its order at the next bar.
            reported = self._close(orders)
            fills = [fill for order in orders if (fill := self._new_fill(order, reported[order.client_id])) is not None]
            self._take_account_with(fills)
        except (NoAnswerError, RefusedError) as problem:  # nothing is noted, so that the next bar finds all of it again
            log.warning("%s does not answer (%s); no entries until it does", self.name, problem)
            return Settlement(is_known=False)
        self._paid |= {each: at.mean_price * at.filled for each, at in reported.items() if at is not None}
        status = {each: OrderStatus.CANCELLED if at is None else at.status for each, at in reported.items()}
        closed = {each: at for each, at in status.items() if at in FINAL_STATUSES}
        for client_id in closed:
            self._paid.pop(client_id, None)
        return Settlement(tuple(fills), closed)

    def _close(self, orders: tuple[Order, ...]) -> dict[str, VenueOrder | None]:
        """Client id -> each order after what is open of it was cancelled; still open where that is not confirmed."""
        reported = {order.client_id: self.find_order(order.client_id) for order in orders}
        still = [each for each, at in reported.items() if at is not None and at.status not in FINAL_STATUSES]
        for client_id in still:
            order = reported[client_id]
            assert order is not None
            try:
                self.cancel(order)
            except RefusedError:  # it has just ended, or its cancellation was asked for before
                continue
        for pause in CANCEL_PAUSES:
            if not still:
                break
            time.sleep(pause)
            for client_id in still:
                reported[client_id] = self.find_order(client_id)
            still = [each for each in still if (at := reported[each]) is not None and at.status not in FINAL_STATUSES]
        return reported

    def _new_fill(self, order: Order, reported: VenueOrder | None) -> Execution | None:
        """What was traded of an order since `order.quantity` was left of it, at its own price.

        The venue reports the mean price of all fills; earlier fills are known unless this process is new.
        """
        if reported is None:
            return None
        # `order` holds what was open when it was last looked at, so this is what was traded since.
        new = abs(order.quantity) - (reported.quantity - reported.filled)
        if not new > DUST:
            return None
        before = self._paid.get(order.client_id, reported.mean_price * (reported.filled - new))
        price = (reported.mean_price * reported.filled - before) / new
        signed = new if order.quantity > 0 else -new
        return Execution(order.client_id, order.symbol, signed, price, 0.0, "order")

    def _submit(self, order: Order) -> OrderStatus:
        try:
            self.place(order)
            return OrderStatus.SENT
        except RefusedError:
            otherwise = OrderStatus.REJECTED
        except NoAnswerError:
            otherwise = OrderStatus.UNKNOWN
        # After a lost answer, and after "this id was used", the order may be there: it is asked for, never sent again.
        status = self._find(order.client_id)
        return otherwise if status is OrderStatus.PENDING else status

    def _find(self, client_id: str) -> OrderStatus:
        """SENT for any order that arrived, also one that ended: its fills are booked when it is settled."""
        try:
            reported = self.find_order(client_id)
        except (NoAnswerError, RefusedError):
            return OrderStatus.UNKNOWN
        return OrderStatus.PENDING if reported is None else OrderStatus.SENT

    def _cancel_everything(self) -> None:
        with self._line:
            try:
                self.cancel_everything()
            except (NoAnswerError, RefusedError) as problem:
                log.error(
                    "%s cancel request failed (%s); it is repeated at the next bar, else cancel there by hand",
                    *(self.name, problem),
                )

    def _take_account_with(self, fills: list[Execution]) -> None:
        """Read the account, again where positions do not show the fills yet: a venue may book them a moment later."""
        expected = self.positions[:, Position.QUANTITY].copy()
        for fill in fills:
            expected[self._symbols.index(fill.symbol)] += fill.quantity
        self._take_account()
        for pause in READ_PAUSES if fills else ():
            if np.allclose(self.positions[:, Position.QUANTITY], expected, rtol=1e-9, atol=DUST):
                return
            time.sleep(pause)
            self._take_account()

    def _take_account(self) -> None:
        """Take over cash, equity and positions as the venue has them."""
        cash, equity, holdings = self.read_account()
        unknown = sorted(set(holdings) - set(self._symbols))
        if unknown:
            raise ConfigError(
                f"the account at {self.name} holds {unknown[0]}, which is not traded here; close it first"
            )
        self.account[Account.CASH], self.account[Account.EQUITY] = cash, equity
        self.account[Account.PEAK_EQUITY] = max(self.account[Account.PEAK_EQUITY], equity)
        for row, symbol in zip(self.positions, self._symbols, strict=True):
            if symbol not in holdings:
                row[:] = 0.0
                continue
            quantity, entry = holdings[symbol]
            # A venue knows neither best price nor bars held; they are ours to keep as long as the side is the same.
            if row[Position.QUANTITY] * quantity <= 0.0:  # another position than before
                row[Position.BEST_PRICE], row[Position.BARS_HELD] = entry, 0.0
            row[Position.QUANTITY], row[Position.ENTRY_PRICE] = quantity, entry
