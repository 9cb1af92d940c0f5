"""A broker outside this process, with books of its own, that may answer late, wrongly or never.

What keeps an order from being doubled or lost is here, once for all venues. An adapter, e.g. `alpaca`, only makes the
requests.

- An order is placed once. After a lost answer it is looked up by its client id, never sent again.
- What a bar did not fill is cancelled before the next decision, as in the backtest's market. Where the cancellation is
  not confirmed in time the order stays in flight, and the desk subtracts it.
- Stops of what is held are orders like all others: cancelled at each bar, and put back at their new level.
- Requests run on threads of their own, one at a time. While an answer is awaited `meanwhile` runs, so that a halt never
  waits for a venue.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, RunError
from pacesetter.market.bars import Bar
from pacesetter.market.state import Account, Position
from pacesetter.serving.risk.order import STOP, Order
from pacesetter.serving.trader.broker import (
    FINAL_STATUSES,
    Broker,
    BrokerOptions,
    Execution,
    OrderStatus,
    Settlement,
    Span,
)
from pacesetter.serving.trader.waiting import MOST_SECONDS, await_answer

__all__ = [
    "Funding",
    "NoAnswerError",
    "OpenOrder",
    "RefusedError",
    "Venue",
    "VenueAccount",
    "VenueFill",
    "VenueOptions",
    "VenueOrder",
]

T = TypeVar("T")

CANCEL_PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0)  # seconds before each look at orders whose cancellation was asked for
READ_PAUSES = (0.1, 0.4)  # seconds before positions that lack a known fill are read again
DUST = 5e-10  # half of the smallest step of a venue

log = logging.getLogger("pacesetter.brokers")


class NoAnswerError(Exception):
    """It is not known whether the request was acted on: a time-out, a cut connection, a 5xx, too many requests."""


class RefusedError(Exception):
    """The venue's own answer that it will not."""


class VenueFill(NamedTuple):
    """A part of an order that was traded; nothing has a sign.

    fee            in the account's money        fee_quantity   in the symbol itself, less of which is held then
    """

    quantity: float
    price: float
    fee: float = 0.0
    fee_quantity: float = 0.0


class VenueOrder(NamedTuple):
    """An order as the venue reports it; quantities have no sign.

    key      the venue's own name of it          status   SENT while it is open
    filled   of `quantity`, at `mean_price`, which is 0 before the first fill
    fills    one by one, the oldest first; empty where the venue tells only their mean
    """

    key: str
    status: OrderStatus
    quantity: float
    filled: float
    mean_price: float
    fills: tuple[VenueFill, ...] = ()


class OpenOrder(NamedTuple):
    """An order that is open at the venue, ours or not; `quantity` is signed, and what is left of it."""

    client_id: str
    symbol: str
    quantity: float


class VenueAccount(NamedTuple):
    """Money, and symbol -> (signed quantity, mean entry price) of what is held; NaN where the venue has no entry."""

    cash: float
    equity: float
    holdings: Mapping[str, tuple[float, float]]


class Funding(NamedTuple):
    """Interest that the holder of a position paid, or received where `paid` is below zero."""

    symbol: str
    paid: float


@dataclass(frozen=True)
class VenueOptions(BrokerOptions):
    """What every venue has.

    live           trade real money; without it the venue's paper account or sandbox is used
    notional_cap   most that positions and open orders together may be worth, in the account's money; `live` needs it
    """

    live: bool = False
    notional_cap: float | None = None

    def __post_init__(self) -> None:
        if self.live and self.notional_cap is None:
            raise ConfigError(
                "broker.live=true trades real money; give with it the most that may be held, e.g. "
                "broker.notional_cap=1000"
            )
        if self.notional_cap is not None and not 0.0 < self.notional_cap < math.inf:
            raise ConfigError(f"broker.notional_cap={self.notional_cap:g} must be a number above 0")

    @property
    def cap(self) -> float:
        """The notional cap; infinite where there is none."""
        return math.inf if self.notional_cap is None else self.notional_cap


class Venue(Broker):
    """A broker over requests that may fail; see the module."""

    is_outside = True

    def __init__(self, symbols: Sequence[str]) -> None:
        self._symbols = tuple(symbols)
        self.account, self.positions = np.zeros(len(Account)), np.zeros((len(symbols), len(Position)))
        self._paid: dict[str, float] = {}  # client id -> for what was traded of an order so far, while it is open
        self._line = threading.Lock()  # held by the request under way
        self._cancelling: list[threading.Thread] = []
        self._unanswered: Span | None = None  # of the first bar since the last one that was answered
        try:
            self._take_account({}, ())
        except (NoAnswerError, RefusedError) as problem:
            raise RunError(
                f"{self.name} account request failed ({problem}); check the network, the keys and the account"
            ) from problem

    # ---- requests, by the adapter ---------------------------------------------------------------------------------

    @abstractmethod
    def place(self, order: Order) -> None:
        """Send an order under its client id, once."""

    @abstractmethod
    def find_order(self, order: Order) -> VenueOrder | None:
        """The order of that client id; None where it never arrived."""

    @abstractmethod
    def cancel(self, order: Order, reported: VenueOrder) -> None:
        """Ask that an open order be cancelled."""

    @abstractmethod
    def cancel_everything(self) -> None:
        """Ask that all open orders in these symbols be cancelled."""

    @abstractmethod
    def list_open(self) -> list[OpenOrder]:
        """All open orders in these symbols, under the client ids that the venue has."""

    @abstractmethod
    def read_account(self, prices: Mapping[str, float]) -> VenueAccount:
        """The account now; `prices` are the last closes, empty before the first bar."""

    def read_funding(self, span: Span) -> list[Funding]:
        """What was paid for positions after the first and up to the second moment; nothing at most venues."""
        return []

    def venue_id(self, client_id: str) -> str:
        """A client id as the venue has it."""
        return client_id

    # ---- what a broker does ---------------------------------------------------------------------------------------

    def settle(self, now: Array, bar: Array, orders: Iterable[Order], span: Span) -> Settlement:
        asked, prices = tuple(orders), dict(zip(self._symbols, bar[:, Bar.CLOSE].tolist(), strict=True))
        since = self._unanswered or span
        self._unanswered = since
        return self._ask(lambda: self._settle(asked, prices, (since[0], span[1])))

    def submit(self, order: Order) -> OrderStatus:
        self.check_kind(order)
        return self._ask(lambda: self._submit(order))

    def find(self, order: Order) -> OrderStatus:
        return self._ask(lambda: self._find(order))

    def open_orders(self) -> tuple[str, ...]:
        return self._ask(lambda: tuple(map(_open_words, self.list_open())))

    def cancel_all(self) -> None:
        """Have everything cancelled as soon as the request under way is over; waits for nothing."""
        thread = threading.Thread(target=self._cancel_everything, daemon=True)
        self._cancelling.append(thread)
        thread.start()

    def refresh(self) -> None:
        def read() -> None:
            with suppress(NoAnswerError, RefusedError):  # what was read before then stays
                self._take_account({}, ())

        self._ask(read)

    def finish(self) -> None:
        while self._cancelling:
            self._cancelling.pop().join(MOST_SECONDS)

    def restore(self, account: Array, positions: Array) -> None:
        self.account[Account.PEAK_EQUITY] = max(self.account[Account.PEAK_EQUITY], account[Account.PEAK_EQUITY])
        self.positions[:, Position.SIGNAL] = positions[:, Position.SIGNAL]
        is_same = self.positions[:, Position.QUANTITY] * positions[:, Position.QUANTITY] > 0.0  # side, as back then
        for column in (Position.BEST_PRICE, Position.BARS_HELD):
            self.positions[is_same, column] = positions[is_same, column]
        is_unpriced = is_same & (self.positions[:, Position.ENTRY_PRICE] == 0.0)  # the venue knows no entry
        self.positions[is_unpriced, Position.ENTRY_PRICE] = positions[is_unpriced, Position.ENTRY_PRICE]

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _ask(self, call: Callable[[], T]) -> T:
        """The result of a call, one at a time; `meanwhile` runs until it comes."""

        def in_line() -> T:
            with self._line:
                return call()

        return await_answer(in_line, self.meanwhile, self.name)

    def _settle(self, orders: tuple[Order, ...], prices: Mapping[str, float], span: Span) -> Settlement:
        try:
            # Orders before the account: a fill in between shows in the positions now, and in its order at the next bar.
            reported = self._close(orders)
            still_open = {each.client_id: each for each in self.list_open()}
            own = {self.venue_id(order.client_id) for order in orders}
            if still_open.keys() - own:  # strangers, unless the list was an old one
                again = {each.client_id for each in self.list_open()}
                still_open = {name: each for name, each in still_open.items() if name in own or name in again}
            fills = [fill for order in orders for fill in self._new_fills(order, reported[order.client_id])]
            funding = [Execution(None, each.symbol, 0.0, 0.0, each.paid, "funding") for each in self.read_funding(span)]
            self._take_account(prices, fills)
        except (NoAnswerError, RefusedError) as problem:  # nothing is noted, so that the next bar finds all of it again
            log.warning("%s does not answer (%s); no entries until it does", self.name, problem)
            return Settlement(is_known=False)
        self._unanswered = None
        self._paid |= {each: at.mean_price * at.filled for each, at in reported.items() if at is not None}
        closed = {}
        for order in orders:
            at = reported[order.client_id]
            is_there = self.venue_id(order.client_id) in still_open  # it arrived between the two answers
            status = at.status if at is not None else OrderStatus.SENT if is_there else OrderStatus.CANCELLED
            if status in FINAL_STATUSES:
                closed[order.client_id] = status
                self._paid.pop(order.client_id, None)
        strangers = tuple(_open_words(each) for name, each in still_open.items() if name not in own)
        return Settlement((*fills, *funding), closed, strangers=strangers)

    def _close(self, orders: tuple[Order, ...]) -> dict[str, VenueOrder | None]:
        """Client id -> each order after what is open of it was cancelled; still open where that is not confirmed."""
        reported = {order.client_id: self.find_order(order) for order in orders}
        still = [order for order in orders if _is_open(reported[order.client_id])]
        for order in still:
            at = reported[order.client_id]
            assert at is not None
            try:
                self.cancel(order, at)
            except RefusedError:  # it has just ended, or its cancellation was asked for before
                continue
        for pause in CANCEL_PAUSES:
            if not still:
                break
            time.sleep(pause)
            for order in still:
                reported[order.client_id] = self.find_order(order)
            still = [order for order in still if _is_open(reported[order.client_id])]
        return reported

    def _new_fills(self, order: Order, reported: VenueOrder | None) -> list[Execution]:
        """What was traded of an order since `order.quantity` was left of it, and what of it was taken as a fee.

        A venue that reports only the mean price of all fills: earlier ones are known unless this process is new.
        """
        if reported is None:
            return []
        # `order` holds what was open when it was last looked at, so this is what was traded since.
        new = abs(order.quantity) - (reported.quantity - reported.filled)
        if not new > _dust(reported.quantity):
            return []
        fee = fee_quantity = 0.0
        if reported.fills:
            fills = _since(reported, reported.filled - new)
            price = sum(fill.quantity * fill.price for fill in fills) / new
            fee, fee_quantity = sum(fill.fee for fill in fills), sum(fill.fee_quantity for fill in fills)
        else:
            before = self._paid.get(order.client_id, reported.mean_price * (reported.filled - new))
            price = (reported.mean_price * reported.filled - before) / new
        signed = new if order.quantity > 0 else -new
        traded = Execution(order.client_id, order.symbol, signed, price, fee, "stop" if order.kind == STOP else "order")
        return [traded, Execution(None, order.symbol, -fee_quantity, 0.0, 0.0, "fee")] if fee_quantity else [traded]

    def _submit(self, order: Order) -> OrderStatus:
        try:
            self.place(order)
            return OrderStatus.SENT
        except RefusedError as problem:
            log.warning("%s refused %s: %s", self.name, order.client_id, problem)
            otherwise = OrderStatus.REJECTED
        except NoAnswerError:
            otherwise = OrderStatus.UNKNOWN
        # After a lost answer, and after "this id was used", the order may be there: it is asked for, never sent again.
        status = self._find(order)
        return otherwise if status is OrderStatus.PENDING else status

    def _find(self, order: Order) -> OrderStatus:
        """SENT for any order that arrived, also one that ended: its fills are booked when it is settled."""
        try:
            reported = self.find_order(order)
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

    def _take_account(self, prices: Mapping[str, float], fills: Sequence[Execution]) -> None:
        """Take over the account, read again where positions are not as the fills say: an answer may be an old one."""
        expected = dict(zip(self._symbols, self.positions[:, Position.QUANTITY].tolist(), strict=True))
        for fill in fills:
            expected[fill.symbol] += fill.quantity
        account = self.read_account(prices)
        for pause in READ_PAUSES if prices else ():
            held = {symbol: account.holdings.get(symbol, (0.0, 0.0))[0] for symbol in self._symbols}
            if all(abs(held[symbol] - each) <= _dust(each) for symbol, each in expected.items()):
                break
            time.sleep(pause)
            account = self.read_account(prices)
        self._take_over(account, prices, fills)

    def _take_over(self, account: VenueAccount, prices: Mapping[str, float], fills: Sequence[Execution]) -> None:
        cash, equity, holdings = account
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
            if math.isnan(entry):
                own = [fill for fill in fills if fill.symbol == symbol]
                entry = _mean_entry(row, quantity, own, prices.get(symbol, 0.0))
            # A venue knows neither best price nor bars held; they are ours to keep as long as the side is the same.
            if row[Position.QUANTITY] * quantity <= 0.0:  # another position than before
                row[Position.BEST_PRICE], row[Position.BARS_HELD] = entry, 0.0
            row[Position.QUANTITY], row[Position.ENTRY_PRICE] = quantity, entry


def _is_open(order: VenueOrder | None) -> bool:
    return order is not None and order.status not in FINAL_STATUSES


def _dust(quantity: float) -> float:
    """What two sums of a quantity may differ by."""
    return max(DUST, 1e-12 * abs(quantity))


def _since(order: VenueOrder, before: float) -> list[VenueFill]:
    """The fills after the first that sum to `before`; some that are not listed yet raise `NoAnswerError`."""
    counted, new = 0.0, []
    for fill in order.fills:
        if counted >= before - _dust(order.quantity):
            new.append(fill)
        counted += fill.quantity
    if abs(counted - order.filled) > _dust(order.quantity):
        raise NoAnswerError(f"order {order.key} has fills of {counted:g}, and {order.filled:g} are filled")
    return new


def _mean_entry(row: Array, held: float, fills: Sequence[Execution], price: float) -> float:
    """The mean price of what is held, by our own fills, from a position (Position,) before them.

    What no fill explains was filled since orders were looked at: it counts at the last `price` until its fill comes,
    which then replaces that.
    """
    quantity = held - sum(fill.quantity for fill in fills)
    before, entry = float(row[Position.QUANTITY]), float(row[Position.ENTRY_PRICE])
    known = math.copysign(min(abs(before), abs(quantity)), quantity) if before * quantity * entry > 0.0 else 0.0
    paid = known * entry + (quantity - known) * (price or entry)
    for fill in fills:
        if fill.client_id is None:  # a fee in kind, which was part of what was bought
            continue
        if quantity * fill.quantity >= 0.0:
            quantity, paid = quantity + fill.quantity, paid + fill.quantity * fill.price
        else:
            left = quantity + fill.quantity
            turned = left * quantity < 0.0
            quantity, paid = left, left * (fill.price if turned else paid / quantity)
    return paid / quantity if quantity else 0.0


def _open_words(order: OpenOrder) -> str:
    return f"{order.client_id} ({order.quantity:+g} {order.symbol})"
