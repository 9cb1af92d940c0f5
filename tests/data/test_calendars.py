"""Sessions: when a daily bar is known, on whole, half and closed days."""

from __future__ import annotations

import pandas as pd
import pytest

from pacesetter.data.calendars import infer_calendar, session_closes, sessions
from pacesetter.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("day", "calendar", "close"),
    [
        ("2020-01-02", "XNYS", "2020-01-02T21:00"),
        ("2020-07-02", "XNYS", "2020-07-02T20:00"),  # summer time
        ("2020-11-27", "XNYS", "2020-11-27T18:00"),  # half day
        ("2020-12-25", "XNYS", "2020-12-25T23:59:59"),  # no session
        ("2020-01-04", "XNYS", "2020-01-04T23:59:59"),  # Saturday
        ("2020-01-04", "24/7", "2020-01-05T00:00"),
        ("2020-01-06", "XTKS", "2020-01-06T06:00"),
        ("1950-01-04", "XNYS", "1950-01-04T21:00"),
    ],
)
def test_a_daily_bar_is_known_at_its_sessions_close(day: str, calendar: str, close: str) -> None:
    assert session_closes(pd.DatetimeIndex([day]), calendar)[0] == pd.Timestamp(close, tz="UTC")


def test_dates_keep_their_order_and_number() -> None:
    days = pd.DatetimeIndex(["2020-01-03", "2020-01-02", "2020-01-03"])
    assert session_closes(days, "XNYS").day.tolist() == [3, 2, 3]
    assert len(session_closes(days[:0], "XNYS")) == 0


def test_sessions_of_a_week_with_a_holiday() -> None:
    table = sessions("XNYS", "2020-01-18", "2020-01-24")  # Monday is Martin Luther King's
    assert table.index.day.tolist() == [21, 22, 23, 24]
    assert len(sessions("24/7", "2020-01-18", "2020-01-24")) == 7
    assert len(sessions("XNYS", "2020-01-18", "2020-01-19")) == 0


def test_the_calendar_bars_follow() -> None:
    assert infer_calendar(pd.date_range("2020-01-06", periods=5)) == "XNYS"
    assert infer_calendar(pd.date_range("2020-01-06", periods=7)) == "24/7"
    one_wrong = pd.bdate_range("2020-01-06", periods=50).append(pd.DatetimeIndex(["2020-05-02"]))
    assert infer_calendar(one_wrong) == "XNYS"


def test_unknown_calendars_and_years_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data.calendar='xnyx' is unknown; did you mean 'XNYS'\?"):
        sessions("xnyx", "2020-01-01", "2020-01-31")
    with pytest.raises(DataError, match="the calendar XSHG does not reach from 1900-01-01"):
        sessions("XSHG", "1900-01-01", "1900-01-31")
