"""Signal and noise: PPO finds how far to look back where that can be known, and finds nothing where there is nothing.

The market has one leader, followers a bar later, and two regimes. In the calm one the leader stays, so that a long
window is best; in the wild one it is replaced every 30 bars, so that a short one is. Volatility tells the two apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.batch import LookbackConfig, lookback_config
from pacesetter.envs.lookback.evaluation import AgentLookback, LookbackEvaluation, evaluate_lookback
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.leadlag.lookback.baselines import RegimeOracle, WindowScores
from pacesetter.leadlag.lookback.policy import ConstantLookback
from pacesetter.learning.sb3.algorithms import AlgorithmAgent, learn, make_algorithm
from pacesetter.panel import Panel

GRID = (10, 20, 40, 80, 160)
SCORES = WindowScores(GRID, "ccf_lag1")
FIXED = {f"constant {bars}": ConstantLookback(bars) for bars in GRID}
SEEDS, HELD_OUT_STEPS, TRAINING_STEPS = (0, 1, 2), 20_000, 49_152


def market(bars: int, seed: int, **options: Any) -> Panel:
    planted: dict[str, Any] = {
        "groups": 1,
        "unrelated_share": 0.0,
        "strength": 1.5,
        "negative_share": 0.0,
        "max_delay": 1,
        "market_correlation": 0.0,
        "volatility_clustering": 0.0,
        "tail_degrees": 1e9,
        "gap_share": 0.0,
        "path_steps": 1,
        "spread": 0.0,
        "regimes": {"calm": (0.0, 0.5), "wild": (0.0, 2.0)},
        "regime_bars": 500.0,
        "relation_change_bars": (20_000, 30),
    }
    return Synthetic(symbols=12, bars=bars, seed=seed, **planted | options).read()


def config(**components: float) -> LookbackConfig:
    return lookback_config(
        windows={"shortest": 10, "longest": 160, "grid": GRID, "seen": (20, 40, 160)},
        view={"method": "ccf_lag1", "encoder": "signature_summary", "context": ("volatility_10",)},
        reward={"components": components},
        episodes={"bars": 64},
    )


def trained(panel: Panel, settings: LookbackConfig, seed: int, steps: int) -> AgentLookback:
    """A small PPO agent as a policy; the market does not mind its windows, so that only the next reward counts."""
    torch.set_num_threads(1)
    algorithm = make_algorithm(
        "ppo",
        LookbackVectorEnv(panel, 64, settings),
        network="mlp",
        network_options={"width": 32},
        heads=(32,),
        seed=seed,
        gamma=0.0,
        gae_lambda=0.0,
        n_steps=64,
        batch_size=1024,
        n_epochs=6,
        learning_rate=3e-3,
        ent_coef=0.005,
    )
    return AgentLookback(AlgorithmAgent(learn(algorithm, steps)).act, settings)


pytestmark = pytest.mark.proof  # a minute and a half


@pytest.fixture(scope="module")
def found() -> LookbackEvaluation:
    """Fixed windows, the regime oracle and three agents over 20,000 bars that none of them was fitted on."""
    settings, training = config(signal=1.0), market(60_000, 1)
    held_out = market(HELD_OUT_STEPS + GRID[-1] + 2, 11)  # a market that no setting here was chosen on
    agents = {f"ppo {seed}": trained(training, settings, seed, TRAINING_STEPS) for seed in SEEDS}
    oracle = RegimeOracle.fit(training, SCORES)
    return evaluate_lookback(FIXED | {"oracle": oracle} | agents, held_out, settings)


def best_fixed(found: LookbackEvaluation) -> str:
    return str(found.table().loc[list(FIXED), "reward"].idxmax())


def test_the_best_window_switches_with_the_regime_by_a_clear_margin(found: LookbackEvaluation) -> None:
    calm, wild = RegimeOracle.fit(market(20_000, 3), SCORES).windows
    assert calm > wild
    gap, error = found.gap("oracle", best_fixed(found))
    assert gap > 5 * error


def test_ppo_closes_the_gap_to_the_oracle(found: LookbackEvaluation) -> None:
    assert len(found.bars) >= HELD_OUT_STEPS - 1
    best = best_fixed(found)
    gap, _ = found.gap("oracle", best)
    closed = [found.gap(f"ppo {seed}", best)[0] / gap for seed in SEEDS]
    print("share of the gap that PPO closes, by seed:", np.round(closed, 2), "\n", found.table().round(4))
    assert np.median(closed) >= 0.6


def test_on_noise_nothing_scores_above_zero() -> None:
    settings = config(signal=1.0, switching=0.05, follow_through=1.0)
    agent = trained(market(20_000, 5, groups=0), settings, 0, 16_384)
    table = evaluate_lookback(FIXED | {"ppo": agent}, market(6_000, 6, groups=0), settings).table()
    for name in ("signal", "follow_through", "reward"):
        assert (table[name] <= 3 * table[f"{name}_se"]).all(), f"{name} on noise:\n{table}"
    assert (table["follow_through"] < 0).all()  # the strategy pays its costs and earns nothing
