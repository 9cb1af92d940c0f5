"""Vector environments with goals, and one agent that learns in them by Stable-Baselines3's hindsight buffer.

Runs `methods.goals.sb3_hindsight`, `methods.goals.reward`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.trading import TradingVectorEnv
from pacesetter.features import feature_table
from pacesetter.learning.learner import Between
from pacesetter.learning.sb3.algorithms import make_algorithm
from pacesetter.learning.sb3.learner import SB3Learner
from pacesetter.methods.goals.environment import GoalVectorEnv
from pacesetter.methods.goals.goals import HindsightConfig
from pacesetter.methods.goals.sb3_hindsight import GoalReplay


def make_env() -> GoalVectorEnv:
    panel = Synthetic(symbols=2, bars=120, seed=1).read()
    table = feature_table(panel, ["return_1"])
    env = TradingVectorEnv(panel, 4, table=table, action="continuous", window_bars=4, episode_bars=6)
    return GoalVectorEnv(env, HindsightConfig())


def test_goals_hold_for_an_episode_and_rewards_say_how_near_they_are() -> None:
    env = make_env()
    seen, _ = env.reset(seed=5)
    assert env.observation_space.contains(seen)
    for step in range(12):
        after, rewards, _, truncated, infos = env.step(env.action_space.sample())
        achieved = infos["equity"] / 100_000 - 1
        goals = seen["desired_goal"][:, 0]
        distance = np.abs(achieved - goals)
        expected = np.where(distance <= 0.001, 1.0, np.maximum(0.0, 1 - distance / 0.05))
        np.testing.assert_allclose(rewards, expected, atol=1e-5)
        np.testing.assert_array_equal(infos["is_success"], distance <= 0.001)
        assert truncated.all() == (step % 6 == 5)
        if truncated.all():
            finals = infos["final_obs"]
            np.testing.assert_allclose([final["achieved_goal"][0] for final in finals], achieved, atol=1e-6)
            assert [final["desired_goal"][0] for final in finals] == goals.tolist()
            assert (after["achieved_goal"] == 0).all()
            assert (after["desired_goal"][:, 0] != goals).all()
        else:
            np.testing.assert_array_equal(after["desired_goal"][:, 0], goals)
        seen = after


def make_learner(strategy: str) -> SB3Learner:
    options: dict[str, Any] = {"learning_starts": 20, "batch_size": 16, "buffer_size": 200}
    hindsight = {"k": 4, "strategy": strategy}
    return SB3Learner(make_algorithm("sac", make_env(), "mlp_tiny", heads=(8,), seed=1, hindsight=hindsight, **options))


def test_one_agent_with_hindsight_resumes_bit_exactly(tmp_path: Path) -> None:
    whole = make_learner("random")
    whole.learn(60, Between(lambda: whole.save(tmp_path, {}, {}) and None if whole.step == 40 else None))
    torch.manual_seed(99)
    resumed = make_learner("random")
    resumed.load(tmp_path)
    resumed.learn(60)
    assert resumed.weights_hash() == whole.weights_hash()
    buffer: Any = whole.algorithm.replay_buffer  # type: ignore[attr-defined]
    assert isinstance(buffer, GoalReplay)
    drawn = buffer.sample(100)
    kept, changed = drawn.observations["desired_goal"][:20], drawn.observations["desired_goal"][20:]
    reached = buffer.next_observations["achieved_goal"]
    assert np.isin(changed.numpy(), reached).all()
    assert not np.isin(kept.numpy(), reached).any()
    distance = (drawn.next_observations["achieved_goal"] - drawn.observations["desired_goal"]).abs()
    expected = torch.where(distance <= 0.001, 1.0, (1 - distance / 0.05).clamp(min=0))
    assert torch.allclose(drawn.rewards, expected, atol=1e-5)
