"""Exposure of an account: its positions and the orders in flight, updated order by order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from pacesetter.serving.risk.order import AccountView, Order, Quote

__all__ = ["ROUNDING", "Exposure"]

ROUNDING = 1.0 + 1e-9  # an order sized to be just within a limit passes it, a loss of just a limit acts
NO_QUOTE = Quote(math.nan)


class Exposure:
    """An account as the guard sees it, with all orders in flight; `add` counts one more in constant time.

    Exits of the same decision count as done when its entries are asked about, as the kernel fills them first; exits in
    flight from before do not.

    is_sound     equity is above 0, and it and every quantity are finite
    has_prices   there is a price for all that is held and in flight
    """

    def __init__(self, account: AccountView, in_flight: Iterable[Order]) -> None:
        self.account = account
        self.is_sound = 0.0 < account.equity < math.inf and all(map(math.isfinite, account.quantities.values()))
        self.has_prices = True
        self._bought, self._sold, self._left, self._values = (defaultdict[str, float](float) for _ in range(4))
        self._gross, self._clusters = 0.0, defaultdict[int, float](float)
        for symbol, held in account.quantities.items():
            if held:
                self._count(symbol, max(held, -held) * account.quotes.get(symbol, NO_QUOTE).price)
        for order in in_flight:
            self.add(order)

    def add(self, order: Order, is_exit: bool = False) -> None:
        """Count an order as in flight; an exit of this decision as done too."""
        if is_exit:
            self._left[order.symbol] += order.quantity
        (self._bought if order.quantity > 0.0 else self._sold)[order.symbol] += order.quantity
        self._count(order.symbol, self.value(order.symbol))

    def has_price(self, symbol: str) -> bool:
        """Whether a symbol's price can value anything."""
        return 0.0 < self.account.quotes.get(symbol, NO_QUOTE).price < math.inf

    def is_exit(self, order: Order) -> bool:
        """Whether the order, with all exits in flight before it, only makes a position smaller."""
        held = self.account.quantities.get(order.symbol, 0.0)
        # Written so that NaN counts as no exit.
        if not order.quantity * held < 0.0:
            return False
        # Two exits of the whole position would together open the other side.
        leaving = (self._sold if held > 0.0 else self._bought)[order.symbol]
        return abs(leaving + order.quantity) <= abs(held) * ROUNDING

    def lowest(self, symbol: str, more: float) -> float:
        """The lowest quantity that a symbol can reach if its sales in flight, and one of `more`, fill."""
        return self.account.quantities.get(symbol, 0.0) + self._sold[symbol] + min(more, 0.0)

    def value(self, symbol: str, more: float = 0.0) -> float:
        """The largest value a symbol's position can reach if any of its orders in flight, and one of `more`, fill."""
        held, bought, sold = self.account.quantities.get(symbol, 0.0), self._bought[symbol], self._sold[symbol]
        left = self._left[symbol]
        if more > 0.0:
            bought += more
        else:
            sold += more
        # Any subset of the open orders may fill: all buys and no sell, or the reverse, is the worst.
        most = max(held + bought + min(left, 0.0), -held - sold - max(left, 0.0))
        return most * self.account.quotes.get(symbol, NO_QUOTE).price if most else 0.0

    def cluster(self, symbol: str, more: float) -> float:
        """The largest value that all symbols in the cluster of `symbol` can reach."""
        return self._clusters[self.account.clusters[symbol]] - self._values[symbol] + self.value(symbol, more)

    def gross(self, symbol: str, more: float) -> float:
        """The largest value that all symbols together can reach."""
        # The symbol's old part is replaced, so that a check costs the same however many symbols are held.
        return self._gross - self._values[symbol] + self.value(symbol, more)

    def _count(self, symbol: str, value: float) -> None:
        more = value - self._values[symbol]
        self._values[symbol] += more
        self._gross += more
        if symbol in self.account.clusters:
            self._clusters[self.account.clusters[symbol]] += more
        self.has_prices = self.has_prices and self.has_price(symbol)
