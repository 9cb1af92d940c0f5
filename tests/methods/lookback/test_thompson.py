"""Thompson sampling: the posterior by hand, draws with its mean and spread, and windows explored before one is kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pacesetter.data import load
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.errors import ConfigError
from pacesetter.learning.sb3.algorithms import AlgorithmAgent, learn, make_algorithm
from pacesetter.methods.lookback.thompson import WindowPosterior

GRID = (8, 16, 32)
SMALL = {"network": "mlp", "network_options": {"width": 8, "layers": 1}, "heads": (8,), "n_steps": 8, "batch_size": 32}


def filled(forgetting: float = 1.0) -> tuple[WindowPosterior, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(200, 3, generator=generator)
    choices, rewards = torch.arange(200) % 2, torch.randn(200, generator=generator)
    posterior = WindowPosterior(3, 2, prior_precision=2.0)
    posterior.update(features, choices, rewards, forgetting)
    return posterior, features, choices, rewards


def test_the_posterior_is_that_of_a_ridge_regression_per_window() -> None:
    posterior, features, choices, rewards = filled()
    for window in range(2):
        x, y = features[choices == window].double(), rewards[choices == window].double()
        expected = torch.linalg.solve(x.T @ x + 2.0 * torch.eye(3), x.T @ y)
        torch.testing.assert_close(posterior.mean[window], expected)
    before = posterior.precision.clone()
    posterior.update(features[:0], choices[:0], rewards[:0], forgetting=0.5)
    eye = 2.0 * torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(posterior.precision, 0.5 * (before - eye) + eye)  # the prior is not forgotten


def test_draws_have_the_mean_and_spread_of_the_posterior() -> None:
    posterior, *_ = filled()
    row = torch.tensor([[1.0, -2.0, 0.5]])
    torch.manual_seed(0)
    drawn = posterior.draw(row.expand(20_000, -1))
    spread = torch.stack([row[0].double() @ torch.linalg.solve(p, row[0].double()) for p in posterior.precision]).sqrt()
    torch.testing.assert_close(drawn.mean(0), (row.double() @ posterior.mean.T)[0], atol=0.005, rtol=0)
    torch.testing.assert_close(drawn.std(0), spread, rtol=0.03, atol=0)


def test_it_explores_first_and_then_keeps_what_pays() -> None:
    """A switch costs its width and staying is free: at first all windows are drawn, at last hardly any switch."""
    panel = load("synthetic", symbols=3, bars=300, seed=1)
    windows = {"shortest": 8, "longest": 32, "seen": GRID, "grid": GRID}
    env = LookbackVectorEnv(panel, 16, windows=windows, reward={"components": {"signal": 0.0, "switching": 1.0}})
    algorithm = make_algorithm("thompson", env, seed=0, **SMALL)
    observation, _ = env.reset(seed=0)
    tensors = {name: torch.as_tensor(entry) for name, entry in observation.items()}
    with torch.no_grad():
        drawn = torch.cat([algorithm.policy(tensors)[0] for _ in range(20)])
    assert len(np.unique(drawn)) == len(GRID)
    learn(algorithm, 4_096)
    agent, rewards = AlgorithmAgent(algorithm), []
    observation, _ = env.reset(seed=0)
    for _ in range(40):
        observation, reward, *_ = env.step(agent.act(observation))
        rewards.append(reward.mean())
    assert np.mean(rewards[10:]) > -0.05  # drawn windows would pay 0.44 a bar


def test_a_prior_of_nothing_is_refused() -> None:
    env = LookbackVectorEnv(
        load("synthetic", symbols=3, bars=300, seed=1),
        2,
        windows={"longest": 32, "grid": GRID, "seen": GRID, "shortest": 8},
    )
    with pytest.raises(ConfigError, match="prior_precision=0 must be above 0"):
        make_algorithm("thompson", env, prior_precision=0, **SMALL)
