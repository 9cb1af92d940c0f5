"""Frames of every layout become the same bars; what cannot be read is listed with its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import DataError
from pacesetter.frames import Bars, Finding, read_frame, recognise
from pacesetter.panel import Panel

DAYS = pd.DatetimeIndex(["2020-01-02", "2020-01-03"])
CLOSES = pd.DataFrame({"AAA": [1.0, 2.0], "BBB": [3.0, 4.0]}, index=DAYS)


def both() -> pd.DataFrame:
    """(field, symbol) columns."""
    return pd.concat({"close": CLOSES, "volume": CLOSES * 10}, axis=1)


def long() -> pd.DataFrame:
    return both().stack(future_stack=True).rename_axis(["date", "symbol"])


@pytest.mark.parametrize(
    "frame",
    [
        both(),
        both().swaplevel(axis=1),
        both().swaplevel(axis=1).sort_index(axis=1),
        both().rename(columns=str.upper),
        both().rename_axis(index="Date").reset_index(),
        long(),
        long().reset_index(),
        long().reset_index().sample(frac=1, random_state=1).sort_values("date"),
        long().swaplevel().sort_index(),
        long().reset_index().rename(columns={"date": "Time", "symbol": "Ticker", "close": "C", "volume": "Vol"}),
        long().reset_index().assign(name="a company"),
        long().reset_index().astype({"close": object, "symbol": "category"}),
        long().reset_index().astype({"close": "Float64", "volume": "int32"}),
    ],
)
def test_every_layout_gives_the_same_bars(frame: pd.DataFrame) -> None:
    panel = Panel.from_frame(frame)
    ordered = panel.select(["AAA", "BBB"])
    assert ordered.close.tolist() == CLOSES.to_numpy().tolist()
    assert ordered.volume.tolist() == (CLOSES.to_numpy() * 10).tolist()
    assert [str(moment) for moment in panel.index] == ["2020-01-02 23:59:59+00:00", "2020-01-03 23:59:59+00:00"]


def test_long_rows_by_time_by_symbol_or_mixed_are_the_same_bars() -> None:
    rng, days = np.random.default_rng(0), pd.date_range("2020-01-01", periods=30, freq="h")
    whole = pd.DataFrame(
        {"timestamp": days.repeat(4), "symbol": ["B", " A", "C ", "D"] * 30, "close": rng.uniform(1, 2, 120)}
    )
    by_time = whole.drop([5, 6, 40])  # a symbol without a bar here and there
    expected = read_frame(by_time)
    assert expected.symbols == ("B", "A", "C", "D")
    assert (len(expected.index), int(expected.mask.sum()), expected.rows[0, 1]) == (30, 117, 1)
    numbers = by_time.index.to_numpy()
    mixed = by_time.sample(frac=1, random_state=3).sort_values("timestamp", kind="stable")
    for rows in (by_time.sort_values("symbol", kind="stable"), mixed, by_time.astype({"symbol": "category"})):
        bars = read_frame(rows, numbers=rows.index.to_numpy())
        assert not bars.problems
        columns = [bars.symbols.index(name) for name in expected.symbols]
        np.testing.assert_array_equal(bars.blocks[:, :, columns], expected.blocks)
        np.testing.assert_array_equal(bars.mask[:, columns], expected.mask)
        np.testing.assert_array_equal(bars.rows[:, columns], np.where(expected.mask, numbers[expected.rows], -1))
    twice = read_frame(pd.concat([by_time, by_time.iloc[-1:]]))
    assert [problem.rule for problem in twice.problems] == ["duplicate"]


def test_one_symbol_and_wide_closes() -> None:
    one = Panel.from_frame(
        pd.DataFrame({"Open": [1, 2], "Close": [1.5, 2.5], "RSI 14": [50, 60]}, index=DAYS), symbol="X"
    )
    assert (one.symbols, one.fields) == (("X",), ("open", "close", "RSI 14"))
    assert Panel.from_frame(CLOSES).fields == ("close",)
    assert Panel.from_frame(CLOSES.rename(columns={"AAA": "DAY"})).symbols == ("DAY", "BBB")  # a ticker


def test_stamps_say_when_a_bar_is_known() -> None:
    hours = pd.date_range("2020-01-02T14:30", periods=2, freq="1h")
    for index in (
        hours,
        hours.tz_localize("UTC"),
        hours.tz_localize("UTC").tz_convert("America/New_York"),
        hours.as_unit("s"),
    ):
        assert Panel.from_frame(CLOSES.set_index(index)).index.equals(hours.tz_localize("UTC").as_unit("ns"))
    midnights = DAYS.tz_localize("UTC").as_unit("ns")  # with an offset a midnight is a moment and no date
    assert Panel.from_frame(CLOSES.set_index(midnights)).index.equals(midnights)


def test_a_panel_comes_back_from_its_own_frame() -> None:
    index = pd.date_range("2020-01-02", periods=2, freq="1D", tz="UTC")
    panel = Panel.from_fields(index, ["C", "LOW"], {"close": CLOSES.to_numpy(), "Alpha": CLOSES.to_numpy()})
    assert Panel.from_frame(panel.to_frame()) == panel
    assert Panel.from_frame(panel.to_frame().swaplevel(axis=1)) == panel


def test_missing_cells_are_unobserved() -> None:
    frame = CLOSES.assign(AAA=[np.nan, 2.0])
    panel = Panel.from_frame(frame)
    assert panel.mask.tolist() == [[False, True], [True, True]]
    assert Panel.from_frame(frame.astype(object)) == panel


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (CLOSES.iloc[:0], "the table is empty: it has no rows"),
        (CLOSES[[]], "the table is empty: it has no columns"),
        (CLOSES.reset_index(drop=True), "the table has no timestamps"),
        (
            CLOSES.iloc[::-1],
            "row 1 (all symbols, 2020-01-02 23:59:59+00:00): the bar is older than the one before it [order]",
        ),
        (CLOSES.iloc[[0, 0]], "row 1 (all symbols, 2020-01-02 23:59:59+00:00): the bar appears twice [duplicate]"),
        (CLOSES.assign(BBB=[1.0, "x"]), "row 1 (BBB): close is 'x', not a number [wrong_type]"),
        (CLOSES.assign(BBB=[True, False]), "row 0 (BBB): close is 'True', not a number [wrong_type, 2 times]"),
        (CLOSES.assign(BBB=[1.0, True]), "row 1 (BBB): close is 'True', not a number [wrong_type]"),
        (CLOSES.assign(BBB=[1 + 1j, 2]), "row 0 (BBB): close is '(1+1j)', not a number [wrong_type, 2 times]"),
        (CLOSES.assign(BBB=DAYS), "row 0 (BBB): close is '2020-01-02', not a number [wrong_type, 2 times]"),
        (CLOSES.set_axis(["AAA", "AAA"], axis=1), "the table has two columns for close of AAA; keep one"),
        (CLOSES.set_axis(["AAA", ""], axis=1), "the table has a column without a name (number 2 after the time)"),
        (both().rename(columns={"close": "price"}), "the table has no close [missing_column]; it has price, volume"),
        (
            CLOSES.set_axis(pd.MultiIndex.from_tuples([("close", "A", 1), ("close", "A", 2)]), axis=1),
            "not pairs of field",
        ),
        (CLOSES.set_index(pd.DatetimeIndex([pd.NaT, "2020-01-03"])), "row 0: the timestamp is missing [timestamp]"),
        (long().reset_index().assign(symbol=[None, "A", "A", "B"]), "row 0: the symbol is missing [symbol]"),
        (long().reset_index().assign(other_time=0).rename(columns={"other_time": "time"}), "more than one time column"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_row(frame: pd.DataFrame, said: str) -> None:
    with pytest.raises(DataError) as caught:
        Panel.from_frame(frame)
    assert said in str(caught.value)


def test_every_problem_is_listed_and_rows_keep_their_numbers() -> None:
    frame = pd.DataFrame({"date": ["2020-01-03", "2020-01-02", "2020-01-02", "never"], "AAA": [1, "x", 3, 4]})
    bars = read_frame(frame, origin="bars.csv", numbers=np.array([2, 3, 5, 9]))
    found = {problem.rule: (problem.where, problem.count) for problem in bars.problems}
    assert found == {
        "timestamp": ("bars.csv row 9", 1),
        "order": ("bars.csv row 3", 1),
        "duplicate": ("bars.csv row 5", 1),
        "wrong_type": ("bars.csv row 3", 1),
    }
    assert bars.rows[:, 0].tolist() == [5, 2]
    assert bars.blocks[0, :, 0].tolist() == [3, 1]
    assert (bars.where(0, 0), bars.panel().close.tolist()) == ("bars.csv row 5", [[3], [1]])


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("Date", "timestamp"),
        ("Adj Close", "adj_close"),
        (" CLOSE ", "close"),
        ("ticker", "symbol"),
        ("My Field", "My Field"),
        (5, "5"),
    ],
)
def test_recognise(name: Any, ours: str) -> None:
    assert recognise(name) == ours


def test_a_finding_is_one_sentence() -> None:
    assert Finding("gap", "a bar is missing").sentence() == "a bar is missing [gap]"
    full = Finding("gap", "a bar is missing", "x.csv row 7", "AAA", "2020-01-02", 3, remedy="fill it")
    assert full.sentence() == "x.csv row 7 (AAA, 2020-01-02): a bar is missing [gap, 3 times]; fill it"


def test_bars_side_by_side_keep_their_rows_and_calendar() -> None:
    one, two = read_frame(CLOSES[["AAA"]], origin="a"), read_frame(CLOSES[["BBB"]].iloc[1:], origin="b")
    whole = Bars.join_symbols([one, two])
    assert (whole.symbols, whole.origins) == (("AAA", "BBB"), ("a", "b"))
    assert whole.rows.tolist() == [[0, -1], [1, 0]]
    assert (whole.where(0, 1), whole.where(1, 1)) == ("b", "b row 0")
    assert Bars.of(whole.panel(calendar="XNYS")).calendar == "XNYS"
