"""The contract of a broker: what the trader asks of a broker.

`Broker` is what desk and trader see. Two kinds keep it: the market kernel in this process (`paper_broker`), and a
`Venue` outside it (`venue`), of which Alpaca and ccxt are adapters. Another package adds one by an entry point in the
group `pacesetter.broker`: a frozen dataclass of its options, see `BrokerOptions`.

Every broker keeps these promises; `tests/contracts/test_brokers.py` holds all that are registered to them.

- An order is traded once under its client id, whatever answer was lost. One that cannot be asked about is UNKNOWN,
  never rejected: it may have arrived.
- `settle` gives every fill once, and the account after them. Positions are the sum of the fills, up to the orders that
  are in flight; open orders that the journal does not know are named.
- Orders are rounded to the steps of the broker, towards zero, before the guard sees them. One below its smallest size
  is not sent, and one sentence says why.
- Exits of the market's options (stop-loss, trailing stop, take-profit) act inside the bar where `is_outside` is False.
  Elsewhere a stop order rests for each position where `takes_stops` is true, and the desk closes what met an exit and
  is still held at the bar's close. An order of a kind that the broker does not take is refused.
- Whether positions may be short is known to the guard (`can_short`), and so is the most that may be traded with real
  money (`notional_cap`).
- No call keeps a halt waiting: while an answer is awaited, `meanwhile` runs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.market.parameters import MarketParameters
from pacesetter.registry import Registry, configure
from pacesetter.serving.risk.order import LIMIT, MARKET, STOP, Order

__all__ = [
    "BROKERS",
    "FINAL_STATUSES",
    "Broker",
    "BrokerOptions",
    "Execution",
    "OrderStatus",
    "Settlement",
    "Span",
    "broker_options",
]

Span = tuple[pd.Timestamp, pd.Timestamp]  # of the bar that is settled: its predecessor's close, and its own


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
    """One fill. `client_id` is that of its order; a stop or limit that acts by itself, a fee and funding have none."""

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
    strangers   open orders at the broker that were not among those asked about, in words
    """

    executions: tuple[Execution, ...] = ()
    closed: Mapping[str, OrderStatus] = {}
    stop_outs: int = 0
    is_over: bool = False
    is_known: bool = True
    strangers: tuple[str, ...] = ()


class Broker(ABC):
    """account (Account,) and positions (K, Position) are those of the last settlement that was answered.

    is_outside      its books are elsewhere: orders may rest over several bars, exits are the desk's to watch
    cuts_openings   it cuts openings by one factor at its own prices where cash is short; else the desk does, at the
                    last close
    can_short       whether a position may be below zero there
    takes_stops     whether a stop order of what is held can rest there, found and cancelled as every other order
    has_unique_ids  whether a client id is refused for good once it was used: only then may an order whose sending was
                    interrupted be sent again by the next process
    notional_cap    most that all positions and orders together may be worth, in the account's money
    meanwhile       what to run while an answer is awaited
    """

    name: str = "paper"
    is_outside: bool = False
    cuts_openings: bool = False
    can_short: bool = True
    takes_stops: bool = False
    has_unique_ids: bool = True
    notional_cap: float = math.inf
    account: Array
    positions: Array
    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    # ---- money and orders -----------------------------------------------------------------------------------------

    def begin(self, bar: Array) -> Settlement:
        """Open the books at the close of the first bar (K, Bar); a broker outside has books already."""
        return Settlement()

    @abstractmethod
    def settle(self, now: Array, bar: Array, orders: Iterable[Order], span: Span) -> Settlement:
        """Let the bar (K, Bar) after `now` act on the open part of `orders`, one per symbol; `span` are their closes.

        What the bar did not fill is cancelled, as in the backtest's market; where that is not confirmed, the order is
        not closed and stays in flight.
        """

    @abstractmethod
    def submit(self, order: Order) -> OrderStatus:
        """Send an order once: SENT, REJECTED or UNKNOWN; the same client id is never traded twice.

        It begins with `check_kind`.
        """

    @abstractmethod
    def find(self, order: Order) -> OrderStatus:
        """Where an order of that client id stands; PENDING where it never arrived, UNKNOWN where no answer comes."""

    @abstractmethod
    def open_orders(self) -> tuple[str, ...]:
        """Every order in these symbols that is open now, in words."""

    @abstractmethod
    def cancel_all(self) -> None:
        """Have every open order cancelled; waits for nothing."""

    def refresh(self) -> None:  # noqa: B027  # most books are here
        """Read the account again, where an answer may have been an old one."""

    def finish(self) -> None:  # noqa: B027  # most wait for nothing
        """Wait until what `cancel_all` asked for was sent, at the end of a session."""

    # ---- its rules ------------------------------------------------------------------------------------------------

    def fit_order(self, order: Order, held: float) -> Order | str:
        """The order in the broker's steps of quantity, towards zero, and of price; or why it is too small, in words.

        It makes no request.
        """
        return order

    def check_kind(self, order: Order) -> None:
        """Refuse an order of a kind that cannot rest or trade here."""
        if order.kind in (MARKET, LIMIT) or (order.kind == STOP and self.takes_stops):
            return
        taken = "market, limit and stop orders" if self.takes_stops else "market and limit orders"
        raise ConfigError(
            f"order {order.client_id} is a {order.kind} order; {self.name} takes {taken}, and exits of market.exits "
            "act at the bar"
        )

    # ---- across restarts ------------------------------------------------------------------------------------------

    @abstractmethod
    def restore(self, account: Array, positions: Array) -> None:
        """Resume from stored rows; a broker with books of its own takes only what those lack."""


@dataclass(frozen=True)
class BrokerOptions(ABC):
    """Options of a broker, given as `broker=NAME broker.OPTION=…`; a subclass is what is registered."""

    @property
    def is_local(self) -> bool:
        """Whether orders are filled in this process, from the bars: only then can stored bars be traded."""
        return False

    def check(self) -> None:  # noqa: B027  # most need nothing
        """Refuse what is missing, e.g. keys, before any data are loaded; makes no request."""

    @abstractmethod
    def open(self, symbols: Sequence[str], market: MarketParameters) -> Broker:
        """The broker for these symbols; refuses, in one sentence, what it cannot trade under `market`."""


BROKERS: Registry[type[BrokerOptions]] = Registry(
    "broker",
    entries={
        "paper": "pacesetter.serving.trader.paper_broker:PaperOptions",
        "alpaca": "pacesetter.serving.trader.alpaca:AlpacaOptions",
        "ccxt": "pacesetter.serving.trader.ccxt_broker:CcxtOptions",
    },
)


def broker_options(options: Mapping[str, Any]) -> BrokerOptions:
    """The options of the broker that `options["name"]` names; refuses an unknown name or option."""
    given = dict(options)
    return configure(BROKERS[given.pop("name", "paper")], given, "broker")
