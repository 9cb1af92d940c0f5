"""Bars for the kernel: last prices where nothing traded, delistings without a look ahead."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import ConfigError, DataError
from pacesetter.market import Bar, MarketBars, Status
from pacesetter.panel import Panel

CLOSE = np.array([[np.nan], [10.0], [np.nan], [12.0], [np.nan], [np.nan], [np.nan]])


def test_missing_bars_carry_the_last_close_and_turn_into_a_delisting() -> None:
    bars = MarketBars.from_arrays(CLOSE, open=CLOSE - 1, delisted_after_bars=3)
    assert bars.values[:, 0, Bar.CLOSE].tolist() == [0, 10, 10, 12, 12, 12, 12]
    assert bars.values[:, 0, Bar.OPEN].tolist() == [0, 9, 10, 11, 12, 12, 12]
    assert [Status(status).name for status in bars.values[:, 0, Bar.STATUS]] == [
        *("HALTED", "TRADING", "HALTED", "TRADING", "HALTED", "HALTED", "DELISTED")
    ]


def test_a_symbol_that_is_not_listed_yet_is_no_delisting_and_an_unobserved_bar_has_no_volume() -> None:
    bars = MarketBars.from_arrays([[np.nan]] * 3 + [[10.0]], volume=[[5.0]] * 4, delisted_after_bars=2)
    assert bars.values[:, 0, Bar.STATUS].tolist() == [Status.HALTED] * 3 + [Status.TRADING]
    assert bars.values[:, 0, Bar.VOLUME].tolist() == [0, 0, 0, 5]


def test_status_does_not_look_ahead() -> None:
    whole = MarketBars.from_arrays(CLOSE, delisted_after_bars=2).values
    for end in range(1, len(CLOSE)):
        assert np.array_equal(MarketBars.from_arrays(CLOSE[:end], delisted_after_bars=2).values, whole[:end])


def test_from_a_panel_with_closes_only() -> None:
    index = pd.date_range("2024-01-01", periods=3, tz="UTC")
    panel = Panel.from_fields(index, ["A", "B"], {"close": np.array([[1.0, 2], [3, 4], [5, 6]])})
    bars = MarketBars.from_panel(panel)
    assert bars.symbols == ("A", "B")
    assert not bars.has_volume
    for column in (Bar.OPEN, Bar.HIGH, Bar.LOW, Bar.CLOSE):
        assert np.array_equal(bars.values[..., column], panel.close)


def test_bad_bars_are_refused() -> None:
    with pytest.raises(DataError, match="close of 'asset0' at bar 1 is -3"):
        MarketBars.from_arrays([[1.0], [-3.0]])
    with pytest.raises(DataError, match=r"open has shape \(1, 1\); give \(time, symbol\) = \(2, 1\)"):
        MarketBars.from_arrays([[1.0], [2.0]], open=[[1.0]])
    with pytest.raises(ConfigError, match="delisted_after_bars=0"):
        MarketBars.from_arrays([[1.0]], delisted_after_bars=0)
