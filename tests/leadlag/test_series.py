"""Increments, their gaps, and which assets a window may score."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri
from scipy.stats import rankdata

from pacesetter.errors import DataError
from pacesetter.leadlag.series import read_series, required_observations
from pacesetter.panel import Panel


def test_an_increment_needs_both_its_bars(panel_of) -> None:
    mask = np.ones((6, 2), bool)
    mask[3, 0] = False
    series = read_series(panel_of(np.full((5, 2), 0.1), mask), "log", 0, False)
    assert_allclose(series.x[:, 0], [0, 0.1, 0.1, 0, 0, 0.1], atol=1e-12)
    assert_array_equal(series.totals[-1, 2], [3, 5])


def test_spanning_increments_run_from_the_last_observed_bar(panel_of) -> None:
    mask = np.ones((6, 2), bool)
    mask[3, 0] = False
    series = read_series(panel_of(np.full((5, 2), 0.1), mask), "log", 0, True)
    assert_allclose(series.x[:, 0], [0, 0.1, 0.1, 0, 0.2, 0.1], atol=1e-12)
    assert_allclose(series.path[-1], 0.5)


def test_differences_are_of_closes(panel_of) -> None:
    panel = panel_of(np.full((3, 2), 0.1))
    series = read_series(panel, "difference", 0, False)
    assert_allclose(series.x[1:], np.diff(panel.close, axis=0))


def test_required_observations_are_ten_or_half_the_window_or_as_told() -> None:
    asked = [(2, 0), (12, 0), (60, 0), (60, 45), (20, 45)]
    assert [required_observations(lookback, minimum) for lookback, minimum in asked] == [2, 10, 30, 45, 20]


def test_weights_are_inverse_deviations_and_nan_where_not_scored(panel_of) -> None:
    returns = np.random.default_rng(0).standard_normal((40, 4))
    returns[:, 1] = 0.003  # steady growth
    returns[:, 2] = 0.0  # halted
    mask = np.ones((41, 4), bool)
    mask[5:30, 3] = False
    series = read_series(panel_of(returns, mask), "log", 0, False)
    weights = series.weights(40, 40)
    assert_allclose(weights[0], 1 / returns[:, 0].std())
    assert np.isnan(weights[1:]).all()
    reasons = series.diagnose(40, 40)
    assert list(reasons) == ["A1", "A2", "A3"]
    assert reasons["A1"].startswith("constant")
    assert reasons["A3"] == "14 of 40 returns observed, 20 needed"


def test_what_cannot_be_read_is_refused(panel_of, noise: Panel) -> None:
    for panel, message in (
        (noise.select(["A0"]), "at least two assets, the panel has 1"),
        (noise.rows(0, 1), "at least two bars, the panel has 1"),
        (noise.with_field("close", noise.close - 100), "no logarithm; use increments='difference'"),
    ):
        with pytest.raises(DataError, match=message):
            read_series(panel, "log", 0, False)


@pytest.mark.parametrize("increments", ["ranked", "winsorised"])
def test_ranks_and_quantiles_are_those_of_the_bars_so_far(panel_of, increments) -> None:
    returns = np.random.default_rng(4).standard_t(3, (150, 2)) / 100
    returns[40, 0] = -0.9
    returns[50:60, 1] = 0.0  # ties
    mask = np.ones((151, 2), bool)
    mask[20, 1] = False
    panel = panel_of(returns, mask)
    plain, series = read_series(panel, "log", 0, False), read_series(panel, increments, 0, False)
    for column in (0, 1):
        here = np.flatnonzero(np.diff(plain.totals[:, 2, column], prepend=0))
        for k in (3, 60, len(here) - 1):
            past = plain.x[here[: k + 1], column]
            value = ndtri(rankdata(past)[-1] / (k + 2))
            expected = value if increments == "ranked" else np.clip(past[-1], *np.quantile(past, [0.01, 0.99]))
            assert series.x[here[k], column] == pytest.approx(expected, abs=1e-12)
    assert np.abs(series.x[:, 0]).max() < (3 if increments == "ranked" else 0.6)
    part = read_series(panel.rows(0, 100), increments, 0, False)
    assert_array_equal(part.x, series.x[:100])  # a later bar changes nothing
