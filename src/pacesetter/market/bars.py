"""Bars as the kernel reads them: one (time, symbol, column) block, marked at the last price where nothing traded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacesetter.errors import DataError, check_range
from pacesetter.market.jit import jitable

if TYPE_CHECKING:
    from pacesetter.panel import Panel

__all__ = ["Bar", "MarketBars", "Status", "is_delisted", "is_trading"]

Array = NDArray[Any]


class Bar(IntEnum):
    """Columns of a bar."""

    OPEN = 0
    HIGH = 1
    LOW = 2
    CLOSE = 3
    VOLUME = 4
    STATUS = 5
    COST = 6  # fraction of the price that a fill of this symbol pays beyond the costs of all; see `SymbolCost`


class Status(IntEnum):
    """Whether a symbol can be traded in a bar."""

    HALTED = 0
    TRADING = 1
    DELISTED = 2


HALTED, TRADING, DELISTED = map(float, Status)  # as bars hold them


@jitable
def is_trading(bar: Any, k: int) -> bool:
    """Whether symbol k of a (symbol, column) bar can be traded."""
    trading: bool = bar[k, Bar.STATUS] == TRADING
    return trading


@jitable
def is_delisted(bar: Any, k: int) -> bool:
    """Whether symbol k of a (symbol, column) bar is gone."""
    delisted: bool = bar[k, Bar.STATUS] == DELISTED
    return delisted


@dataclass(frozen=True, eq=False)
class MarketBars:
    """`values` (time, symbol, column of `Bar`) float64, without NaN.

    A bar that was not observed is HALTED and carries the last close in all four prices (0 before the first); after
    `delisted_after_bars` such bars in a row it is DELISTED, which needs no look ahead. On closes-only data open, high
    and low are the close, so that an order decided at one close fills at the next, and so does a stop.
    """

    values: Array
    symbols: tuple[str, ...]
    has_volume: bool

    @classmethod
    def from_panel(cls, panel: Panel, *, delisted_after_bars: int = 20) -> MarketBars:
        """The panel's bars; closes only where it has no open, high and low."""
        fields = {name: panel[name] for name in ("open", "high", "low") if panel.has_bars}
        volume = panel.volume if "volume" in panel.fields else None
        return cls.from_arrays(
            panel.close,
            **fields,
            volume=volume,
            mask=panel.mask,
            symbols=panel.symbols,
            delisted_after_bars=delisted_after_bars,
        )

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
        values = np.empty((*closes.shape, len(Bar)))
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


def _matrix(name: str, values: ArrayLike, shape: tuple[int, ...] | None = None) -> Array:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or (shape is not None and matrix.shape != shape):
        raise DataError(f"{name} has shape {matrix.shape}; give (time, symbol)" + (f" = {shape}" if shape else ""))
    return matrix


def _last_seen(is_known: Array) -> Array:
    """(time, symbol) row of the latest observed bar up to each bar, −1 before the first."""
    rows = np.where(is_known, np.arange(len(is_known))[:, None], -1)
    latest: Array = np.maximum.accumulate(rows, axis=0)
    return latest


def _status(is_known: Array, last: Array, delisted_after_bars: int) -> Array:
    missing = np.arange(len(is_known))[:, None] - last
    gone = (last >= 0) & (missing >= delisted_after_bars)
    return np.where(is_known, TRADING, np.where(gone, DELISTED, HALTED))


def _check_prices(field: str, prices: Array, is_known: Array, symbols: tuple[str, ...]) -> None:
    """Refuse the first observed price that is not a positive number."""
    is_bad = is_known & ~(np.isfinite(prices) & (prices > 0))
    if is_bad.any():
        bar, symbol = np.argwhere(is_bad)[0]
        raise DataError(
            f"{field} of '{symbols[symbol]}' at bar {bar} is {prices[bar, symbol]:g}; a traded price must be above 0"
        )
