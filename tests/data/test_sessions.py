"""Sessions of synthetic markets: closes, opens, and bars per year for daily, hourly and continuous trading."""

from __future__ import annotations

import pytest

from pacesetter.data.sessions import Sessions
from pacesetter.errors import ConfigError


def test_daily_bars_close_on_weekdays_at_21_utc():
    closes = Sessions("1D", "weekdays", "2000-01-07").closes(3)  # a Friday
    assert [str(close) for close in closes] == [
        "2000-01-07 21:00:00+00:00",
        "2000-01-10 21:00:00+00:00",
        "2000-01-11 21:00:00+00:00",
    ]


def test_hourly_bars_fill_a_session_of_seven_hours():
    sessions = Sessions("1h", "weekdays", "2000-01-03")
    closes = sessions.closes(8)
    assert sessions.bars_per_day == 7
    assert (str(closes[0]), str(closes[6])) == ("2000-01-03 15:00:00+00:00", "2000-01-03 21:00:00+00:00")
    assert sessions.opens(8).tolist() == [True, *[False] * 6, True]


def test_around_the_clock_there_is_no_open():
    sessions = Sessions("1h", "24/7", "2000-01-01")
    assert not sessions.opens(48).any()
    assert sessions.bars_per_year == pytest.approx(365.25 * 24)


def test_a_length_that_does_not_divide_the_session_is_refused():
    with pytest.raises(ConfigError, match="must be 1D, or divide a session of 7 hours"):
        Sessions("2h", "weekdays", "2000-01-03")


@pytest.mark.parametrize(
    ("start", "bars", "message"), [("soon", 1, "is not a date"), ("2260-01-01", 999, "stay within")]
)
def test_dates_that_cannot_be_are_refused(start, bars, message):
    with pytest.raises(ConfigError, match=message):
        Sessions("1D", "weekdays", start).closes(bars)
