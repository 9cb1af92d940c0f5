"""Deflated Sharpe ratios by the papers' figures; the probability of overfitting on worlds with a known answer."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.statistics.overfitting import (
    deflated_sharpe,
    effective_bars,
    expected_best_sharpe,
    minimum_track_record,
    overfitting_probability,
    probabilistic_sharpe,
)


def noise(seed: int, bars: int = 640, trials: int = 50) -> Any:
    return 0.01 * np.random.default_rng(seed).standard_normal((bars, trials))


@pytest.mark.parametrize(("trials", "probability"), [(100, 0.9004), (46, 0.9505)])
def test_the_example_of_the_paper(trials: int, probability: float) -> None:
    # Bailey, López de Prado 2014: annualised Sharpe ratio 2.5 over five years of 250 days, variance of trials ½ a year
    reference = expected_best_sharpe(trials, np.sqrt(0.5 / 250))
    found = probabilistic_sharpe(2.5 / np.sqrt(250), reference, 1250, skewness=-3, kurtosis=10)
    assert found == pytest.approx(probability, abs=5e-5)
    if trials == 100:
        assert reference == pytest.approx(0.1132, abs=5e-5)


def test_the_best_of_many_is_as_expected() -> None:
    ratios = np.random.default_rng(0).standard_normal((4000, 200))
    assert expected_best_sharpe(200, 1.0) == pytest.approx(ratios.max(axis=1).mean(), rel=0.01)
    assert expected_best_sharpe(1, 1.0) == 0.0


def test_one_trial_is_not_deflated() -> None:
    returns = 0.05 + np.random.default_rng(1).standard_normal(1000)
    shape = float(stats.skew(returns)), float(stats.kurtosis(returns, fisher=False))
    bars = effective_bars(returns)
    assert 900 < bars <= 1000
    assert deflated_sharpe(returns) == pytest.approx(probabilistic_sharpe(float(sharpe(returns)), 0.0, bars, *shape))
    assert deflated_sharpe(returns, [0.01]) == deflated_sharpe(returns)


def test_every_trial_counts_even_one_without_a_result() -> None:
    returns = 0.05 + np.random.default_rng(2).standard_normal(1000)
    few, more = [0.15, -0.11, 0.03], [0.15, -0.11, 0.03, np.nan, np.nan]
    assert deflated_sharpe(returns) > deflated_sharpe(returns, few) > deflated_sharpe(returns, more)
    assert deflated_sharpe(returns, [np.nan] * 3) < deflated_sharpe(returns)
    assert deflated_sharpe(np.zeros(10), few) < 0.5


def autoregressive(seed: int, coefficient: float, bars: int = 1000, many: int = 1) -> Any:
    """(bar, many) returns without skill, each remembering `coefficient` of the last."""
    shocks = np.random.default_rng(seed).standard_normal((bars + 100, many))
    return lfilter([0.01], [1, -coefficient], shocks, axis=0)[100:]


def test_trials_in_cash_do_not_make_evidence_easier() -> None:
    returns = 0.08 + np.random.default_rng(2).standard_normal(1000)
    for spread in (0.01, 0.03, 0.3):  # below, at and above what luck alone makes ratios of 1,000 bars differ by
        tried = spread * np.random.default_rng(3).standard_normal(20)
        among = [deflated_sharpe(returns, [*tried, *np.zeros(idle)]) for idle in (0, 1, 10, 1000)]
        assert among == sorted(among, reverse=True)
    # ratios that are all the same are taken to differ by their standard error, here 1/√(effective bars − 1)
    reference = expected_best_sharpe(50, 1 / np.sqrt(effective_bars(returns) - 1))
    shape = float(stats.skew(returns)), float(stats.kurtosis(returns, fisher=False))
    found = probabilistic_sharpe(float(sharpe(returns)), reference, effective_bars(returns), *shape)
    assert deflated_sharpe(returns, [0.05] * 50) == pytest.approx(found)


def test_effective_bars_are_what_the_definition_says() -> None:
    returns = autoregressive(5, 0.6, bars=14)[:, 0]
    about = returns - returns.mean()
    memory = [sum(about[t] * about[t + lag] for t in range(14 - lag)) / sum(about**2) for lag in range(14)]
    total = 0.0
    for lag in range(0, 14, 2):
        pair = memory[lag] + memory[lag + 1]
        if pair <= 0:
            break
        total += 2 * pair
    assert effective_bars(returns) == pytest.approx(14 / (total - 1))


@pytest.mark.parametrize(("coefficient", "share"), [(0.0, 1.0), (0.3, 7 / 13), (0.7, 3 / 17)])
def test_effective_bars_of_a_known_memory(coefficient: float, share: float) -> None:
    # an average of n bars with memory c varies as one of n·(1 − c)/(1 + c) bars without
    found = [effective_bars(each) for each in autoregressive(6, coefficient, 4000, 40).T]
    assert np.median(found) / 4000 == pytest.approx(share, rel=0.06)


def test_effective_bars_are_never_more_than_the_bars_nor_fewer_than_two() -> None:
    assert effective_bars(np.tile([0.01, -0.01], 50)) == 100  # what turns back each time is not counted as more
    assert effective_bars(np.full(100, 0.01)) == 100
    assert effective_bars(np.repeat([0.01, -0.01], 50)) >= 2
    assert effective_bars(np.array([0.01, -0.01])) == 2


@pytest.mark.parametrize("coefficient", [0.0, 0.3, 0.7])
def test_memory_is_not_taken_for_skill(coefficient: float) -> None:
    found = sum(deflated_sharpe(each) >= 0.95 for each in autoregressive(7, coefficient, 500, 400).T)
    assert stats.binomtest(int(found), 400, 0.05, "greater").pvalue > 0.01


def test_the_track_record_is_longer_where_returns_have_memory() -> None:
    returns = 0.001 + autoregressive(8, 0.7, 2000)[:, 0]
    short = minimum_track_record(np.random.default_rng(0).permutation(returns))
    assert 3 < minimum_track_record(returns) / short < 9  # 17/3 by its definition


def test_the_track_record_is_where_the_probability_is_reached() -> None:
    returns = 0.05 + np.random.default_rng(3).standard_normal(1000)
    shape = float(stats.skew(returns)), float(stats.kurtosis(returns, fisher=False))
    bars = (minimum_track_record(returns, 0.99) - 1) * effective_bars(returns) / 1000 + 1
    assert probabilistic_sharpe(float(sharpe(returns)), 0.0, bars, *shape) == pytest.approx(0.99)
    assert minimum_track_record(-np.abs(returns)) == np.inf


def test_the_choice_among_noise_fails_half_the_time() -> None:
    found = [overfitting_probability(noise(seed), blocks=8) for seed in range(100)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)
    assert min(found) > 0.1


def test_the_choice_of_one_that_is_good_does_not_fail() -> None:
    returns = noise(0)
    returns[:, 7] += 0.003
    assert overfitting_probability(returns) < 0.01


def test_a_trial_that_is_good_in_one_half_only_is_found_out() -> None:
    returns = noise(1, trials=2)
    returns[:320, 0] += 0.01
    returns[320:, 0] -= 0.02
    returns[:, 1] += 0.0001
    assert overfitting_probability(returns, blocks=2) == 1.0  # whoever is best in one half is the worse in the other
    assert overfitting_probability(np.zeros((100, 3))) == 1.0  # nothing to choose is not a choice


def test_it_is_what_the_definition_says() -> None:
    returns, blocks = noise(2, bars=43, trials=5), 4
    parts = np.split(returns[3:], blocks)
    lost = []
    for chosen in combinations(range(blocks), 2):
        inside = np.concatenate([parts[k] for k in chosen])
        outside = np.concatenate([parts[k] for k in range(blocks) if k not in chosen])
        rank = stats.rankdata(sharpe(outside))[np.argmax(sharpe(inside))] / (returns.shape[1] + 1)
        lost.append(np.log(rank / (1 - rank)) <= 1e-12)
    assert overfitting_probability(returns, blocks) == np.mean(lost)


@pytest.mark.parametrize(
    ("returns", "blocks", "kind", "message"),
    [
        (np.zeros(9), 4, DataError, "at least two trials"),
        (np.zeros((9, 1)), 4, DataError, "at least two trials"),
        (np.zeros((99, 2)), 5, ConfigError, "blocks=5 must be even"),
        (np.zeros((9, 2)), 8, ConfigError, "leave 9 bars two or more each"),
    ],
)
def test_what_cannot_be_judged_is_refused(returns: Any, blocks: int, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        overfitting_probability(returns, blocks)
