"""Raw stamps to the moments at which bars are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import ConfigError, DataError
from pacesetter.stamps import StampReader, bars_per_day, day_of, end_of_day, moment_of, utc_index

Problems = list[tuple[str, list[int]]]


def known(raw: Any, **options: Any) -> tuple[list[str], Problems]:
    """Moments (NaT where none) and what was reported, as (rule, rows)."""
    problems: Problems = []
    reader = StampReader(lambda rule, what, rows, remedy="": problems.append((rule, rows.tolist())), **options)
    moments = reader.known_times(pd.Series(raw))
    assert (str(moments.tz), moments.unit) == ("UTC", "ns")
    return [f"{moment:%Y-%m-%d %H:%M:%S}" if moment == moment else "NaT" for moment in moments], [
        p for p in problems if p[1]
    ]


@pytest.mark.parametrize(
    ("raw", "moments"),
    [
        (["2020-01-02", "2020-01-03"], ["2020-01-02 23:59:59", "2020-01-03 23:59:59"]),
        ([20200102, 20200103], ["2020-01-02 23:59:59", "2020-01-03 23:59:59"]),
        (["2020-01-02 15:00", "2020-01-02T16:00:00.5"], ["2020-01-02 15:00:00", "2020-01-02 16:00:00"]),
        (["2020-01-02T15:00Z", "2020-01-02T15:00:01+0000"], ["2020-01-02 15:00:00", "2020-01-02 15:00:01"]),
        (["2020-01-02T15:00-05", "2020-01-02T15:30-05:00"][:1], ["2020-01-02 20:00:00"]),
        ([1577977200, 1577977201], ["2020-01-02 15:00:00", "2020-01-02 15:00:01"]),
        ([1577977200.5, 1577977201.5], ["2020-01-02 15:00:00", "2020-01-02 15:00:01"]),
        (pd.DatetimeIndex(["2020-01-02T15:00"], tz="Asia/Tokyo"), ["2020-01-02 06:00:00"]),
        (pd.DatetimeIndex(["2020-01-02"], tz="UTC"), ["2020-01-02 00:00:00"]),
        (np.array(["2020-01-02"], "M8[D]"), ["2020-01-02 23:59:59"]),
    ],
)
def test_stamps_as_they_are_written(raw: Any, moments: list[str]) -> None:
    assert known(raw) == (moments, [])


@pytest.mark.parametrize(
    ("raw", "rule", "rows"),
    [
        (["2020-01-02", None, "2020-01-02"], "timestamp", [1]),
        (["2020-01-02", "soon", "2020-01-03", "soon"], "timestamp", [1, 3]),
        (["2020-01-02", "2020-1-3"], "timestamp", [1]),
        (["2020-01-02T15:00Z", "2020-01-02T16:00Z", "2020-01-02T17:00"], "timestamp", [2]),
        (["2020-01-02T15:00+01:00", "2020-01-02T16:00+03:00"], "time_zone", [1]),
        ([1577977200, 1577977201, 1577977202000], "timestamp", [2]),
        ([1577977200, np.nan], "timestamp", [1]),
        ([1577977200, -5], "timestamp", [1]),
        ([1577977200, np.inf], "timestamp", [1]),
        (["2020-01-02", "3000-01-02"], "timestamp", [1]),
        ([1577977200, 99_000_000_000], "timestamp", [1]),
    ],
)
def test_what_cannot_be_read_is_reported_by_row(raw: Any, rule: str, rows: list[int]) -> None:
    assert known(raw)[1] == [(rule, rows)]


def test_dates_with_an_offset_are_dates_for_a_calendar_only() -> None:
    raw = ["2020-01-02T00:00-05:00", "2020-01-03T00:00-05:00"]
    assert known(raw)[0] == ["2020-01-02 05:00:00", "2020-01-03 05:00:00"]
    evening = known(raw, close_of=end_of_day, timezone="America/New_York")[0]
    assert evening == ["2020-01-02 23:59:59", "2020-01-03 23:59:59"]
    assert known(raw, close_of=end_of_day, timezone="America/New_York", bar="1h")[0][0] == "2020-01-02 05:00:00"
    assert known(["2020-01-02", "2020-01-03"], bar="1h", timezone="America/New_York")[0][0] == "2020-01-02 05:00:00"


@pytest.mark.parametrize("raw", [[None, None], ["x"], [1, 2], [pd.NaT], [True, False]])
def test_nothing_readable_is_refused(raw: Any) -> None:
    with pytest.raises(DataError, match=r"the table has no (timestamp in any row|readable timestamp)"):
        known(raw)


@pytest.mark.parametrize("timezone", ["", "Mars/Base", "../etc/passwd", "America"])
def test_an_unknown_zone_is_refused(timezone: str) -> None:
    if timezone:
        with pytest.raises(ConfigError, match="is unknown; write it like Europe/London"):
            known(["2020-01-02T15:00"], timezone=timezone)
    else:
        assert known(["2020-01-02T15:00"], timezone=timezone)[0] == ["2020-01-02 15:00:00"]


def test_moments_and_indices() -> None:
    assert moment_of("2020-02", last=True) == pd.Timestamp("2020-02-29T23:59:59.999999999Z")
    assert (
        moment_of("20200201", last=True)
        == moment_of("2020-02-01", last=True)
        == pd.Timestamp("2020-02-01T23:59:59.999999999Z")
    )
    assert moment_of("2020", last=True) == pd.Timestamp("2020-12-31T23:59:59.999999999Z")
    assert moment_of("2020-02-01T00", last=True) == pd.Timestamp("2020-02-01T00:00Z")
    assert moment_of("2020-02-01T12:00", last=True) == pd.Timestamp("2020-02-01T12:00Z")
    assert utc_index(["2020-01-02T15:00+09:00"])[0] == pd.Timestamp("2020-01-02T06:00Z")


def test_winter_and_summer_time_of_one_zone_are_no_error() -> None:
    raw = ["2020-03-06T16:00-05:00", "2020-03-09T16:00-04:00"]
    assert known(raw) == (["2020-03-06 21:00:00", "2020-03-09 20:00:00"], [])


def test_an_hour_that_happens_twice_is_the_later_and_a_skipped_one_the_next() -> None:
    raw = ["2020-11-01 00:30", "2020-11-01 01:30", "2020-11-01 02:30"]
    assert known(raw, timezone="America/New_York")[0] == [
        "2020-11-01 04:30:00",
        "2020-11-01 06:30:00",
        "2020-11-01 07:30:00",
    ]
    assert known(["2020-03-08 01:30", "2020-03-08 02:30"], timezone="America/New_York")[0][1] == "2020-03-08 07:30:00"


def test_both_hours_of_an_autumn_night_are_read_in_their_order() -> None:
    raw = ["2020-11-01 00:30", "2020-11-01 01:00", "2020-11-01 01:30", "2020-11-01 01:00", "2020-11-01 01:30"]
    utc = [f"2020-11-01 {clock}:00" for clock in ("04:30", "05:00", "05:30", "06:00", "06:30")]
    assert known(raw, timezone="America/New_York") == (utc, [])
    again = [*raw, "2020-11-01 00:30"]  # a true duplicate, or a long table: nothing is guessed
    assert known(again, timezone="America/New_York")[0][1] == "2020-11-01 06:00:00"
    with_offset = [f"{text}-05:00" for text in raw]
    assert known(with_offset, timezone="America/New_York")[0][1] == "2020-11-01 06:00:00"
    assert known(raw)[0][1] == "2020-11-01 01:00:00"


def test_the_midnights_of_an_exchange_are_its_dates() -> None:
    raw = ["2020-03-06T05:00Z", "2020-03-09T04:00Z"]  # New York, before and after the clocks change
    options = {"close_of": end_of_day, "zone_of": lambda moments: "America/New_York"}
    assert known(raw, **options)[0] == ["2020-03-06 23:59:59", "2020-03-09 23:59:59"]
    assert known(["2020-03-06T05:00Z", "2020-03-09T05:00Z"], **options)[0][1] == "2020-03-09 05:00:00"


@pytest.mark.parametrize(
    ("raw", "date_format", "moment"),
    [
        (["31/12/2019", "02/01/2020"], "%d/%m/%Y", "2020-01-02 23:59:59"),
        (["12/31/2019 15:00", "01/02/2020 16:30"], "%m/%d/%Y %H:%M", "2020-01-02 16:30:00"),
        (["31 Dec 2019 15:00 -0500", "02 Jan 2020 16:00 -0500"], "%d %b %Y %H:%M %z", "2020-01-02 21:00:00"),
    ],
)
def test_dates_in_the_users_own_format(raw: list[str], date_format: str, moment: str) -> None:
    moments, problems = known(raw, date_format=date_format)
    assert (moments[1], problems) == (moment, [])
    assert known([*raw, "tomorrow"], date_format=date_format)[1] == [("timestamp", [2])]


def test_bars_of_a_usual_day() -> None:
    hours = pd.date_range("2024-01-01 01:00", periods=24 * 5, freq="h", tz="UTC")  # known at their ends
    assert bars_per_day(hours) == 24
    assert np.array_equal(day_of(hours[[0, 23, 24]]) - day_of(hours)[0], [0, 0, 1])  # midnight closes its day
    assert bars_per_day(hours[:30]) == 15  # a day and a quarter: the median of 24 and 6
    assert bars_per_day(hours[:60]) == 24
    assert bars_per_day(pd.date_range("2024-01-01", periods=9, freq="W", tz="UTC")) == 1
    with pytest.raises(DataError, match="no bars have no bars a day"):
        bars_per_day(hours[:0])
