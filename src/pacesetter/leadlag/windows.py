"""Windows as people name them: a panel or a frame of bars, an end by date, a length in bars or in time.

Without a length there is a usual one: the shortest round span of time that holds ENOUGH_BARS. That number comes from
the power curve (benchmarks/results/leadlag_power.md): it is the shortest measured window in which four of five
relations of strength 0.4 are found; a longer one would find more of them, later.
"""

from __future__ import annotations

import operator
import re
from datetime import timedelta
from typing import SupportsIndex

import numpy as np
import pandas as pd

from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel
from pacesetter.stamps import moment_of
from pacesetter.tables import is_table, read_table

__all__ = ["as_panel", "bar_of", "bars_in", "is_span", "span_text", "usual_window"]

ENOUGH_BARS = 1000
DAY = timedelta(days=1)
YEAR = timedelta(days=365, hours=6)
HOURS, DAYS = (1, 2, 3, 6, 12), (1, 2, 3, 4, 5, 7, 10, 14, 21, 30, 45, 60, 90, 180)
YEARS = (1, 2, 3, 4, 5, 10, 20, 50, 100)
ROUND_SPANS = (
    *(DAY * hours / 24 for hours in HOURS),
    *(DAY * days for days in DAYS),
    *(YEAR * years for years in YEARS),
)
SPAN = re.compile(r"[0-9.]+ ?(min|h|H|hours?|d|D|days?|W|w|weeks?|Y|y|years?)")
SESSION_DAYS = 300  # daily bars a year; fewer are those of an exchange that closes on weekends
UNITS = {60: "minutes", 3600: "hours", 86_400: "days"}


def as_panel(bars: object) -> Panel:
    """A panel as it is, or one from a table of closes (wide) or of bars (long, or with (field, symbol) columns)."""
    if isinstance(bars, Panel):
        return bars
    if is_table(bars):
        return Panel.from_frame(read_table(bars))
    raise DataError(f"bars must be a Panel or a DataFrame, not {type(bars).__name__}; load files by ps.load(…)")


def bar_of(index: pd.DatetimeIndex, end: object) -> int:
    """The bar that a window ends at: a place, None for the last, or the last bar known by a date or moment."""
    if end is None:
        return len(index) - 1
    if not isinstance(end, str) and isinstance(end, SupportsIndex):
        return operator.index(end)
    # The last bar *known* by then: a later one would be look-ahead.
    place = int(index.searchsorted(moment_of(end, last=True), side="right")) - 1
    if place < 0:
        raise ConfigError(f"end={end} is before the first bar, {index[0]:%Y-%m-%d %H:%M}; give a later one")
    return place


def bars_in(index: pd.DatetimeIndex, end: int, lookback: object) -> int:
    """The increments of a window: their number, or a length of time such as "30D" before the bar `end`."""
    if lookback is None:
        return usual_window(index[: end + 1])
    if not isinstance(lookback, (str, pd.Timedelta)):
        return int(lookback) if isinstance(lookback, SupportsIndex) else _refuse(lookback)
    span = _span_of(lookback)
    if index[end] - span < index[0]:
        raise ConfigError(
            f"lookback={lookback} is longer than the history of {end} bars before {index[end]:%Y-%m-%d}; shorten it"
        )
    return _bars_within(index, end, span)


def _bars_within(index: pd.DatetimeIndex, end: int, span: timedelta) -> int:
    # the bars known within the span: increment t ends at bar t, so that the one at the far edge is not among them
    return int(end - index.searchsorted(index[end] - span))


def _span_of(lookback: str | pd.Timedelta) -> pd.Timedelta:
    text = str(lookback).strip()
    years = re.fullmatch(r"([0-9.]+) ?(?:Y|y|years?)", text)  # pandas knows no years: their lengths differ
    try:
        return pd.Timedelta(float(years[1]) * YEAR if years else lookback)
    except ValueError as problem:
        raise ConfigError(
            f"lookback={lookback!r} is not a length of time; write 250 bars as 250, or 30D, 12h, 3Y"
        ) from problem


def is_span(text: str) -> bool:
    """Whether a text reads as a length of time, such as `30D`, and not as a folder."""
    return SPAN.fullmatch(text.strip()) is not None


def usual_window(index: pd.DatetimeIndex) -> int:
    """Bars of the window when none is asked for: a round span with ENOUGH_BARS, at most half of the history.

    Half, so that there are windows to compare and bars to follow the leaders on.
    """
    last = len(index) - 1
    for span in ROUND_SPANS:
        bars = _bars_within(index, last, span)
        if bars >= ENOUGH_BARS:
            return min(bars, max(last // 2, 2))
    return max(last // 2, 2)


def span_text(index: pd.DatetimeIndex, bars: int) -> str:
    """The last `bars` bars in their own unit and in time, e.g. `1,080 hours = 45 days`."""
    days = (index[-1] - index[-1 - bars]) / pd.Timedelta(DAY)
    if days < 2:
        time = f"{24 * days:.3g} hours"
    else:
        time = f"{days:.0f} days" if days < 1.95 * YEAR / DAY else f"{days * DAY / YEAR:.1f} years"
    own = f"{bars:,} {_unit(index)}"
    return own if own == time else f"{own} = {time}"


def _unit(index: pd.DatetimeIndex) -> str:
    """What one bar is: hours, days, trading days, or a bar where it has another length."""
    seconds = np.median(np.diff(index[-1000:])) / np.timedelta64(1, "s")
    unit = UNITS.get(round(float(seconds)), "bars")
    in_a_year = (len(index) - 1) / ((index[-1] - index[0]) / pd.Timedelta(YEAR))
    return "trading days" if unit == "days" and in_a_year < SESSION_DAYS else unit


def _refuse(lookback: object) -> int:
    raise ConfigError(f"lookback={lookback!r} must be a whole number of bars or a length of time such as 30D")
