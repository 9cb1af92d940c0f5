"""Bars as the rules of one market read them: raw or adjusted prices, funding, lots and ticks, what a symbol costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pacesetter.arrays import Array, Floats
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.market.bars import PLAIN, Bar
from pacesetter.market.parameters import BPS, MarketParameters

__all__ = ["apply_market", "check_account_bars", "check_step_symbols"]

PRICES = slice(Bar.OPEN, Bar.CLOSE + 1)
EVENTS = slice(Bar.FUNDING, Bar.TICK + 1)  # what the kernel reads beyond plain bars


def apply_market(bars: Floats, symbols: Sequence[str], market: MarketParameters) -> Floats:
    """The bars (…, symbol, column) with what the market uses of them; plain ones, untouched, where it is nothing."""
    if bars.shape[-1] == PLAIN and not _uses_more(market):
        return bars
    values = np.zeros((*bars.shape[:-1], len(Bar)))
    values[..., : bars.shape[-1]] = bars
    _choose_prices(values, market)
    if not isinstance(market.funding, str):
        values[..., Bar.FUNDING] = market.funding / market.bars_per_year
    elif market.funding == "none":
        values[..., Bar.FUNDING] = 0.0
    values[..., Bar.LOT] = _steps(market.lot, symbols)
    # A tick is in the currency that the symbol is quoted in.
    values[..., Bar.TICK] = _steps(market.tick, symbols) * np.where(_is_foreign(values), values[..., Bar.FX], 1)
    if market.costs.by_symbol or market.conversion_bps:
        converted = np.where(_is_foreign(values), market.conversion_bps * BPS, 0.0)
        values[..., Bar.COST] = market.costs.own_fractions(symbols) + converted
    if market.margin.mode != "none" or values[..., EVENTS].any():
        return values
    return np.ascontiguousarray(values[..., :PLAIN])


def _uses_more(market: MarketParameters) -> bool:
    """Whether the rules ask for anything that plain bars do not have."""
    has_steps = market.lot is not None or market.tick is not None
    has_costs = bool(market.costs.by_symbol) or market.conversion_bps > 0
    return has_steps or has_costs or market.margin.mode != "none" or not isinstance(market.funding, str)


def check_account_bars(bars: Floats, symbols: Sequence[str], market: MarketParameters) -> None:
    """Refuse rules that the bars (…, time, symbol, column) cannot serve: a column they lack, lots beyond the cash."""
    for name, column in (("dividends", Bar.DIVIDEND), ("splits", Bar.SPLIT)):
        if vars(market)[name] and not (bars.shape[-1] > column and bars[..., column].any()):
            raise ConfigError(
                f"market.{name}=true needs a column {name[:-1]} with an event in it, which these bars lack; add it, or "
                "leave the key out"
            )
    if market.prices == "unadjusted" and not (bars.shape[-1] > Bar.FACTOR and bars[..., Bar.FACTOR].any()):
        raise ConfigError(
            "market.prices=unadjusted needs the column close_unadjusted beside close, which these bars lack; add it, "
            "or read raw closes with data.close=unadjusted"
        )
    if market.lot is not None:
        _check_lots(bars.reshape(-1, *bars.shape[-2:]), symbols, market)


def check_step_symbols(symbols: Sequence[str], market: MarketParameters) -> None:
    """Refuse a lot or a tick of a symbol that is not traded: it would be left out without a word."""
    for name, given in (("lot", market.lot), ("tick", market.tick)):
        for symbol in given if isinstance(given, dict) else ():
            if symbol not in symbols:
                raise ConfigError(f"market.{name} names {symbol}, which is not traded{did_you_mean(symbol, symbols)}")


def _check_lots(bars: Array, symbols: Sequence[str], market: MarketParameters) -> None:
    """Refuse lots of which the account can pay none, at the first price of each symbol."""
    close = bars[..., Bar.CLOSE]
    first = np.take_along_axis(close, (close > 0).argmax(axis=0)[None], axis=0)[0]
    prices = first * _steps(market.lot, symbols)
    most = market.initial_cash * min(market.limits.position_cap_fraction, market.limits.gross_leverage)
    if prices.size and (prices > most).all():
        k = int(prices.argmin())
        raise ConfigError(
            f"market.lot: one lot of {symbols[k]} costs {prices[k]:,.2f}, more than the {most:,.2f} that one position "
            f"of an account of {market.initial_cash:,.0f} may have; give smaller lots, a higher market.position_cap, "
            "or more market.initial_cash"
        )


def _choose_prices(values: Array, market: MarketParameters) -> None:
    """Unadjusted prices with all their events, or adjusted ones with those that are asked for."""
    if market.prices == "unadjusted":
        factor = values[..., Bar.FACTOR]
        values[..., PRICES] *= np.where(factor > 0, factor, 1.0)[..., None]
        return
    for column, is_used in ((Bar.DIVIDEND, market.dividends), (Bar.SPLIT, market.splits)):
        if not is_used:
            values[..., column] = 0.0


def _is_foreign(values: Array) -> Array:
    foreign: Array = values[..., Bar.FX] > 0
    return foreign


def _steps(given: float | dict[str, float] | None, symbols: Sequence[str]) -> Array:
    """(symbol,) lot or tick of each; 0 where there is none."""
    if not isinstance(given, dict):
        return np.full(len(symbols), given or 0.0)
    return np.array([given.get(symbol, 0.0) for symbol in symbols])
