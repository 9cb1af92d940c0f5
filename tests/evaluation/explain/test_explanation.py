"""A played agent is explained in one call: by feature, asset and lag, by its actions, its values and its attention."""

from __future__ import annotations

from typing import Any

import pytest

from pacesetter.data import load
from pacesetter.envs import PortfolioVectorEnv, TradingVectorEnv
from pacesetter.evaluation.explain.explanation import explain_agent
from pacesetter.features import feature_table
from pacesetter.learning.sb3.algorithms import AlgorithmAgent, learn, make_algorithm
from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.market_rows import market_bank

PANEL = load("synthetic", symbols=3, bars=260, groups=0, sentiment_strength=0.9, volatility=0.6)
TABLE = feature_table(PANEL, features=["return_1", "sentiment"])
PLAY: dict[str, Any] = {"bank": market_bank(PANEL, TABLE), "first": 200, "window_bars": 4, "most": 12}
WHOLE = {"window": "", "assets": ("window", "position"), "width": 8, "asset_heads": 2, "asset_layers": 1}


def titles(findings: list[Any]) -> list[str]:
    return [finding.section().title.split(" by ")[-1] for finding in findings]


@pytest.mark.parametrize(("name", "action"), [("maskable_ppo", "discrete"), ("sac", "continuous")])
def test_an_agent_of_one_symbol_is_explained(name: str, action: str) -> None:
    env = TradingVectorEnv(PANEL, 2, table=TABLE, window_bars=4, action=action)
    options: dict[str, Any] = {"learning_starts": 8} if name == "sac" else {"n_steps": 8, "batch_size": 8}
    small = {"width": 8, "layers": 1, "heads": 2}
    algorithm = learn(make_algorithm(name, env, network_options=small, **options), 16)
    policy = AgentPolicy(AlgorithmAgent(algorithm), name, action)
    found = explain_agent(policy, PANEL, **PLAY)
    assert titles(found)[:3] == ["feature", "asset", "lag"]
    assert set(found[1].table["asset"]) == set(PANEL.symbols)
    assert found[3].table["count"].sum() == (len(PANEL) - 1 - PLAY["first"]) * len(PANEL.symbols)
    assert found[-2].title == "Value landscape"
    assert found[-1].title == "Attention by bar"


def test_an_agent_of_the_whole_market_is_explained() -> None:
    env = PortfolioVectorEnv(PANEL, 2, table=TABLE, window_bars=4)
    algorithm = learn(make_algorithm("ppo", env, network="mlp", network_options=WHOLE, n_steps=8, batch_size=8), 16)
    policy = AgentPolicy(AlgorithmAgent(algorithm), "ppo", "target", is_whole=True)
    found = explain_agent(policy, PANEL, **PLAY)
    assert titles(found)[:3] == ["feature", "asset", "lag"]
    assert found[-1].title == "Attention by asset"
    assert list(found[-1].table.columns) == list(PANEL.symbols)
