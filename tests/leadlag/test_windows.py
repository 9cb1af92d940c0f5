"""Windows by date and length of time, frames instead of panels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pacesetter as ps
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.windows import bar_of, bars_in, is_span, span_text, usual_window


@pytest.fixture(scope="module")
def market() -> ps.Panel:
    return ps.load("synthetic", symbols=4, bars=600, strength=0.8, groups=1, seed=1)


def test_a_date_and_a_length_of_time_name_the_window(market: ps.Panel) -> None:
    lag = ps.LeadLag("ccf_lag1").fit(market)
    end = bar_of(market.index, "2001-06")
    assert market.index[end] <= pd.Timestamp("2001-06-30T23:59:59Z") < market.index[end + 1]
    back = bars_in(market.index, end, "100D")
    assert market.index[end] - market.index[end - back] <= pd.Timedelta("100D")
    assert market.index[end] - market.index[end - back - 1] > pd.Timedelta("100D")
    found = lag.matrix(end="2001-06", lookback="100D")
    assert np.array_equal(found.to_numpy(), lag.scores(end, back))
    assert list(found.index) == list(found.columns) == list(market.symbols)
    assert (found.index.name, found.columns.name) == ("leader", "follower")


def test_wide_and_long_frames_and_panels_give_the_same_matrix(market: ps.Panel) -> None:
    wide = pd.DataFrame(market.close, index=market.index, columns=list(market.symbols))
    long = wide.rename_axis("timestamp").reset_index().melt("timestamp", var_name="symbol", value_name="close")
    expected = ps.LeadLag("ccf_lag1").fit(market).matrix()
    for frame in (wide, long):
        pd.testing.assert_frame_equal(ps.LeadLag("ccf_lag1").fit(frame).matrix(), expected)


def test_rolling_leadership_is_a_frame_over_time(market: ps.Panel) -> None:
    lag = ps.LeadLag("ccf_lag1").fit(market)
    frame = lag.rolling(100, step=50)
    assert list(frame.columns) == list(market.symbols)
    others = lag.scores(150, 100)
    np.testing.assert_allclose(frame.loc[market.index[150]], others.sum(1) / 3, rtol=1e-12)


def test_wrong_calls_are_answered_in_a_sentence(market: ps.Panel) -> None:
    lag = ps.LeadLag().fit(market)
    for call, sentence in (
        (lambda: lag.matrix(lookback="soon"), "not a length of time"),
        (lambda: lag.matrix(lookback="10Y"), "longer than the history of 599 bars"),
        (lambda: lag.matrix(lookback=2.5), "whole number of bars or a length of time"),
        (lambda: lag.matrix(end="1990-01-01"), "before the first bar"),
        (lambda: ps.LeadLag().matrix(), "not fitted"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            call()
    with pytest.raises(DataError, match="a Panel or a DataFrame, not list"):
        ps.LeadLag().fit([1, 2, 3])  # type: ignore[arg-type]


def test_it_follows_scikit_learns_conventions(market: ps.Panel) -> None:
    from sklearn.base import clone

    lag = ps.LeadLag("ccf_peak", max_lag=3).fit(market)
    copy = clone(lag)
    assert copy.get_params() == lag.get_params()
    assert not hasattr(copy, "symbols_")
    assert copy.set_params(max_lag=2).get_params()["max_lag"] == 2
    assert repr(copy) == "LeadLag('ccf_peak', max_lag=2)"


@pytest.mark.parametrize(
    ("freq", "bars", "window", "text"),
    [
        ("h", 35_000, 1080, "1,080 hours = 45 days"),
        ("D", 3_000, 1095, "1,095 days = 3.0 years"),
        ("B", 3_000, 1043, "1,043 trading days = 4.0 years"),
        ("min", 3_000, 1440, "1,440 minutes = 24 hours"),
        ("5min", 3_000, 1152, "1,152 bars = 4 days"),
        ("B", 301, 150, "150 trading days = 210 days"),  # half of a short history
    ],
)
def test_the_usual_window_is_a_round_length_of_time(freq: str, bars: int, window: int, text: str) -> None:
    index = pd.date_range("2020-01-01", periods=bars, freq=freq, tz="UTC")
    assert usual_window(index) == window
    assert span_text(index, window) == text


def test_a_length_of_time_is_not_a_folder() -> None:
    assert all(map(is_span, ("30D", "720h", "3Y", "2 years", "1.5d", "90min")))
    assert not any(map(is_span, ("runs/lookback-30D", "30", "D", "soon")))
