from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.features.rolling import (
    change,
    lag_bars,
    ratio,
    rolling_correlation,
    rolling_max,
    rolling_mean,
    rolling_min,
    rolling_rank,
    rolling_std,
    rolling_sum,
    smooth_exponentially,
)

PANDAS = {
    rolling_sum: lambda window: window.sum(),
    rolling_mean: lambda window: window.mean(),
    rolling_max: lambda window: window.max(),
    rolling_min: lambda window: window.min(),
    rolling_std: lambda window: window.std(ddof=0),
    rolling_rank: lambda window: (window.rank() - 1) / (window.count() - 1),
}


@settings(max_examples=20, deadline=None, derandomize=True)
@given(length=st.integers(0, 60), bars=st.integers(2, 25), seed=st.integers(0, 999))
def test_windows_agree_with_pandas(length: int, bars: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(length)
    for function, expected in PANDAS.items():
        np.testing.assert_allclose(function(x, bars), expected(pd.Series(x).rolling(bars)), rtol=1e-9, atol=1e-12)


def test_correlation_agrees_with_pandas_along_every_row() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 3, 80))
    expected = pd.DataFrame(x.T).rolling(20).corr(pd.DataFrame(y.T)).to_numpy().T
    np.testing.assert_allclose(rolling_correlation(x, y, 20), expected, rtol=1e-9)


@pytest.mark.parametrize("value", [0.1, 1e9, 1 / 3])
def test_a_still_series_has_its_own_mean_and_no_deviation(value: float) -> None:
    x = np.full(50, value)
    assert (rolling_mean(x, 20)[19:] == value).all()
    assert (rolling_std(x, 20)[19:] == 0).all()
    assert (rolling_correlation(x, np.arange(50.0), 20)[19:] == 0).all()


def test_a_spike_leaves_no_rounding_behind() -> None:
    x = np.ones(60)
    x[10] = 1e20
    assert (rolling_sum(x, 20)[30:] == 20).all()


def test_deviation_keeps_its_digits_far_from_zero() -> None:
    x = 1e9 + np.random.default_rng(0).standard_normal(60)
    windows = np.lib.stride_tricks.sliding_window_view(x - 1e9, 20)
    np.testing.assert_allclose(rolling_std(x, 20)[19:], windows.std(axis=1), rtol=1e-9)


def test_lagged_and_change() -> None:
    x = np.array([1.0, 4.0, 9.0])
    np.testing.assert_array_equal(lag_bars(x, 2), [np.nan, np.nan, 1.0])
    np.testing.assert_array_equal(change(x), [np.nan, 3.0, 5.0])


def test_ratio_is_flat_only_where_both_are_zero() -> None:
    np.testing.assert_array_equal(ratio(np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 2.0]), flat=7.0), [7, np.inf, 0])


def test_smoothing_begins_with_the_mean_of_the_first_known_values() -> None:
    x = np.array([[np.nan, 1.0, 3.0, 6.0, np.nan], [2.0, 4.0, 7.0, 5.0, 5.0], [np.nan, np.nan, np.nan, np.nan, 9.0]])
    expected = [[np.nan, np.nan, 2, 4, np.nan], [np.nan, 3, 5, 5, 5], [np.nan] * 5]
    np.testing.assert_array_equal(smooth_exponentially(x, 2, 0.5), expected)


def test_what_is_missing_makes_its_windows_missing_and_no_other() -> None:
    x = np.arange(12.0)
    x[4] = np.nan
    for function in PANDAS:
        assert np.flatnonzero(np.isnan(function(x, 3))).tolist() == [0, 1, 4, 5, 6]
