"""Prices in the account's currency: converted by rates that were known at the time, from a file or beside the bars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.panel import Panel
from pacesetter.words import count_noun

__all__ = ["convert_currencies"]


def convert_currencies(panel: Panel, currency: str | None, currencies: Mapping[str, str], rates: Panel | None) -> Panel:
    """The panel with all prices in `currency`; `currencies` names that of each symbol which is quoted in another.

    Rates are symbols such as USDJPY, yen for a dollar, of `rates` or of the panel itself, from which they are taken
    out. The open is converted by the rate of the close before, the close by its own; a field `fx` keeps the rates.
    """
    if currency is None:
        if currencies:
            raise ConfigError("data.currencies needs the account's own currency, e.g. data.currency=USD")
        return panel
    currencies = {str(symbol): code for symbol, code in currencies.items()}  # Tokyo names symbols by numbers
    unknown = next((symbol for symbol in currencies if symbol not in panel.symbols), None)
    if unknown is not None:
        raise ConfigError(
            f"data.currencies names {unknown}, of which there are no bars{did_you_mean(unknown, panel.symbols)}"
        )
    home = _code(currency)
    foreign = {symbol: _code(code) for symbol, code in currencies.items() if _code(code) != home}
    if not foreign:
        return panel
    source = panel if rates is None else rates
    table = {code: _rates_into(home, code, source, panel.index) for code in set(foreign.values())}
    used = set() if rates is not None else {name for code in table for name in panel.symbols if _pair(name, home, code)}
    traded = panel.select([name for name in panel.symbols if name not in used])
    now = np.full(traded.mask.shape, np.nan)
    for symbol, code in foreign.items():
        now[:, traded.position(symbol)] = table[code]
    _check_known(now, traded, foreign)
    before = np.vstack([now[:1], now[:-1]])
    factors = {
        "open": before,
        # between the rates of open and close, so that they still hold both
        "high": np.fmax(before, now),
        "low": np.fmin(before, now),
        **dict.fromkeys(("close", "close_unadjusted", "mark_price", "dividend"), now),
    }
    blocks = [
        block * np.where(np.isnan(factors[name]), 1.0, factors[name]) if name in factors else block
        for name, block in zip(traded.fields, traded.blocks, strict=True)
    ]
    pairs = ", ".join(sorted(table))
    converted = count_noun(len(foreign), "symbol")
    note = f"Prices of {converted} are converted from {pairs} to {home} at rates known at each close"
    return replace(traded, blocks=np.stack(blocks), truth=None).with_field("fx", now).noting(note)


def _code(currency: str) -> str:
    code = str(currency).strip().upper()
    if not re.fullmatch(r"[A-Z]{3,5}", code):
        raise ConfigError(f"'{currency}' is not a currency; write it like USD")
    return code


def _pair(name: str, home: str, code: str) -> int:
    """1 where a symbol is the price of one unit of `code` in `home`, −1 where it is the reverse, else 0."""
    plain = re.sub(r"(=X|[^A-Z])", "", name.upper())
    return 1 if plain == code + home else -1 if plain == home + code else 0


def _rates_into(home: str, code: str, source: Panel, index: pd.DatetimeIndex) -> Array:
    """(time,) money of the account for one unit of the currency, as known at each moment; NaN before the first."""
    name = next((name for name in source.symbols if _pair(name, home, code)), None)
    if name is None:
        raise DataError(
            f"no exchange rate of {code} into {home}: there is no symbol {code}{home} or {home}{code}; give "
            "data.fx=FILE with its closes, or put it beside the bars"
        )
    closes = pd.Series(source.close[:, source.position(name)], source.index).dropna()
    known = closes.reindex(index, method="ffill").to_numpy()
    return known if _pair(name, home, code) > 0 else 1.0 / known


def _check_known(rates: Array, panel: Panel, foreign: Mapping[str, str]) -> None:
    """Refuse a bar without a rate at or before it: its price would stand in another currency than its neighbours'."""
    for symbol, code in foreign.items():
        column = panel.position(symbol)
        missing = np.flatnonzero(panel.mask[:, column] & np.isnan(rates[:, column]))
        if len(missing):
            raise DataError(
                f"{symbol} at {panel.index[missing[0]]:%Y-%m-%d} has no exchange rate of {code} at or before it; give "
                "rates from there on, or a later data.start"
            )
