"""Bernoulli bandits: contexts against the exact Bayes-optimal reward, by dynamic programming over beliefs."""

from __future__ import annotations

from functools import cache

import pytest

from pacesetter.errors import ConfigError
from pacesetter.methods.meta.bandits import BanditOptions, BanditPolicy, exact_reward, train_bandit

Belief = tuple[tuple[int, int], ...]


@cache
def optimum(beliefs: Belief, pulls: int) -> float:
    """What the best possible policy earns in `pulls` pulls from Beta beliefs (wins + 1, losses + 1) of the arms."""
    if pulls == 0:
        return 0.0
    best = 0.0
    for arm, (wins, losses) in enumerate(beliefs):
        chance = wins / (wins + losses)
        rest = beliefs[:arm] + beliefs[arm + 1 :]
        won = optimum(tuple(sorted((*rest, (wins + 1, losses)))), pulls - 1)
        lost = optimum(tuple(sorted((*rest, (wins, losses + 1)))), pulls - 1)
        best = max(best, chance * (1 + won) + (1 - chance) * lost)
    return best


def fresh(arms: int) -> Belief:
    return ((1, 1),) * arms


@pytest.mark.parametrize(
    ("arms", "pulls", "reward"), [(2, 10, 6.0218), (2, 20, 12.4313), (3, 10, 6.4096), (5, 10, 6.6600)]
)
def test_the_optimum_is_the_published_one(arms, pulls, reward):
    assert optimum(fresh(arms), pulls) == pytest.approx(reward, abs=5e-5)


def test_a_context_comes_within_two_per_cent_of_the_optimum_and_never_above():
    options = BanditOptions(context="gru", pulls=3, width=16, rounds=25, episodes=128, batch_size=96)
    reward, best = exact_reward(train_bandit(options)), optimum(fresh(2), 3)
    assert 0.98 * best <= reward <= best + 1e-5


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["gru", "attention", "pearl"])
def test_every_context_does_with_a_longer_horizon(kind):
    reward, best = exact_reward(train_bandit(BanditOptions(context=kind, pulls=5))), optimum(fresh(2), 5)
    assert 0.98 * best <= reward <= best + 1e-5


def test_an_untrained_policy_earns_less_and_one_arm_is_refused():
    policy = BanditPolicy(BanditOptions(pulls=4, seed=1))
    assert exact_reward(policy) < 0.98 * optimum(fresh(2), 4)
    with pytest.raises(ConfigError, match=r"bandit\.arms"):
        BanditOptions(arms=1)
