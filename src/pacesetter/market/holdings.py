"""The positions that an account begins with, booked at the close of its first bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.state import Account, Position

__all__ = ["begin_with"]

Array = NDArray[Any]


def begin_with(
    market: MarketParameters, symbols: Sequence[str], closes: Array, account: Array, positions: Array
) -> list[tuple[str, float, float]]:
    """Write `market.holdings` into an account (Account,) with positions (K, Position); gives (symbol, quantity, price).

    They come on top of the initial cash. Equity is marked at the `closes` (K,), an entry price of another time only
    says what is unrealised. Refuses a symbol that is not traded, and one without a price.
    """
    begun = []
    for holding in market.holdings:
        if holding.symbol not in symbols:
            raise ConfigError(
                f"market.holdings names {holding.symbol}, which is not traded{did_you_mean(holding.symbol, symbols)}"
            )
        place = list(symbols).index(holding.symbol)
        price = float(closes[place])
        if not price > 0:
            raise ConfigError(f"market.holdings: {holding.symbol} has no price at the first bar; start later")
        entry = price if holding.entry_price is None else holding.entry_price
        row = positions[place]
        row[Position.QUANTITY], row[Position.ENTRY_PRICE], row[Position.BEST_PRICE] = holding.quantity, entry, entry
        account[Account.EQUITY] += holding.quantity * price
        begun.append((holding.symbol, holding.quantity, entry))
    account[Account.PEAK_EQUITY] = max(account[Account.PEAK_EQUITY], account[Account.EQUITY])
    return begun
