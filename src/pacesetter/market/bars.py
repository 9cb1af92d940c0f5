"""Bars as the kernel reads them: one (time, symbol, column) block, marked at the last price where nothing traded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array, Booleans, Floats, Integers
from pacesetter.errors import DataError, check_range
from pacesetter.market.jit import jitable

if TYPE_CHECKING:
    from pacesetter.panel import Panel

__all__ = ["EVENT_FIELDS", "Bar", "MarketBars", "Status", "has_events", "is_delisted", "is_trading"]


class Bar(IntEnum):
    """Columns of a bar; plain bars end with COST, and nothing that the others stand for happens on them."""

    OPEN = 0
    HIGH = 1
    LOW = 2
    CLOSE = 3
    VOLUME = 4
    STATUS = 5
    COST = 6  # fraction of the price that a fill of this symbol pays beyond the costs of all; see `SymbolCost`
    FUNDING = 7  # fraction of a position's value that longs pay to shorts at the open, before the fills
    MARK = 8  # price by which the venue judges margin at the close; 0 where that is the close itself
    DIVIDEND = 9  # money a share, to who held it at the close before
    SPLIT = 10  # new shares for one old at the open; 0 or 1 for none
    LOT = 11  # smallest step of a quantity; 0 for fractions
    TICK = 12  # smallest step of a price; 0 for any price
    FACTOR = 13  # unadjusted close / close; 0 where it is not known. Not read by the kernel
    FX = 14  # account currency for one unit of the symbol's; 0 where they are the same. Not read by the kernel


PLAIN = Bar.COST + 1  # columns of plain bars
# field of a panel -> column of a bar
EVENT_FIELDS = {
    "funding_rate": Bar.FUNDING,
    "mark_price": Bar.MARK,
    "dividend": Bar.DIVIDEND,
    "split": Bar.SPLIT,
    "close_unadjusted": Bar.FACTOR,
    "fx": Bar.FX,
}
STEADY = (Bar.MARK, Bar.FACTOR, Bar.FX)  # known from the last bar where one is missing; the others are events
COMMON_SPLITS = tuple(a / b for a in range(1, 51) for b in (1, 2, 3, 4, 5) if a != b)
LEAST_SPLIT = 1.19  # 6 for 5; what changes a price by less is a dividend
NEAR_SPLIT = 0.01  # how far the change of the factor may be from a split: a dividend on the same day, rounding


class Status(IntEnum):
    """Whether a symbol can be traded in a bar."""

    HALTED = 0
    TRADING = 1
    DELISTED = 2
    LEFT = 3  # it is no longer a member of the universe; held until then


HALTED, TRADING, DELISTED, LEFT = map(float, Status)  # as bars hold them


@jitable
def is_trading(bar: Floats, k: int) -> bool:
    """Whether symbol k of a (symbol, column) bar can be traded."""
    trading: bool = bar[k, Bar.STATUS] == TRADING
    return trading


@jitable
def has_events(bar: Floats) -> bool:
    """Whether the (symbol, column) bars say more than plain ones: funding, margin, lots, dividends, splits."""
    wide: bool = bar.shape[1] > PLAIN
    return wide


@jitable
def is_delisted(bar: Floats, k: int) -> bool:
    """Whether symbol k of a (symbol, column) bar is gone, or left the universe."""
    delisted: bool = bar[k, Bar.STATUS] >= DELISTED
    return delisted


@dataclass(frozen=True, eq=False)
class MarketBars:
    """`values` (time, symbol, column of `Bar`) float64, without NaN.

    A bar that was not observed is HALTED and carries the last close in all four prices (0 before the first); after
    `delisted_after_bars` such bars in a row it is DELISTED, which needs no look ahead. On closes-only data open, high
    and low are the close, so that an order decided at one close fills at the next, and so does a stop.

    Bars of a panel with `EVENT_FIELDS` have columns for them; `apply_market` leaves those that the rules use.
    """

    values: Array
    symbols: tuple[str, ...]
    has_volume: bool

    @classmethod
    def from_panel(cls, panel: Panel, *, delisted_after_bars: int = 20) -> MarketBars:
        """The panel's bars; closes only where it has no open, high and low."""
        fields = {name: panel[name] for name in ("open", "high", "low") if panel.has_bars}
        volume = panel.volume if "volume" in panel.fields else None
        bars = cls.from_arrays(
            panel.close,
            **fields,
            volume=volume,
            mask=panel.mask,
            symbols=panel.symbols,
            delisted_after_bars=delisted_after_bars,
        )
        events = {name: panel[name] for name in EVENT_FIELDS if name in panel.fields}
        if "member" in panel.fields:
            bars.values[_has_left(panel["member"]), Bar.STATUS] = LEFT
        return replace(bars, values=_widen(bars.values, events)) if events else bars

    @classmethod
    def from_arrays(
        cls,
        close: ArrayLike,
        *,
        open: ArrayLike | None = None,
        high: ArrayLike | None = None,
        low: ArrayLike | None = None,
        volume: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        symbols: tuple[str, ...] | None = None,
        delisted_after_bars: int = 20,
    ) -> MarketBars:
        """Bars from (time, symbol) arrays; observed where the close is finite unless `mask` says otherwise."""
        check_range(1, delisted_after_bars=delisted_after_bars)
        closes = _matrix("close", close)
        is_known = np.isfinite(closes) if mask is None else _matrix("mask", mask, closes.shape).astype(bool)
        last = _last_seen(is_known)
        marks = np.where(last >= 0, np.take_along_axis(closes, np.maximum(last, 0), axis=0), 0.0)
        names = symbols or tuple(f"asset{column}" for column in range(closes.shape[1]))
        values = np.empty((*closes.shape, PLAIN))
        for column, prices in ((Bar.CLOSE, close), (Bar.OPEN, open), (Bar.HIGH, high), (Bar.LOW, low)):
            given = closes if prices is None else _matrix(column.name.lower(), prices, closes.shape)
            _check_prices(column.name.lower(), given, is_known, names)
            values[..., column] = np.where(is_known, given, marks)
        traded = np.zeros(closes.shape) if volume is None else _matrix("volume", volume, closes.shape)
        values[..., Bar.VOLUME] = np.where(is_known, np.nan_to_num(traded), 0.0)
        values[..., Bar.STATUS] = _status(is_known, last, delisted_after_bars)
        values[..., Bar.COST] = 0.0
        return cls(values, names, volume is not None)

    def __len__(self) -> int:
        return len(self.values)


def _has_left(member: Array) -> Array:
    """(time, symbol) True once a symbol that was a member is none any more."""
    was_member = np.maximum.accumulate(np.nan_to_num(member) > 0, axis=0)
    has_left: Array = was_member & (member == 0)
    return has_left


def _widen(plain: Array, events: Mapping[str, Array]) -> Array:
    """Plain bars (time, symbol, column) with the columns of the events, each (time, symbol); NaN is none."""
    values = np.zeros((*plain.shape[:2], len(Bar)))
    values[..., :PLAIN] = plain
    for name, given in events.items():
        column = EVENT_FIELDS[name]
        known = np.asarray(given, dtype=np.float64)
        if column == Bar.FACTOR:
            known = known / plain[..., Bar.CLOSE]
        if column in STEADY:
            last = _last_seen(np.isfinite(known))
            known = np.where(last >= 0, np.take_along_axis(known, np.maximum(last, 0), axis=0), np.nan)
        values[..., column] = np.nan_to_num(known)
    if "close_unadjusted" in events:
        _derive_events(values, "split" in events, "dividend" in events)
    return values


def _derive_events(values: Array, has_splits: bool, has_dividends: bool) -> None:
    """Write splits and dividends, where no column names them, from what they did to the adjusted closes.

    A holder's return from close to close is the unadjusted one times g, how the factor has changed. A g near a usual
    split is one; the rest is a dividend d of the close before, g = 1 / (1 − d / close), as vendors adjust.
    """
    factor, close = values[..., Bar.FACTOR], values[..., Bar.CLOSE]
    before = np.vstack([factor[:1], factor[:-1]])
    g = np.divide(before, factor, out=np.ones_like(factor), where=(before > 0) & (factor > 0))
    if not has_splits:
        for t, k in np.argwhere(np.maximum(g, 1 / g) > LEAST_SPLIT):
            near = min(COMMON_SPLITS, key=lambda ratio: abs(ratio / g[t, k] - 1))
            values[t, k, Bar.SPLIT] = near if abs(g[t, k] / near - 1) < NEAR_SPLIT else 0.0
    if not has_dividends:
        split = np.where(values[..., Bar.SPLIT] > 0, values[..., Bar.SPLIT], 1.0)
        rest = g / split
        paid = np.vstack([close[:1], close[:-1]]) * before * (1 - 1 / rest)
        values[..., Bar.DIVIDEND] = np.where(np.abs(rest - 1) > 1e-9, paid, 0.0)


def _matrix(name: str, values: ArrayLike, shape: tuple[int, ...] | None = None) -> Floats:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or (shape is not None and matrix.shape != shape):
        raise DataError(f"{name} has shape {matrix.shape}; give (time, symbol)" + (f" = {shape}" if shape else ""))
    return matrix


def _last_seen(is_known: Booleans) -> Integers:
    """(time, symbol) row of the latest observed bar up to each bar, −1 before the first."""
    rows = np.where(is_known, np.arange(len(is_known))[:, None], -1)
    latest: Array = np.maximum.accumulate(rows, axis=0)
    return latest


def _status(is_known: Booleans, last: Integers, delisted_after_bars: int) -> Floats:
    missing = np.arange(len(is_known))[:, None] - last
    gone = (last >= 0) & (missing >= delisted_after_bars)
    return np.where(is_known, TRADING, np.where(gone, DELISTED, HALTED))


def _check_prices(field: str, prices: Floats, is_known: Booleans, symbols: tuple[str, ...]) -> None:
    """Refuse the first observed price that is not a positive number."""
    is_bad = is_known & ~(np.isfinite(prices) & (prices > 0))
    if is_bad.any():
        bar, symbol = np.argwhere(is_bad)[0]
        raise DataError(
            f"{field} of '{symbols[symbol]}' at bar {bar} is {prices[bar, symbol]:g}; a traded price must be above 0"
        )
