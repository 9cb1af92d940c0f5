"""The Gantt chart of options, and its table."""

from __future__ import annotations

import pandas as pd
import pytest

from pacesetter.methods.options.page import option_spells, options_figure


@pytest.fixture
def fills() -> pd.DataFrame:
    days = pd.date_range("2024-01-01", periods=5, tz="UTC")
    closes = [10, 11, 12, 12, 9]
    options = ["wait", "trend", "trend", "wait", ""]
    return pd.DataFrame({"symbol": "A", "close": closes, "option": options}, index=days)


def test_spells_are_unbroken_bars_of_one_option(fills: pd.DataFrame) -> None:
    spells = option_spells(fills)
    assert spells["option"].tolist() == ["wait", "trend", "wait"]
    assert spells["bars"].tolist() == [1, 2, 1]  # the account that ended had none
    assert spells["start"].iloc[1] == fills.index[1]
    assert spells["move"].tolist()[1] == pytest.approx(0.1823, abs=1e-4)


def test_the_figure_has_the_price_above_a_line_for_each_option(fills: pd.DataFrame) -> None:
    figure = options_figure(fills, "A")
    assert [trace.name for trace in figure.data] == ["close", "trend", "wait"]
    trend = figure.data[1]
    assert trend.x[0] == fills.index[1]
    assert trend.x[1] == fills.index[3]  # until the end of its last bar
    assert figure.data[0].yaxis != trend.yaxis
