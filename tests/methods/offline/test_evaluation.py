"""Off-policy estimates on a tabular decision process that is solved exactly."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.methods.offline.evaluation import (
    doubly_robust,
    effective_episodes,
    fitted_q,
    importance_sampling,
    weighted_importance_sampling,
)

STATES, ACTIONS, HORIZON, GAMMA = 4, 3, 6, 0.9


class World:
    """Random transitions and rewards, a behaviour policy and another one to be evaluated."""

    def __init__(self, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.moves = generator.dirichlet(np.ones(STATES), (STATES, ACTIONS))
        self.rewards = generator.normal(size=(STATES, ACTIONS))
        self.behaviour = generator.dirichlet(4 * np.ones(ACTIONS), STATES)
        self.policy = generator.dirichlet(4 * np.ones(ACTIONS), STATES)
        self.start = generator.dirichlet(np.ones(STATES))

    def exact(self) -> np.ndarray:
        """(horizon + 1, state, action) values of h more steps under the policy."""
        values = np.zeros((HORIZON + 1, STATES, ACTIONS))
        for h in range(HORIZON):
            following = (self.policy * values[h]).sum(1)
            values[h + 1] = self.rewards + GAMMA * self.moves @ following
        return values

    @property
    def answer(self) -> float:
        return float(self.start @ (self.policy * self.exact()[-1]).sum(1))

    def play(self, episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(episode, step) states, the last one behind the end, actions and noisy rewards."""
        generator = np.random.default_rng(seed)
        states = np.zeros((episodes, HORIZON + 1), dtype=int)
        actions = np.zeros((episodes, HORIZON), dtype=int)
        states[:, 0] = generator.choice(STATES, episodes, p=self.start)
        for t in range(HORIZON):
            actions[:, t] = _drawn(generator, self.behaviour[states[:, t]])
            states[:, t + 1] = _drawn(generator, self.moves[states[:, t], actions[:, t]])
        rewards = self.rewards[states[:, :-1], actions] + 0.5 * generator.normal(size=actions.shape)
        return states, actions, rewards

    def log_ratios(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        before = states[:, :-1]
        return np.log(self.policy[before, actions]) - np.log(self.behaviour[before, actions])


def _drawn(generator: np.random.Generator, shares: np.ndarray) -> np.ndarray:
    return (generator.random((len(shares), 1)) > np.cumsum(shares, axis=1)).sum(1).clip(0, shares.shape[1] - 1)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def one_hot(states: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(row, state · action) of states and (row, action) shares."""
    return (np.eye(STATES)[states][:, :, None] * shares[:, None]).reshape(len(states), -1)


def fit(world: World, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    basis = one_hot(states[:, :-1].ravel(), np.eye(ACTIONS)[actions.ravel()])
    after = states[:, 1:].ravel()
    return fitted_q(basis, one_hot(after, world.policy[after]), rewards.ravel(), GAMMA, HORIZON)


def test_importance_sampling_is_unbiased(world):
    states, actions, rewards = world.play(20_000, 1)
    found = importance_sampling(world.log_ratios(states, actions), rewards, GAMMA)
    assert abs(found.mean() - world.answer) < 3 * found.std() / len(found) ** 0.5


def test_the_weighted_estimate_is_consistent_and_less_wild(world):
    def errors(of, episodes: int) -> np.ndarray:
        found = []
        for seed in range(40):
            states, actions, rewards = world.play(episodes, 100 + seed)
            found.append(of(world.log_ratios(states, actions), rewards, GAMMA) - world.answer)
        return np.array(found)

    plain = errors(lambda *given: float(importance_sampling(*given).mean()), 50)
    few, many = errors(weighted_importance_sampling, 50), errors(weighted_importance_sampling, 2_000)
    assert np.square(few).mean() < np.square(plain).mean()
    assert np.square(many).mean() < 0.1 * np.square(few).mean()
    assert abs(many.mean()) < 0.05


def test_fitted_q_evaluation_becomes_the_exact_values(world):
    states, actions, rewards = world.play(20_000, 2)
    weights = fit(world, states, actions, rewards).reshape(HORIZON + 1, STATES, ACTIONS)
    assert np.abs(weights - world.exact()).max() < 0.1
    assert np.array_equal(weights[0], np.zeros((STATES, ACTIONS)))


@pytest.mark.parametrize("is_right", [True, False], ids=["a right model", "a wrong model"])
def test_the_doubly_robust_estimate_needs_one_of_model_and_probabilities(world, is_right):
    states, actions, rewards = world.play(20_000, 3)
    model = world.exact() if is_right else np.random.default_rng(9).normal(size=world.exact().shape)
    left = HORIZON - np.arange(HORIZON)
    taken = model[left, states[:, :-1], actions]
    values = (world.policy[states[:, :-1]] * model[left[None], states[:, :-1]]).sum(-1)
    found = doubly_robust(world.log_ratios(states, actions), rewards, taken, values, GAMMA)
    assert abs(found.mean() - world.answer) < 3 * found.std() / len(found) ** 0.5
    if is_right:
        plain = importance_sampling(world.log_ratios(states, actions), rewards, GAMMA)
        assert found.std() < 0.7 * plain.std()


def test_equal_policies_make_every_episode_count():
    assert effective_episodes(np.zeros((30, 5))) == pytest.approx(30)
    alone = np.zeros((30, 5))
    alone[0, 0] = 50.0
    assert effective_episodes(alone) == pytest.approx(1)
