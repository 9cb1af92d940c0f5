"""Windows as people name them: a panel or a frame of bars, an end by date, a length in bars or in time."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel
from pacesetter.stamps import moment_of

__all__ = ["as_panel", "bar_of", "bars_in"]


def as_panel(bars: Any) -> Panel:
    """A panel as it is, or one from a DataFrame of closes (wide) or of bars (long, or with (field, symbol) columns)."""
    if isinstance(bars, Panel):
        return bars
    if isinstance(bars, pd.DataFrame):
        return Panel.from_frame(bars)
    raise DataError(f"bars must be a Panel or a DataFrame, not {type(bars).__name__}; load files by ps.load(…)")


def bar_of(index: pd.DatetimeIndex, end: Any) -> int:
    """The bar that a window ends at: a place, None for the last, or the last bar known by a date or moment."""
    if end is None:
        return len(index) - 1
    if not isinstance(end, str) and hasattr(end, "__index__"):
        return operator.index(end)
    # The last bar *known* by then: a later one would be look-ahead.
    place = int(index.searchsorted(moment_of(end, last=True), side="right")) - 1
    if place < 0:
        raise ConfigError(f"end={end} is before the first bar, {index[0]:%Y-%m-%d %H:%M}; give a later one")
    return place


def bars_in(index: pd.DatetimeIndex, end: int, lookback: Any) -> int:
    """The increments of a window: their number, or a length of time such as "30D" before the bar `end`."""
    if not isinstance(lookback, (str, pd.Timedelta)):
        return int(lookback) if hasattr(lookback, "__index__") else _refuse(lookback)
    try:
        span = pd.Timedelta(lookback)
    except ValueError as problem:
        raise ConfigError(
            f"lookback={lookback!r} is not a length of time; write 250 bars as 250, or 30D, 12h"
        ) from problem
    # the bars known within the span: increment t ends at bar t, so that the one at the far edge is not among them
    return int(end - np.searchsorted(index.asi8, (index[end] - span).value, side="left"))


def _refuse(lookback: Any) -> int:
    raise ConfigError(f"lookback={lookback!r} must be a whole number of bars or a length of time such as 30D")
