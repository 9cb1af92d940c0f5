"""One set of options for a table of bars, in a file or in a DataFrame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.data.table_options import TableOptions
from pacesetter.errors import DataError

FRAME = pd.DataFrame({"date": ["2020-01-02", "2020-01-03"], "A": [1.0, 2.0], "B": [3.0, 4.0]})


def test_dates_are_known_at_their_sessions_close_where_a_calendar_is_named() -> None:
    assert TableOptions().read_table(FRAME).index[0] == pd.Timestamp("2020-01-02T23:59:59Z")
    bars = TableOptions(calendar="auto").read_table(FRAME)
    assert (bars.index[0], bars.calendar) == (pd.Timestamp("2020-01-02T21:00Z"), "XNYS")


def test_symbols_are_selected_in_the_order_named() -> None:
    options = TableOptions(symbols=("B", "A"))
    bars = options.select_symbols(options.read_table(FRAME), "the frame")
    assert bars.symbols == ("B", "A")
    assert bars.blocks[0].tolist() == [[3, 1], [4, 2]]
    with pytest.raises(DataError, match="the frame has no symbol 'C'"):
        TableOptions(symbols=("C",)).select_symbols(bars, "the frame")


WRITTEN = {"$1,234.50": 1234.5, "-12": -12.0, "€ 7.25": 7.25, "1,234,567": 1234567.0, "0.5": 0.5, "": float("nan")}


def test_numbers_by_either_decimal_mark_are_read_where_it_is_said() -> None:
    swapped = str.maketrans(",.", ".,")
    for decimal, cells in (("point", [*WRITTEN]), ("comma", [text.translate(swapped) for text in WRITTEN])):
        frame = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=len(cells)), "A": cells})
        bars = TableOptions(decimal=decimal).read_table(frame)
        np.testing.assert_array_equal(bars.blocks[0, :, 0], [*WRITTEN.values()])
        assert not bars.problems


def test_a_number_by_a_mark_names_the_option_and_one_by_the_other_mark_is_refused() -> None:
    frame = FRAME.assign(A=["1.234,5", "1.235,5"])
    assert TableOptions().read_table(frame).problems[0].remedy == "write it like 1234.5, or give data.decimal=comma"
    assert TableOptions().read_table(FRAME.assign(A=["x", "y"])).problems[0].remedy == "write it like 1234.5"
    with pytest.raises(DataError, match=r"row 1: '9\.5' has no decimal comma; leave out data\.decimal=comma"):
        TableOptions(decimal="comma").read_table(FRAME.assign(A=["1.234,5", "9.5"]))


@pytest.mark.parametrize("clock", [("09:30", "16:00"), ("9:30:00", "16:00:00"), ("93000", "160000")])
def test_a_date_and_a_time_in_two_columns_are_one_stamp(clock: tuple[str, str]) -> None:
    for days in (["2020-01-02"] * 2, ["20200102"] * 2):
        frame = pd.DataFrame({"<DATE>": days, "<TIME>": clock, "<CLOSE>": [1.0, 2.0], "<OPEN>": [1.0, 1.0]})
        bars = TableOptions(timezone="America/New_York").read_table(frame)
        assert bars.fields == ("close", "open")
        assert [str(stamp) for stamp in bars.index] == ["2020-01-02 14:30:00+00:00", "2020-01-02 21:00:00+00:00"]


def test_dates_beside_midnights_are_dates_and_two_other_times_are_refused() -> None:
    frame = pd.DataFrame({"Date": ["2020-01-02"], "Time": ["00:00"], "Close": [1.0], "Open": [1.0]})
    assert TableOptions(calendar="XNYS").read_table(frame).index[0] == pd.Timestamp("2020-01-02T21:00Z")
    with pytest.raises(DataError, match="more than one time column"):
        TableOptions().read_table(frame.rename(columns={"Time": "timestamp"}))


def test_the_last_price_beside_open_and_high_is_the_close() -> None:
    frame = FRAME.rename(columns={"A": "Close/Last", "B": "High"}).assign(Open=1.0)
    bars = TableOptions().read_table(frame)
    assert dict(zip(bars.fields, bars.blocks[:, 0, 0], strict=True)) == {"close": 1.0, "high": 3.0, "open": 1.0}


def test_an_hour_that_is_there_twice_in_autumn_names_the_time_zone() -> None:
    for stamp, hint in (("2023-11-05 01:00", True), ("2023-07-05 01:00", False), ("2023-11-05 15:00", False)):
        frame = pd.DataFrame({"time": [stamp, stamp], "A": [1.0, 2.0], "B": [1.0, 2.0]})
        [finding] = TableOptions().read_table(frame).problems
        assert (finding.rule, "data.timezone" in finding.remedy) == ("duplicate", hint)
