"""NaN marks an absent asset and never spreads."""

from __future__ import annotations

import numpy as np

from pacesetter.leadlag.observed import mean_observed, observed_assets, ratio


def test_an_asset_without_finite_links_is_absent() -> None:
    matrix = np.array([[0.0, np.nan, 1.0], [np.nan, np.nan, np.nan], [-1.0, np.nan, 0.0]])
    assert observed_assets(matrix).tolist() == [True, False, True]


def test_ratio_is_nan_where_nothing_divides() -> None:
    np.testing.assert_array_equal(ratio([2.0, 1.0, 0.0], [4.0, 0.0, -1.0]), [0.5, np.nan, np.nan])


def test_mean_counts_finite_values_only() -> None:
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(mean_observed(values, axis=1), [2.0, np.nan])
