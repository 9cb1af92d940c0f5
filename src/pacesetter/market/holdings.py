"""The positions that an account begins with, booked at the close of its first bar."""

from __future__ import annotations

from collections.abc import Sequence

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.market.parameters import MarketParameters, StartingHolding
from pacesetter.market.state import Account, Position

__all__ = ["begin_with", "book_holdings", "check_named_symbols", "check_priced"]


def begin_with(
    market: MarketParameters, symbols: Sequence[str], closes: Array, account: Array, positions: Array
) -> list[tuple[str, float, float]]:
    """Write `market.holdings` into an account (Account,) with positions (K, Position); gives (symbol, quantity, price).

    Refuses a symbol that is not traded, and one without a price.
    """
    check_priced(market, symbols, closes)
    return book_holdings(market.holdings, symbols, closes, account, positions)


def book_holdings(
    holdings: Sequence[StartingHolding], symbols: Sequence[str], closes: Array, account: Array, positions: Array
) -> list[tuple[str, float, float]]:
    """The same of any holdings; those of other symbols, and of symbols without a price at the `closes` (K,), are not
    booked.

    They come on top of the initial cash. Equity is marked at the closes, an entry price of another time only says
    what is unrealised.
    """
    begun = []
    for holding in holdings:
        place = symbols.index(holding.symbol) if holding.symbol in symbols else -1
        if place < 0 or not closes[place] > 0:
            continue
        price = float(closes[place])
        entry = price if holding.entry_price is None else holding.entry_price
        row = positions[place]
        row[Position.QUANTITY], row[Position.ENTRY_PRICE], row[Position.BEST_PRICE] = holding.quantity, entry, entry
        account[Account.EQUITY] += holding.quantity * price
        begun.append((holding.symbol, holding.quantity, entry))
    account[Account.PEAK_EQUITY] = max(account[Account.PEAK_EQUITY], account[Account.EQUITY])
    return begun


def check_priced(market: MarketParameters, symbols: Sequence[str], closes: Array) -> None:
    """Refuse a holding of a symbol that is not traded, or that has no price at the `closes` (K,)."""
    check_named_symbols(market, symbols)
    for holding in market.holdings:
        if not closes[list(symbols).index(holding.symbol)] > 0:
            raise ConfigError(f"market.holdings: {holding.symbol} has no price at the first bar; start later")


def check_named_symbols(market: MarketParameters, symbols: Sequence[str]) -> None:
    """Refuse a symbol of `holdings` that is not traded: it would be left out without a word."""
    for holding in market.holdings:
        if holding.symbol not in symbols:
            raise ConfigError(
                f"market.holdings names {holding.symbol}, which is not traded{did_you_mean(holding.symbol, symbols)}"
            )
