"""One answer: strength forward and backward, sign and delay, and everything else agrees with it.

Runs `leadlag.answer.network`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag import ESTIMATORS, LeadLag
from pacesetter.leadlag.answer import Preparation, StrengthMeasure, answer_window
from pacesetter.leadlag.answer.answer import lagged_correlations
from pacesetter.leadlag.answer.rolling import rolling_answers
from pacesetter.leadlag.estimators.dependence import pearson
from pacesetter.leadlag.series import read_series
from pacesetter.leadlag.study import Study, refuse_mixed_days
from pacesetter.panel import Panel

SYMBOLS = ("A", "B", "C", "D")
LAGLESS = ("dtw", "levy_path", "levy_returns", "signature")


def led(seed: int = 0, bars: int = 600) -> np.ndarray:
    """A leads B by one bar, C against it by three; D is noise."""
    x = np.random.default_rng(seed).standard_normal((bars, 4))
    x[1:, 1] += 0.8 * x[:-1, 0]
    x[3:, 2] -= 0.8 * x[:-3, 0]
    return x


def panel_of(increments: np.ndarray) -> Panel:
    close = 100 * np.exp(0.01 * np.cumsum(increments, axis=0))
    fields = {"open": np.vstack([close[:1], close[:-1]]), "close": close}  # fills at the close that was seen
    return Panel.from_fields(pd.date_range("2024", periods=len(close), tz="UTC"), SYMBOLS, fields)


def test_a_leader_of_either_sign_leads_with_its_delay() -> None:
    answer = answer_window(led(), SYMBOLS, StrengthMeasure("ccf_peak"))
    assert answer.leadership[0, 1] > 0.4
    assert answer.leadership[0, 2] > 0.4  # who predicts negatively leads as well
    assert (answer.delays[0, 1], answer.delays[0, 2]) == (1, 3)
    assert answer.relation(0, 1) == "leads, same sign"
    assert answer.relation(0, 2) == "leads, opposite sign"
    assert (answer.lag_map[0, 1], answer.lag_map[1, 0], answer.lag_map[0, 2]) == (1, -1, 3)
    np.testing.assert_array_equal(answer.leadership, -answer.leadership.T)


def test_one_signed_delay_keeps_its_sign_and_a_peak_of_one_delay_does_not() -> None:
    x = np.random.default_rng(1).standard_normal((500, 2))
    x[1:, 1] -= 0.8 * x[:-1, 0]
    assert answer_window(x, "AB", StrengthMeasure("ccf_lag1")).leadership[0, 1] < -0.4  # REFERENCE's definition
    assert answer_window(x, "AB", StrengthMeasure("ccf_peak", max_lag=1)).leadership[0, 1] > 0.4


@pytest.mark.parametrize("method", sorted(set(ESTIMATORS) - {"policy"}))  # which needs a run: test_relations
def test_every_method_has_an_antisymmetric_answer_and_names_delays_only_if_it_has_them(method: str) -> None:
    gauge = StrengthMeasure(method)
    answer = answer_window(led(bars=300), SYMBOLS, gauge)
    np.testing.assert_allclose(answer.leadership, -answer.leadership.T)
    assert (answer.forward >= 0).all()
    assert gauge.has_lags == (method not in LAGLESS)
    assert np.isnan(answer.lag_map).all() == (method in LAGLESS)
    if not gauge.has_lags:
        np.testing.assert_allclose(answer.leadership, gauge.scores(led(bars=300)[None])[0], atol=1e-12)


@pytest.mark.parametrize("method", sorted(set(ESTIMATORS) - {"policy"}))
def test_matrix_ranking_and_time_line_are_one_measure(method: str) -> None:
    panel = panel_of(led(bars=300))
    lag = LeadLag(method).fit(panel)
    matrix = lag.matrix(lookback=250)
    window = lag.series_.observed_window(299, 250)
    np.testing.assert_allclose(answer_window(window, SYMBOLS, StrengthMeasure(method)).leadership, matrix, atol=1e-10)
    ranking = lag.ranking(lookback=250, draws=4)
    scores = matrix.sum(axis=1) / 3
    np.testing.assert_allclose(ranking["leadership"].loc[list(SYMBOLS)], scores, atol=1e-10)
    np.testing.assert_allclose(lag.rolling(250, step=49).iloc[-1], scores, atol=1e-10)
    ends = np.array([250, 299])
    *_, block = rolling_answers(lag.series_, ends, 250, StrengthMeasure(method), Preparation())
    np.testing.assert_allclose(block.leadership[-1], matrix, atol=1e-9)


def test_the_delays_of_the_answer_are_those_of_the_estimator() -> None:
    panel = panel_of(led(bars=300))
    series = read_series(panel, "log", 0, False)
    answer = answer_window(series.observed_window(299, 250), SYMBOLS, StrengthMeasure("ccf_peak"))
    np.testing.assert_array_equal(answer.lag_map, LeadLag("ccf_peak").fit(panel).lags(299, 250))


def test_batched_correlations_are_those_of_pearson() -> None:
    windows = np.stack([led(seed, 80) for seed in range(3)])
    expected = [list(pearson(window, range(1, 6))) for window in windows]
    np.testing.assert_allclose(lagged_correlations(windows, 5), expected, atol=1e-12)


@pytest.mark.parametrize("method", ["ccf_peak", "ccf_auc", "ccf_lag1"])
def test_sliding_windows_have_the_answers_of_single_ones(method: str) -> None:
    series = read_series(panel_of(led(bars=260)), "log", 0, False)
    gauge, ends = StrengthMeasure(method), np.array([60, 61, 75, 80, 200, 259])
    (block,) = rolling_answers(series, ends, 60, gauge, Preparation())
    for end, leadership, delays in zip(ends, block.leadership, block.delays, strict=True):
        answer = answer_window(series.observed_window(end, 60), SYMBOLS, gauge)
        np.testing.assert_allclose(leadership, answer.leadership, atol=1e-10)
        away = ~np.eye(4, dtype=bool)
        np.testing.assert_array_equal(delays[away], (answer.delays * answer.signs)[away])


def test_ranking_links_lag_map_network_and_strategy_tell_one_story() -> None:
    result = Study(lookback=500, step=100, draws=100).run(panel_of(led(bars=800)))
    assert set(result.network.edges) >= {("A", "B"), ("A", "C")}
    assert result.table().index[0] == "A"
    for leader, follower, link in result.network.edges(data=True):
        i, j = SYMBOLS.index(leader), SYMBOLS.index(follower)
        assert link["weight"] == pytest.approx(result.matrix[i, j])
        assert link["weight"] == pytest.approx(link["forward"] - link["backward"])
        assert result.lags[i, j] == link["delay"] > 0
    assert result.network.edges["A", "C"]["relation"] == "leads, opposite sign"
    assert result.strategy["gross_t"] > 5  # it goes against A three bars later for C
    assert result.window_text == "500 days"


def test_bad_input_is_one_sentence() -> None:
    panel = panel_of(led(bars=60))
    with pytest.raises(ConfigError, match=r"^lag\.lookback=250 is longer than the history of 59 bars"):
        Study(lookback=250).run(panel)
    with pytest.raises(ConfigError, match=r"^lookback=90D is longer than the history of 59 bars"):
        Study(lookback="90D").run(panel)
    with pytest.raises(ConfigError, match=r"^lag\.lookback=soon is neither bars, e\.g\. 720, nor a length of time"):
        Study(lookback="soon")
    with pytest.raises(DataError, match="at least two assets"):
        Study(lookback=30).run(panel.select(["A"]))
    close = panel.close[:, :2]
    mixed = Panel.from_fields(panel.index, ["XLK", "1617.T"], {"close": close})
    with pytest.raises(DataError, match=r"^1617\.T and XLK trade in different time zones but share one timestamp"):
        Study(lookback=30).run(mixed)


def test_classes_of_shares_are_not_another_exchange() -> None:
    panel = panel_of(led(bars=60))
    named = ["AAPL", "BRK.B", "1617.T"]
    refuse_mixed_days(Panel.from_fields(panel.index, named[:2], {"close": panel.close[:, :2]}))
    with pytest.raises(DataError, match=r"^1617\.T and AAPL trade in different time zones"):
        refuse_mixed_days(Panel.from_fields(panel.index, named, {"close": panel.close[:, :3]}))
