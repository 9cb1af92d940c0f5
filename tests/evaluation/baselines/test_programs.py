"""The programs against closed forms; `test_allocators.py` holds their shares against those of skfolio."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.evaluation.baselines.programs import (
    least_variance,
    most_utility,
    parity_of_risk,
    shrunk_covariance,
    solve,
)

DEVIATIONS = np.array([0.01, 0.02, 0.04])
ROOT = np.diag(DEVIATIONS)


def test_without_correlation_shares_follow_from_the_deviations() -> None:
    inverse = 1 / DEVIATIONS**2
    np.testing.assert_allclose(solve(least_variance(ROOT, 1.0)), inverse / inverse.sum(), atol=1e-4)
    np.testing.assert_allclose(solve(parity_of_risk(ROOT, 1.0)), np.array([4, 2, 1]) / 7, atol=1e-4)


def test_the_cap_binds_and_one_that_leaves_nothing_is_no_answer() -> None:
    assert solve(least_variance(ROOT, 0.4)) == pytest.approx([0.4, 0.4, 0.2], abs=1e-4)
    for program in (least_variance(ROOT, 0.3), most_utility(ROOT, DEVIATIONS, 0.3, 2.5)):
        assert solve(program) is None


def test_the_mean_counts_the_less_the_more_risk_is_disliked() -> None:
    # w_i = (mean_i − ν) / (2 · aversion · σ_i²), the ν that makes them add up to 1
    mean, aversion = np.array([0.001, 0.002, 0.004]), 10.0
    risk = 2 * aversion * DEVIATIONS**2
    level = ((mean / risk).sum() - 1) / (1 / risk).sum()
    wanted = (mean - level) / risk
    assert (wanted > 0).all()
    np.testing.assert_allclose(solve(most_utility(ROOT, mean, 1.0, aversion)), wanted, atol=1e-3)
    np.testing.assert_allclose(solve(most_utility(ROOT, mean, 1.0, 1e6)), solve(least_variance(ROOT, 1.0)), atol=1e-3)


def test_the_covariance_is_shrunk_towards_equal_variances() -> None:
    moves = np.random.default_rng(0).normal(0, DEVIATIONS, (30, 3))
    plain, shrunk = np.cov(moves.T, bias=True), shrunk_covariance(moves)
    assert np.trace(shrunk) == pytest.approx(np.trace(plain))
    assert np.ptp(np.diag(shrunk)) < np.ptp(np.diag(plain))
