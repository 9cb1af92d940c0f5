"""Single-agent PPO with the advantages of every order: equal to what the environments gave, resumed bit-exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.data import load
from pacesetter.envs import TradingVectorEnv
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.learner import Between
from pacesetter.learning.sb3.algorithms import learn, make_algorithm

PANEL = load("synthetic", symbols=3, bars=240, seed=1)
SMALL = (
    *("data=synthetic", "data.symbols=3", "data.bars=300", "features.names=[return_1]", "task.window_bars=2"),
    *("task.action=discrete", "task.episode_bars=10", "agent=ppo", "agent.network=mlp_tiny", "agent.heads=[8]"),
    *("agent.n_steps=12", "agent.batch_size=32", "agent.gamma=0.5", "train.envs=8", "agent.advantages=expected"),
)


def made(*more: str) -> Any:
    config = resolve([*SMALL, *more])
    return build_learner(config, build_parts(config, build_panel(config)))


@pytest.mark.parametrize("has_windows", [False, True])
def test_of_the_order_sent_it_knows_what_was_earned_and_seen(has_windows: bool) -> None:
    env = TradingVectorEnv(PANEL, 4, action="discrete", window_bars=6, episode_bars=15, has_windows=has_windows)
    bank, sizes = env.batch.bank, {"network": "mlp", "network_options": {"width": 8, "layers": 1}, "heads": (8,)}
    tables = None if has_windows else Tables(bank.windows, bank.context, bank.places, 6, False)
    options = {"n_steps": 32, "batch_size": 32, "gae_lambda": 0.0, "normalize_advantage": False}
    algorithm: Any = make_algorithm("ppo", env, tables=tables, advantages="expected", **sizes, **options)
    judged, finals, step = [], [], algorithm.env.step

    def remember(actions: Any) -> Any:
        """What would be expected of the last observations of episodes that end in this step."""
        *before, ended, infos = step(actions)
        values = np.zeros(4, dtype=np.float32)
        for place in np.flatnonzero(ended):
            entries, _ = algorithm.policy.obs_to_tensor(infos[place]["terminal_observation"])
            values[place] = float(algorithm.policy.predict_values(entries).detach())
        finals.append(values)
        return *before, ended, infos

    algorithm.env.step = remember
    algorithm.update = lambda: judged.append((algorithm.considered, algorithm.steps))  # before it changes the values
    learn(algorithm, 128)
    rows, steps = judged[0]
    # with λ = 0 a target is Σ π·Q, so that an advantage and it make Q(x, a): here r + γ·V(x') of the order sent; where
    # time was up, x' is the last observation of the episode
    sent = (rows.advantages.gather(-1, rows.actions[:, None])[:, 0] + rows.targets).view(32, 4)[:-1]
    following = torch.where(steps.ended[:-1], torch.as_tensor(np.stack(finals[:-1])), steps.values[1:])
    torch.testing.assert_close(sent, steps.rewards[:-1] + algorithm.gamma * following, atol=1e-5, rtol=1e-4)
    assert steps.ended[:-1].any()
    assert np.ptp(rows.advantages.numpy(), axis=1).max() > 0


def test_it_repeats_and_resumes_to_the_bit(tmp_path: Path) -> None:
    whole = made()
    whole.learn(3 * 96, Between(lambda: whole.save(tmp_path, {}, {"note": 7}) and None if whole.step == 96 else None))
    resumed = made("seed=0")
    resumed.load(tmp_path)
    resumed.learn(3 * 96)
    assert whole.weights_hash() == resumed.weights_hash()
    assert {"policy_gradient_loss", "value_loss", "entropy_loss", "approx_kl"} <= set(whole.losses())


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("task.action=target", "give task.action=discrete, or agent.advantages=sampled"),
        ("agent.advantages=both", "agent.advantages='both' is unknown; known: expected, sampled"),
        ("agent=maskable_ppo", "agent.advantages=expected is for agent=ppo, not maskable_ppo"),
    ],
)
def test_what_cannot_be_tried_is_refused(override: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        made(override)


def test_a_policy_that_has_moved_too_far_stops() -> None:
    learner = made("agent.target_kl=0.0000001", "agent.n_epochs=50")
    learner.learn(96)
    assert learner.algorithm._n_updates < 50
