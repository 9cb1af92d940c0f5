"""Expected policy gradient: its objective against every path of a small table, and an agent that learns from it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import TradingVectorEnv
from pacesetter.envs.lookback.batch import LookbackConfig, lookback_config
from pacesetter.envs.lookback.evaluation import AgentLookback, evaluate_lookback
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.lookback.policy import ConstantLookback
from pacesetter.learning.sb3.algorithms import AlgorithmAgent, learn, load_algorithm, make_algorithm, save_algorithm
from pacesetter.methods.lookback.full_information import expected_rewards
from pacesetter.panel import Panel

GRID = (8, 16, 64)


def settings(**more: Any) -> LookbackConfig:
    own: dict[str, Any] = {
        "windows": {"shortest": 8, "longest": 64, "seen": GRID, "grid": GRID},
        "view": {"method": "ccf_lag1", "encoder": "signature_summary", "context": ("volatility_10",)},
        "reward": {"components": {"signal": 1.0, "switching": 0.05}, "clip": None},
    }
    return lookback_config(**own | more)


def algorithm(panel: Panel, config: LookbackConfig, **options: Any) -> Any:
    torch.set_num_threads(1)
    small: dict[str, Any] = {"network": "mlp_tiny", "heads": (16,), "n_steps": 16}
    return make_algorithm("full_information", LookbackVectorEnv(panel, 16, config), **small | options)


def test_the_objective_is_the_mean_over_every_path_and_so_is_its_gradient() -> None:
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 3, 2, 2, generator=rng, dtype=torch.float64, requires_grad=True)
    rewards = torch.randn(1, 3, 2, 2, generator=rng, dtype=torch.float64)
    in_force = torch.tensor([[[[0, 1], [0, 1]], [[0, 0], [1, 1]], [[0, 1], [0, 1]]]])  # the second window is rejected
    start = torch.tensor([[0.3, 0.7]], dtype=torch.float64)
    policy = logits.softmax(-1)
    expected, held = expected_rewards(policy, rewards, in_force, start)
    total = torch.zeros((), dtype=torch.float64)
    for first, *choices in product((0, 1), repeat=4):
        chance, paid, before = start[0, first], torch.zeros((), dtype=torch.float64), first
        for t, choice in enumerate(choices):
            chance = chance * policy[0, t, before, choice]
            paid = paid + rewards[0, t, before, choice]
            before = int(in_force[0, t, before, choice])
        total = total + chance * paid
    torch.testing.assert_close(expected.sum(), total)
    torch.testing.assert_close(held.sum(-1), torch.ones(1, 3, dtype=torch.float64))
    (own,) = torch.autograd.grad(expected.sum(), logits, retain_graph=True)
    (every,) = torch.autograd.grad(total, logits)
    torch.testing.assert_close(own, every)


@pytest.fixture(scope="module")
def market() -> Panel:
    return Synthetic(symbols=6, bars=900, seed=1).read()


def test_it_climbs_its_objective(market: Panel) -> None:
    """On the bars that it learns from no constant scores as high; what holds out of sample is in `benchmarks/`."""
    config = settings()
    model = learn(algorithm(market, config, learning_rate=5e-3, n_epochs=4, ent_coef=0.0), 16_384)
    policies: dict[str, Any] = {f"constant {bars}": ConstantLookback(bars) for bars in GRID}
    found = evaluate_lookback(policies | {"agent": AgentLookback(AlgorithmAgent(model).act, config)}, market, config)
    assert found.table()["reward"].idxmax() == "agent"
    assert len(np.unique(found.lookbacks[:, -1])) > 1
    assert float(model.logger.name_to_value["train/value_loss"]) < 1.0


def test_it_acts_and_comes_back_the_same(market: Panel, tmp_path: Path) -> None:
    panel = market.rows(0, 300)
    model = algorithm(panel, settings())
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    learn(model, 512)
    after = model.policy.state_dict()
    assert all(value.isfinite().all() for value in after.values())
    assert not torch.equal(before["action_net.weight"], after["action_net.weight"])
    save_algorithm(model, tmp_path)
    env = LookbackVectorEnv(panel, 16, settings())
    loaded = load_algorithm(tmp_path, env)
    assert all(torch.equal(value, loaded.policy.state_dict()[name]) for name, value in after.items())
    assert loaded.num_timesteps == model.num_timesteps
    observation, _ = env.reset(seed=5)
    actions = AlgorithmAgent(model).act(observation)
    np.testing.assert_array_equal(actions, AlgorithmAgent(loaded).act(observation))
    assert env.action_space.contains(actions)


def test_the_optimum_teaches(market: Panel) -> None:
    training = market.rows(0, 600)
    taught = algorithm(training, settings(), teacher_coef=1.0, ent_coef=0.0, n_epochs=8, learning_rate=5e-3)
    learn(taught, 256)
    early = taught.logger.name_to_value["train/teacher_loss"]
    learn(taught, 6_144, reset_num_timesteps=False)
    assert taught.logger.name_to_value["train/teacher_loss"] < early


def test_an_anchor_holds_the_constant_of_the_training_set(market: Panel) -> None:
    """Where nothing is worth leaving it for, the windows are those of the constant that scored best in training."""
    config, training = settings(), market.rows(0, 300)
    held = algorithm(training, config, anchor_coef=1.0, n_epochs=8, learning_rate=5e-3)
    learn(held, 2_048)
    policies: dict[str, Any] = {f"constant {bars}": ConstantLookback(bars) for bars in GRID}
    played = evaluate_lookback(policies | {"agent": AgentLookback(AlgorithmAgent(held).act, config)}, training, config)
    windows = np.unique(played.lookbacks[:, -1])
    assert [f"constant {bars}" for bars in windows] == [played.table()["reward"].drop("agent").idxmax()]


def test_what_is_not_a_table_is_refused(market: Panel) -> None:
    panel = market.rows(0, 300)
    windows = {"shortest": 8, "longest": 64, "seen": GRID, "grid": GRID}
    for config, why in (
        (settings(windows=windows | {"max_delta": 10}), "max_delta=null"),
        (settings(windows=windows | {"action": "delta"}), "action=absolute"),
        (settings(episodes={"synthetic_share": 0.5}), "synthetic_share=0"),
        (settings(reward={"components": {"signal": {"smoothing_steps": 4}}}), "smoothed"),
    ):
        with pytest.raises(ConfigError, match=why):
            learn(algorithm(panel, config), 256)
    trades = make_algorithm("full_information", TradingVectorEnv(panel, 2, episode_bars=20), network="mlp_tiny")
    with pytest.raises(ConfigError, match="chooses windows"):
        learn(trades, 64)
    with pytest.raises(DataError, match=r"leave no decision|no bar behind the longest window"):
        learn(algorithm(panel.rows(0, 66), settings()), 256)


def test_segments_are_as_long_as_the_bars_allow(market: Panel) -> None:
    model = learn(algorithm(market.rows(0, 75), settings()), 256)  # nine decisions behind 64 bars, segments of 16
    assert model._length == 8
    assert model.num_timesteps == 256
