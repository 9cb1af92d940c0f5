"""Exchange calendars: when a daily bar is known, which sessions there were, and which calendar bars follow."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.panel import end_of_day, utc_index

__all__ = ["ALWAYS_OPEN", "infer_calendar", "session_closes", "session_zone", "sessions"]

ALWAYS_OPEN = "24/7"
WEEKEND_SHARE = 0.1  # of bars; two days in seven around the clock, while one wrong date is not a calendar


@lru_cache(maxsize=32)
def sessions(calendar: str, first: str, last: str) -> pd.DataFrame:
    """Opens and closes (UTC) of each session from `first` to `last` (dates), indexed by the session's date."""
    days = pd.date_range(first, last, freq="D")
    if calendar == ALWAYS_OPEN:
        opens = utc_index(days)
        return pd.DataFrame({"open": opens, "close": opens + pd.Timedelta(days=1)}, index=days)
    schedule = _exchange(calendar, first, last).schedule.loc[first:last]
    return pd.DataFrame({"open": schedule["open"], "close": schedule["close"]}, index=schedule.index)


def _exchange(calendar: str, first: str, last: str) -> Any:
    import exchange_calendars
    from exchange_calendars.errors import InvalidCalendarName

    # the library refuses spans without a session and cannot see far ahead; a month on both sides is always enough
    start, end = pd.Timestamp(first) - pd.Timedelta(days=31), pd.Timestamp(last) + pd.Timedelta(days=31)
    try:
        return exchange_calendars.get_calendar(calendar, start=start, end=end)
    except InvalidCalendarName as problem:
        known = [*exchange_calendars.get_calendar_names(include_aliases=False), ALWAYS_OPEN]
        raise ConfigError(f"data.calendar='{calendar}' is unknown{did_you_mean(calendar, known)}") from problem
    except ValueError as problem:  # each calendar is recorded for some years only
        raise DataError(
            f"the calendar {calendar} does not reach from {first} to {last} ({problem}); use data.calendar=24/7"
        ) from problem


def session_closes(dates: pd.DatetimeIndex, calendar: str) -> pd.DatetimeIndex:
    """When the daily bar of each date is known: its session's close; the end of the day where there was no session."""
    if len(dates) == 0:
        return utc_index(dates)
    days = pd.DatetimeIndex(dates).as_unit("ns")
    table = sessions(calendar, str(days.min().date()), str(days.max().date()))
    # A date without a session (a holiday, or the wrong calendar) counts as known at its end, not earlier.
    closes = table["close"].reindex(days)
    return utc_index(closes.where(closes.notna(), end_of_day(days)))


def infer_calendar(moments: pd.DatetimeIndex) -> str:
    """`24/7` when weekends have their share of bars, else New York (`XNYS`), the calendar of most stock files."""
    return ALWAYS_OPEN if bool(np.isin(moments.day_of_week, (5, 6)).mean() > WEEKEND_SHARE) else "XNYS"


def session_zone(calendar: str) -> str:
    """The time zone of an exchange, whose midnights stand for its sessions in many files of daily bars."""
    known = {ALWAYS_OPEN: "UTC", "XNYS": "America/New_York"}  # without importing the library
    return known.get(calendar) or str(_exchange(calendar, "2020-01-01", "2020-12-31").tz)
