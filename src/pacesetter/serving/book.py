"""What an account can come to hold: its positions and the orders in flight, kept up to date order by order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from pacesetter.serving.order import AccountView, Order, Quote

__all__ = ["Book"]

NO_QUOTE = Quote(math.nan)


class Book:
    """An account as the guard was told it, with all orders in flight; `add` counts one more.

    is_finite    every quantity is a number
    has_prices   there is a price for all that is held and in flight
    """

    def __init__(self, account: AccountView, in_flight: Iterable[Order]) -> None:
        self.account = account
        self.is_finite, self.has_prices = all(map(math.isfinite, account.quantities.values())), True
        self._bought, self._sold = defaultdict[str, float](float), defaultdict[str, float](float)
        self._values: dict[str, float] = {}
        for symbol, quantity in account.quantities.items():
            if quantity:
                self._count(symbol)
        for order in in_flight:
            self.add(order)

    def add(self, order: Order) -> None:
        """Count an order as in flight."""
        (self._bought if order.quantity > 0.0 else self._sold)[order.symbol] += order.quantity
        self._count(order.symbol)

    def has_price(self, symbol: str) -> bool:
        """Whether a symbol's price can value anything."""
        return 0.0 < self.account.quotes.get(symbol, NO_QUOTE).price < math.inf

    def is_exit(self, order: Order) -> bool:
        """Whether the order, with all exits in flight before it, only makes a position smaller."""
        held = self.account.quantities.get(order.symbol, 0.0)
        leaving = (self._sold if held > 0.0 else self._bought)[order.symbol]
        return order.quantity * held < 0.0 and abs(leaving + order.quantity) <= abs(held)

    def value(self, symbol: str, order: Order) -> float:
        """The most money a symbol can come to stand for if any of the orders in flight, and `order`, fill."""
        if symbol != order.symbol:
            return self._values.get(symbol, 0.0)
        more = order.quantity
        return self._most(symbol, max(more, 0.0), min(more, 0.0))

    def cluster(self, order: Order) -> float:
        """That of all symbols in the cluster of the order's."""
        cluster = self.account.clusters.get(order.symbol)
        members = (symbol for symbol, own in self.account.clusters.items() if own == cluster)
        return sum(self.value(symbol, order) for symbol in members)

    def gross(self, order: Order) -> float:
        """That of all symbols together."""
        return sum(self._values.values()) - self._values.get(order.symbol, 0.0) + self.value(order.symbol, order)

    def _count(self, symbol: str) -> None:
        self._values[symbol] = self._most(symbol)
        self.has_prices = self.has_prices and self.has_price(symbol)

    def _most(self, symbol: str, bought: float = 0.0, sold: float = 0.0) -> float:
        held = self.account.quantities.get(symbol, 0.0)
        bought, sold = bought + self._bought[symbol], sold + self._sold[symbol]
        most = max(abs(held), abs(held + bought), abs(held + sold))
        return most * self.account.quotes.get(symbol, NO_QUOTE).price if most else 0.0
