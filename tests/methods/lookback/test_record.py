"""A policy that begins at the windows' record: cross-validation's choice before it learns, and the same as a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.batch import LookbackConfig, lookback_config
from pacesetter.envs.lookback.evaluation import AgentLookback
from pacesetter.envs.lookback.table import RewardTable
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.errors import ConfigError
from pacesetter.leadlag.lookback.baselines import CrossValidatedLookback, WindowScores
from pacesetter.learning.sb3.algorithms import AlgorithmAgent, learn, load_algorithm, make_algorithm, save_algorithm
from pacesetter.learning.sb3.readout import readout
from pacesetter.methods.lookback.record import RecordLogits, RecordRule, best_rule, better_constant
from pacesetter.panel import Panel
from pacesetter.policies.modules import serve_algorithm
from pacesetter.serving.bundle.export import export_onnx
from pacesetter.serving.bundle.model import Model

GRID = (8, 16, 64)


@pytest.fixture(scope="module")
def market() -> Panel:
    return Synthetic(symbols=5, bars=320, seed=1).read()


def settings(record: Any) -> LookbackConfig:
    return lookback_config(
        windows={"shortest": 8, "longest": 64, "seen": GRID, "grid": GRID},
        view={"method": "ccf_lag1", "encoder": "signature_summary", "context": ["volatility_10"]}
        | {"record_bars": record},
        reward={"components": {"signal": 1.0, "switching": 0.05}},
    )


def algorithm(panel: Panel, config: LookbackConfig, **options: Any) -> Any:
    torch.set_num_threads(1)
    small: dict[str, Any] = {"network": "mlp_tiny", "heads": (16,), "n_steps": 16, "seed": 3}
    return make_algorithm("full_information", LookbackVectorEnv(panel, 8, config), **small | options)


def test_before_it_learns_it_chooses_as_cross_validation(market: Panel) -> None:
    config = settings(100)
    agent = AgentLookback(AlgorithmAgent(algorithm(market, config, record_coef=30.0)).act, config)
    rule = CrossValidatedLookback(WindowScores(GRID, "ccf_lag1"), history_bars=100)
    chosen, expected = np.array(
        [[policy.choose(market, t, 16) for t in range(180, 320)] for policy in (agent, rule)]  # every window is known
    )
    np.testing.assert_array_equal(chosen, expected)
    assert len(set(expected)) > 1


def test_several_records_stand_side_by_side(market: Panel) -> None:
    batches = [settings(record).make_batch(market) for record in (20, 100, [20, 100])]
    first, second, both = (batch.markets[0].record for batch in batches)
    np.testing.assert_array_equal(both, np.concatenate([first, second], axis=1))
    batches[2].reset([0])
    assert batches[2].entries()["record"] == batches[2].observe()["record"].shape[1] == 6
    with pytest.raises(ConfigError, match=r"record_bars=\(20, 0\) must be 1 bar or more"):
        settings([20, 0])


def test_logits_are_the_network_and_the_weighted_records() -> None:
    layer = RecordLogits(hidden=4, places=(0.0, 0.5, 1.0), records=2, coef=10.0)
    latent = torch.randn(5, 4 + 6 + 3)
    records = latent[:, 4:10].reshape(5, 2, 3)
    torch.testing.assert_close(layer(latent), 10.0 * records.mean(1))
    with torch.no_grad():
        layer.network.weight.normal_()
        layer.weights.copy_(torch.tensor([0.2, 0.7]))
    expected = latent[:, :4] @ layer.network.weight.T + 2.0 * records[:, 0] + 7.0 * records[:, 1]
    torch.testing.assert_close(layer(latent), expected)
    layer.begin_with(RecordRule(np.array([0.2, 0.7]), 0.08))
    latent[:, 10] = 0.5  # the window in force; the last two are the bounds
    away = torch.tensor([0.5, 0.0, 0.5])
    torch.testing.assert_close(layer(latent), expected - 0.8 * away)


def test_without_a_weight_it_is_the_plain_policy(market: Panel) -> None:
    plain, zero = (learn(algorithm(market, settings(20), **more), 128) for more in ({}, {"record_coef": 0.0}))
    other = zero.policy.state_dict()
    assert all(torch.equal(value, other[name]) for name, value in plain.policy.state_dict().items())
    assert other["action_net.weight"].abs().max() > 0
    assert "action_net.weights" not in other


def test_it_learns_comes_back_and_is_exported(market: Panel, tmp_path: Path) -> None:
    config = settings([10, 40])
    model = algorithm(market, config, record_coef=30.0, learning_rate=3e-3)
    before = model.policy.action_net.weights.detach().clone()
    learn(model, 512)
    assert not torch.equal(before, model.policy.action_net.weights)
    assert model.policy.action_net.network.weight.abs().max() > 0
    save_algorithm(model, tmp_path)
    env = LookbackVectorEnv(market, 8, config)
    loaded, (shown, _) = load_algorithm(tmp_path, env), env.reset(seed=5)
    module, spec = serve_algorithm(loaded, {}, "discrete")
    graph = Model(export_onnx(module, spec))(shown)["probabilities"]
    own = readout(model)
    expected = own.actions(own.tensors(shown)).detach().numpy()
    np.testing.assert_allclose(graph, expected, atol=1e-6)
    np.testing.assert_array_equal(graph.argmax(-1), AlgorithmAgent(model).act(shown))


def test_it_needs_a_record(market: Panel) -> None:
    with pytest.raises(ConfigError, match=r"record_coef=30 .*set task.view.record_bars, e.g. 250"):
        algorithm(market, settings(None), record_coef=30.0)


def held_rewards(rewards: np.ndarray, cost: float) -> RewardTable:
    """A table of windows that earn `rewards` (time, window) less a cost of switching."""
    bars, windows = rewards.shape
    total = rewards[:, None, :] - cost * (1 - np.eye(windows))
    places = np.broadcast_to(np.arange(windows), total.shape)
    grid = np.linspace(0, 1, windows)
    return RewardTable(np.arange(bars), ("signal",), places[:, 0], total, total[..., None], places, rewards > -9, grid)


def test_what_a_rule_earns_is_played_bar_by_bar() -> None:
    rng = np.random.default_rng(0)
    table, worth = held_rewards(rng.normal(size=(50, 3)), 0.3), rng.normal(size=(50, 3))
    held, earned = int(worth[0].argmax()), []
    for t in range(50):
        chosen = int((worth[t] - 0.7 * np.abs(np.array([0, 0.5, 1]) - held / 2)).argmax())
        earned.append(table.total[t, held, chosen])
        held = chosen
    np.testing.assert_array_equal(table.rewards_of(worth, 0.7), earned)
    rule = RecordRule(np.array([0.0, 1.0]), 0.7)  # of two records the second alone counts
    np.testing.assert_array_equal(rule.rewards_of(np.hstack([-worth, worth]), table), earned)


def test_a_constant_counts_where_it_is_clearly_better_than_the_records() -> None:
    bars = 640
    rewards = np.tile([[1.0, 0.0]], (bars, 1))
    rewards[bars // 2 :] = [0.0, 1.0]  # the best window changes once
    record, usable = np.roll(rewards, 1, axis=0), np.ones(bars, dtype=bool)
    record[0] = 0.5
    one, two = RecordRule(np.ones(1), 0.0), RecordRule(np.full(2, 0.5), 0.0)
    assert better_constant(one, record, held_rewards(rewards, 0.0), usable) is None  # the record follows
    wrong = np.tile([[0.0, 9.0]], (bars, 1))  # averaged with the other one it outweighs it
    both = np.concatenate([record, wrong], axis=1)
    first = np.arange(bars) < bars // 2
    assert better_constant(two, both, held_rewards(rewards, 0.0), first) == 0
    assert better_constant(two, both, held_rewards(rewards, 0.0), ~first) is None  # there it is right
    few = first & (np.arange(bars) < 100)
    assert better_constant(two, both, held_rewards(rewards, 0.0), few) is None  # one block

    # Noise: a record that chooses at random is as good as a constant, which is best by chance alone.
    rng = np.random.default_rng(0)
    noise, random = rng.normal(size=(bars, 2)), rng.normal(size=(bars, 2))
    assert better_constant(one, random, held_rewards(noise, 0.0), usable) is None
    # The same where each switch costs: now staying is clearly better.
    assert better_constant(one, random, held_rewards(noise, 1.0), usable) is not None


def test_a_switch_must_pay_where_records_are_noise() -> None:
    bars, rng = 2_000, np.random.default_rng(1)
    usable, noise = np.ones(bars, dtype=bool), rng.normal(size=(bars, 3))
    record = 0.1 * rng.normal(size=(bars, 3))
    rule = best_rule(record, 1, held_rewards(0.1 * noise, 0.05), usable, by_state=False)
    assert rule.stay >= 0.08
    switching = RecordRule(np.ones(1), 0.0).rewards_of(record, held_rewards(np.zeros((bars, 3)), 0.05)).mean()
    assert (
        rule.rewards_of(record, held_rewards(np.zeros((bars, 3)), 0.05)).mean() > 0.3 * switching
    )  # what switches cost
    # Where the record tells the next best window, every switch pays, and nothing is waited for.
    assert best_rule(0.1 * noise, 1, held_rewards(noise, 0.0), usable, by_state=False).stay == 0.0


@pytest.mark.parametrize("place", [None, 1])
def test_only_a_policy_that_learned_nothing_is_given_a_start(
    market: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int | None
) -> None:
    module = "pacesetter.methods.lookback.full_information.better_constant"
    monkeypatch.setattr(module, lambda *_: place)
    config = settings([5, 20, 80])
    model = learn(algorithm(market, config, record_coef=30.0, learning_rate=0.0), 128)
    layer, env = model.policy.action_net, LookbackVectorEnv(market, 8, config)
    assert bool((layer.weights == 0).all()) == (place is not None)
    if place is not None:
        assert (AlgorithmAgent(model).act(env.reset(seed=5)[0]) == place).all()
    with torch.no_grad():
        layer.weights.copy_(torch.tensor([0.2, 0.3, 0.5]))
    save_algorithm(model, tmp_path)
    loaded = learn(load_algorithm(tmp_path, env), 128)
    np.testing.assert_allclose(loaded.policy.action_net.weights.detach().numpy(), [0.2, 0.3, 0.5])


def test_a_record_by_state_counts_where_it_earned_clearly_more() -> None:
    bars, rng = 640, np.random.default_rng(0)
    right = rng.integers(0, 2, bars)
    rewards = np.eye(2)[right] + 0.1 * rng.normal(size=(bars, 2))
    blind, state = 0.1 * rng.normal(size=(bars, 4)), np.eye(2)[right]
    table, usable = held_rewards(rewards, 0.0), np.ones(bars, dtype=bool)
    assert best_rule(np.hstack([blind, state]), 3, table, usable, True).weights.tolist() == [0.5, 0.5, 1.0]
    harmful = np.hstack([np.tile(state, 2), -3 * state])
    assert best_rule(harmful, 3, table, usable, True).weights.tolist() == [0.5, 0.5, 0.0]
    # A gain by chance is not clear: the usual rule stays.
    nothing = rng.normal(size=(bars, 2))
    assert best_rule(np.hstack([blind, nothing]), 3, held_rewards(np.zeros((bars, 2)), 0.0), usable, True).stay == 0.08
