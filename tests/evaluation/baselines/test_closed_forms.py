"""Closed forms against brute force: a linear system for decaying signals, and other shares for the cushion."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.baselines.closed_forms import (
    DecayProblem,
    OracleClosed,
    WorldGoal,
    cushion_growth,
    cushion_shares,
    play_cushion,
)
from pacesetter.market.parameters import MarketParameters

DECAY = DecayProblem(np.array([0.5, 0.95]), variance=1e-4, aversion=10.0, cost=60.0)


def brute_force(problem: DecayProblem, start: np.ndarray, bars: int) -> np.ndarray:
    """Best positions against signals that decay from `start` without noise: the quadratic problem's linear system."""
    signals = start[:, None] * problem.persistence[:, None] ** np.arange(bars)
    keep = 1 - problem.discount
    matrix, wanted = np.zeros((bars, bars)), np.zeros(bars)
    for t in range(bars):
        now, gain = keep**t, keep ** (t + 1)
        matrix[t, t] += gain * problem.aversion * problem.variance + now * problem.cost * problem.variance
        wanted[t] = gain * signals[:, t].sum()
        if t + 1 < bars:
            later = keep ** (t + 1) * problem.cost * problem.variance
            matrix[t, t] += later
            matrix[t, t + 1] -= later
            matrix[t + 1, t] -= later
    return np.linalg.solve(matrix, wanted)


@pytest.mark.parametrize("discount", [0.0, 0.02])
def test_decay_is_the_best_of_all_paths(discount):
    problem = DecayProblem(DECAY.persistence, 1e-4, aversion=10.0, cost=60.0, discount=discount)
    start = np.array([2e-3, -5e-4])
    signals = start[:, None] * problem.persistence[:, None] ** np.arange(400)
    # Certainty equivalence: the best response to signals with noise is that to their expected decay.
    assert problem.positions(signals)[:50] == pytest.approx(brute_force(problem, start, 400)[:50], rel=1e-6)


def test_the_aim_trusts_the_fast_signal_less():
    fast, slow = DECAY.aim(np.array([[1e-3, 0.0], [0.0, 1e-3]]))
    assert 0 < fast < 0.6 * slow < slow < 1e-3 / (10 * 1e-4)
    assert 0 < DECAY.speed < 1


def test_on_the_world_itself_no_other_speed_or_trust_has_more_utility():
    panel = Synthetic(symbols=4, bars=4_000, groups=1, unrelated_share=0.0, world="decay", max_delay=1, seed=1).read()
    follower = int(np.flatnonzero(panel.truth.schedule.at(0).lags)[0])
    signals = panel.truth.signals[:, :, follower]
    problem = DecayProblem(np.array([0.5, 0.9]), variance=float(np.var(np.log(panel.close / panel.open)[:, follower])))
    best = problem.utility(problem.positions(signals), signals)
    assert best > 0

    def other(speed: float, trust: np.ndarray) -> float:
        held, path = 0.0, []
        for aim in trust @ signals / (problem.aversion * problem.variance):
            held += speed * (aim - held)
            path.append(held)
        return problem.utility(np.array(path), signals)

    own = 1 / (1 + (1 - problem.persistence) * problem.curvature / problem.aversion)
    assert other(problem.speed, own) == pytest.approx(best)
    rivals = [other(problem.speed * s, own * [f, 1.0]) for s in (0.4, 0.7, 1.4, 2.5) for f in (0.3, 0.6, 1.6, 3.0)]
    assert max(rivals) < best
    assert other(1.0, np.ones(2)) < best  # Markowitz: straight to the target, every bar


DRIFT, COVARIANCE = np.array([0.08, 0.05]), np.array([[0.04, 0.01], [0.01, 0.0225]])
STEPS = 250  # of a year, and small enough for the continuous answer


def moves(years: int, seed: int) -> np.ndarray:
    root = np.linalg.cholesky(COVARIANCE)
    noise = np.random.default_rng(seed).normal(size=(years * STEPS, 2)) @ root.T / np.sqrt(STEPS)
    return DRIFT / STEPS + noise


def test_the_cushion_grows_as_published():
    years = 400
    growth, lived = play_cushion(moves(years, 1), DRIFT, COVARIANCE, limit=0.8)
    merton, _ = play_cushion(moves(years, 1), DRIFT, COVARIANCE, limit=0.0)
    assert lived
    expected = cushion_growth(DRIFT, COVARIANCE, 0.8)
    assert expected == pytest.approx(0.2 * cushion_growth(DRIFT, COVARIANCE, 0.0))
    # The same path: both differ from their expectations by the same noise.
    assert growth / merton == pytest.approx(0.2, abs=0.02)
    assert growth * STEPS == pytest.approx(expected, rel=0.25)


def test_no_other_multiple_of_the_cushion_grows_faster():
    paths = [moves(100, seed) for seed in range(2, 8)]
    growth = {
        scale: np.mean([play_cushion(path, DRIFT, COVARIANCE, 0.8, scale)[0] for path in paths])
        for scale in (0.4, 1.0, 1.9)
    }
    assert growth[1.0] == max(growth.values())


def test_at_the_limit_nothing_is_held():
    assert not cushion_shares(DRIFT, COVARIANCE, 0.8, 1.0, 0.8).any()
    full = np.linalg.solve(COVARIANCE, DRIFT)
    assert cushion_shares(DRIFT, COVARIANCE, 1.0, 1.0, 0.8) == pytest.approx(0.2 * full)
    crash = np.array([[-0.9, -0.9]])
    assert play_cushion(crash, DRIFT, COVARIANCE, 0.8)[1] is False


def test_a_problem_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="limit=1"):
        cushion_shares(DRIFT, COVARIANCE, 1.0, 1.0, 1.0)
    with pytest.raises(ConfigError, match="cost=0"):
        DecayProblem(np.array([0.5]), 1e-4, cost=0)


def test_a_market_without_what_the_formula_reads_is_refused():
    panel = Synthetic(symbols=3, bars=60, groups=1).read()
    with pytest.raises(DataError, match="oracle_closed reads the signals that a world is the sum of"):
        OracleClosed.for_goal(WorldGoal(aversion=10.0), panel.truth, MarketParameters())
    with pytest.raises(DataError, match=r"and this market has none; give data\.world=decay"):
        OracleClosed.for_goal(WorldGoal(limit=0.2), None, MarketParameters())
