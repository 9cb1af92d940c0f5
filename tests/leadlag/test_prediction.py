"""What the leaders of a window predict: known answers, the definitions in NumPy, and what is known when."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.leadlag import LeadLag
from pacesetter.leadlag.prediction import (
    Measure,
    Prediction,
    leader_information,
    measure_windows,
    window_predictions,
)
from pacesetter.leadlag.strategy import fill_to_fill_returns
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.panel import Panel

THREE = np.array([[0.0, 0.5, 0.2], [-0.5, 0.0, 0.1], [-0.2, -0.1, 0.0]])


def measured(matrix: np.ndarray, moves: list[float], outcomes: list[float], before: np.ndarray) -> np.ndarray:
    """The measures of one matrix at bar 0 of tables with one row."""
    tables = Prediction(np.array([moves]), np.array([outcomes]))
    return measure_windows(matrix[None], np.zeros(1, dtype=np.int64), tables, before[None])[0]


def test_the_prediction_is_the_cosine_of_pushes_with_outcomes() -> None:
    found = measured(THREE, [2.0, -1.0, 3.0], [0.3, 1.0, -1.0], np.full(3, np.nan))
    push = np.array([0.0, 0.5 * 2.0, 0.2 * 2.0 + 0.1 * -1.0])
    outcomes = np.array([0.3, 1.0, -1.0])
    expected = push @ outcomes / np.sqrt((push @ push) * (outcomes @ outcomes))
    assert found[Measure.PREDICTION] == pytest.approx(expected, abs=1e-15)
    assert found[Measure.STRENGTH] == pytest.approx((0.5 + 0.2 + 0.1) / 3)
    assert found[Measure.IS_MEASURED] == 1.0


def test_leader_scores_are_row_means_and_agree_with_themselves() -> None:
    before = row_mean(THREE)
    scores = before.copy()
    assert measured(THREE, [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], scores)[Measure.AGREEMENT] == pytest.approx(1.0)
    np.testing.assert_allclose(scores, before, atol=1e-15)
    assert measured(-THREE, [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], scores)[Measure.AGREEMENT] == pytest.approx(-1.0)


def test_an_absent_asset_neither_pushes_nor_is_scored() -> None:
    matrix = THREE.copy()
    matrix[2], matrix[:, 2] = np.nan, np.nan
    scores = np.full(3, np.nan)
    found = measured(matrix, [1.0, 0.0, 9.0], [0.0, 1.0, np.nan], scores)
    assert found[Measure.PREDICTION] == pytest.approx(1.0)
    np.testing.assert_allclose(scores, [0.5, -0.5, np.nan])


@pytest.mark.parametrize("matrix", [np.full((3, 3), np.nan), np.zeros((3, 3))])
def test_nothing_to_compare_gives_defined_values_and_says_so(matrix: np.ndarray) -> None:
    found = measured(matrix, [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], np.full(3, np.nan))
    np.testing.assert_array_equal(found, [0.0, 0.0, 1.0, 0.0])


def test_many_windows_at_once_are_the_same_bits(noise: Panel) -> None:
    engine = LeadLag("ccf_auc").fit(noise)
    tables = Prediction.of(noise, engine)
    bars = np.arange(60, 100)
    matrices = engine.many(bars, 50)
    together = measure_windows(matrices, bars, tables, np.full((40, 7), np.nan))
    for row, bar in enumerate(bars):
        alone = measure_windows(matrices[[row]], bars[[row]], tables, np.full((1, 7), np.nan))
        np.testing.assert_array_equal(together[row], alone[0], err_msg=f"bar {bar}")


def test_a_longer_horizon_compounds_fill_to_fill_returns(noise: Panel) -> None:
    engine = LeadLag("ccf_lag1").fit(noise)
    one, three = (Prediction.of(noise, engine, bars, 100).outcomes for bars in (1, 3))
    returns = fill_to_fill_returns(noise)
    compound = (1 + returns[150]) * (1 + returns[151]) * (1 + returns[152]) - 1
    np.testing.assert_allclose(three[150] / one[150], compound / returns[150])
    assert np.isnan(three[-4:]).all()
    assert np.isfinite(three[-5]).all()


def test_a_horizon_below_one_bar_is_refused(noise: Panel) -> None:
    with pytest.raises(ConfigError, match="horizon_bars=0"):
        window_predictions(noise, [20], horizon_bars=0)


def test_planted_leaders_foretell_and_noise_does_not(planted, noise: Panel) -> None:
    panel, _ = planted(5, 1.0, 0)  # closes only: what is decided at t earns the response two bars later
    assert np.nanmean(window_predictions(panel, [100], "ccf_auc", variant="difference")) > 0.1
    scores = window_predictions(noise, [20, 60])
    assert np.all(np.abs(np.nanmean(scores, axis=0)) < 3 * np.nanstd(scores, axis=0) / np.sqrt(300))


def test_row_t_is_known_when_its_outcome_is(noise: Panel) -> None:
    whole = window_predictions(noise, [30], horizon_bars=2)
    cut = window_predictions(noise.rows(0, 200), [30], horizon_bars=2)  # the last bar is 199
    np.testing.assert_array_equal(cut[:197], whole[:197])
    assert np.isnan(cut[197:]).all()


def test_information_is_one_for_a_copy_and_about_zero_for_noise() -> None:
    rng = np.random.default_rng(0)
    lead = rng.standard_normal(400)
    copy, other = np.roll(lead, 1), rng.standard_normal(400)
    found = np.empty(1)
    ends, lookbacks, scores = np.array([399]), np.array([300]), np.array([[1.0, -1.0]])
    leader_information(np.column_stack([lead, copy]), ends, lookbacks, scores, found)
    assert found[0] > 0.95
    leader_information(np.column_stack([lead, other]), ends, lookbacks, scores, found)
    assert abs(found[0]) < 0.03
