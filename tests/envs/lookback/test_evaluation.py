"""All policies in one table: the environment's own rewards, honest errors, and an agent beside the baselines."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.batch import lookback_config
from pacesetter.envs.lookback.environment import LookbackEnv
from pacesetter.envs.lookback.evaluation import AgentLookback, LookbackEvaluation, evaluate_lookback
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.lookback.baselines import WindowScores, baseline_policies
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy
from pacesetter.panel import Panel

GRID = (8, 16, 64)
CONFIG = lookback_config(
    windows={"shortest": 8, "longest": 64, "seen": GRID, "grid": GRID},
    reward={"components": {"signal": 1.0, "switching": 0.05, "follow_through": 1.0}},
    episodes={"bars": None, "starts": "fixed"},
)


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Synthetic(symbols=5, bars=400, seed=1).read()


def test_a_constant_gets_what_the_environment_pays_for_it(panel: Panel) -> None:
    found = evaluate_lookback({"always 16": ConstantLookback(16)}, panel, CONFIG)
    env = LookbackEnv(panel, CONFIG)
    env.reset(seed=0)
    rewards = [env.step(1)[1] for _ in range(len(found.bars))]
    np.testing.assert_array_equal(found.rewards[:, 0], rewards)
    assert found.bars[0] == 64
    assert found.bars[-1] == len(panel) - 3


def test_one_table_holds_them_all_and_hindsight_is_on_top(panel: Panel) -> None:
    policies = baseline_policies(WindowScores(GRID))
    table = evaluate_lookback(policies, panel, CONFIG, block_bars=50).table()
    assert list(table.index) == list(policies)
    assert table["signal"].idxmax() == "hindsight"
    assert (table["signal_se"] > 0).all()
    assert table.loc["constant 16", "mean_lookback"] == 16
    assert table.loc["constant 16", "switching"] == 0
    assert table.loc["thompson", "switches"] > 0.1
    net = table.loc["constant 16", "follow_through"]
    assert np.sign(table.loc["constant 16", "sharpe"]) == np.sign(net)


def lean(observation: dict[str, np.ndarray]) -> np.ndarray:
    """A batch of actions that depend on all that is seen, the window in force included."""
    return (observation["chosen"] @ np.arange(5) + observation["short"].sum(axis=1) > 0) * 2


@pytest.mark.parametrize("block_bars", [1, 16])
def test_an_agent_decides_as_it_would_in_the_environment(panel: Panel, block_bars: int) -> None:
    agent = AgentLookback(lean, CONFIG, block_bars)
    assert isinstance(agent, LookbackPolicy)
    found = evaluate_lookback({"agent": agent}, panel, CONFIG)
    env = LookbackEnv(panel, CONFIG)
    env.reset(seed=0)
    env.batch.place(env.batch.markets[0], 65, found.lookbacks[0])
    observation = env.batch.observe()
    for lookback in found.lookbacks[1:, 0]:
        place = int(lean(observation)[0])
        assert GRID[place] == lookback
        env.step(place)
        observation = env.batch.observe()
    assert len(set(found.lookbacks[:, 0])) == 2


def test_errors_are_those_of_block_means() -> None:
    rng = np.random.default_rng(0)
    values = np.repeat(rng.standard_normal((100, 2)), 20, axis=0)  # neighbours are alike: 100 draws, not 2,000
    found = LookbackEvaluation(("a", "b"), (), values, np.empty((2000, 2, 0)), values, np.arange(2000), 252.0, 20)
    table = found.table()
    np.testing.assert_allclose(table["reward_se"], values[::20].std(axis=0, ddof=1) / 10)
    gap, error = found.gap("a", "b")
    assert gap == pytest.approx(table.loc["a", "reward"] - table.loc["b", "reward"])
    assert error == pytest.approx((values[::20, 0] - values[::20, 1]).std(ddof=1) / 10)


def test_what_cannot_be_evaluated_is_refused(panel: Panel) -> None:
    with pytest.raises(ConfigError, match="one policy or more"):
        evaluate_lookback({}, panel, CONFIG)
    with pytest.raises(DataError, match="leaves no decision"):
        evaluate_lookback({"a": ConstantLookback(8)}, panel, CONFIG, start=399)
    with pytest.raises(ConfigError, match="no policy 'b'"):
        evaluate_lookback({"a": ConstantLookback(8)}, panel, CONFIG).gap("a", "b")
