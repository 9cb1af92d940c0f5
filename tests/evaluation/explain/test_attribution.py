"""Integrated gradients add up to what the output gained, and point at what a known policy reads."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.agents.encoders import network
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.data import load
from pacesetter.envs import PortfolioVectorEnv, TradingVectorEnv
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.explain.attribution import Attributions, integrated_gradients
from pacesetter.features import feature_table
from pacesetter.learning.sb3.algorithms import fit_normaliser, make_algorithm

SHAPES = {"window": (4, 3), "position": (2,)}
NAMES = {"window": ("return", "volume", "sentiment"), "position": ("weight", "age")}
PANEL = load("synthetic", symbols=3, bars=300, groups=0)
TABLE = feature_table(PANEL, features=["return_1", "sentiment"])
WHOLE = {"window": "", "assets": ("window", "position"), "width": 8, "asset_heads": 2, "asset_layers": 1}


def observations(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=(count, *size)).astype(np.float32) for name, size in SHAPES.items()}


def symbol_agent(name: str, actions: int | None = 5, seed: int = 0) -> SymbolAgent:
    """Untrained, but with biases and heads that say something: LayerNorm has a pole where all its inputs are 0."""
    torch.manual_seed(seed)
    agent = SymbolAgent(network(name, width=8), SHAPES, actions=actions, hidden=8)
    for parameter in agent.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return agent


def gap_share(found: Attributions) -> float:
    """The largest gap to completeness, as a share of the largest gain."""
    return float(np.abs(found.gaps).max() / np.abs(found.outputs - found.baselines).max())


@settings(max_examples=6, deadline=None, derandomize=True)
@given(name=st.sampled_from(["mlp", "gru", "lstm"]), actions=st.sampled_from([None, 5]), seed=st.integers(0, 50))
def test_attributions_add_up_to_what_the_output_gained(name: str, actions: int | None, seed: int) -> None:
    found = integrated_gradients(symbol_agent(name, actions, seed), observations(4, seed))
    assert np.abs(found.outputs - found.baselines).max() > 0.01
    assert gap_share(found) < 0.01


def test_a_policy_that_reads_one_number_is_explained_by_it_exactly() -> None:
    agent = symbol_agent("mlp", actions=None)

    class Sum(torch.nn.Module):
        def forward(self, observation: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            weight = 2 * observation["window"][:, 1, 2] - 3 * observation["position"][:, 0]
            return weight[:, None], weight

    agent.forward = Sum().forward  # type: ignore[method-assign]
    seen = observations(5)
    found = integrated_gradients(agent, seen, NAMES, symbols=["A", "A", "B", "B", "B"])
    np.testing.assert_allclose(found.entries["window"][:, 0, 1, 2], 2 * seen["window"][:, 1, 2], rtol=1e-5)
    np.testing.assert_allclose(found.entries["position"][:, 0, 0, 0], -3 * seen["position"][:, 0], rtol=1e-5)
    features = found.by_feature().set_index("feature")
    assert set(features.index[:2]) == {"sentiment", "weight"}
    assert features["influence"].drop(["sentiment", "weight"]).eq(0).all()
    lags = found.by_lag().set_index("lag")
    assert lags["share"].to_dict() == {0: 0.0, 1: 0.0, 2: 1.0, 3: 0.0}
    assert set(found.by_asset()["asset"]) == {"A", "B"}


def test_a_chosen_output_and_another_baseline_are_explained() -> None:
    agent, seen = symbol_agent("mlp"), observations(3)
    start = {name: np.full(size, 0.5, np.float32) for name, size in SHAPES.items()}
    found = integrated_gradients(agent, seen, output=2, baseline=start)
    with torch.no_grad():
        tensors = {name: torch.tensor(np.concatenate([seen[name], start[name][None]])) for name in seen}
        chances = agent(tensors)[0][:, 2].numpy()
    np.testing.assert_allclose(found.outputs, chances[:3], rtol=1e-5)
    np.testing.assert_allclose(found.baselines, chances[3], rtol=1e-5)
    assert gap_share(found) < 0.02


def algorithm_on(env: Any, name: str, **options: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """An algorithm, and observations of its environment on which its normaliser is fitted."""
    algorithm = make_algorithm(name, env, network="mlp", heads=(8,), **options)
    seen, _ = env.reset(seed=0)
    fit_normaliser(algorithm, seen)
    for parameter in algorithm.policy.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return algorithm, seen


@pytest.mark.parametrize(("name", "action"), [("ppo", "discrete"), ("maskable_ppo", "discrete"), ("sac", "continuous")])
def test_algorithms_on_one_symbol_are_explained(name: str, action: str) -> None:
    env = TradingVectorEnv(PANEL, 6, table=TABLE, window_bars=5, action=action)
    algorithm, seen = algorithm_on(env, name, network_options={"width": 8})
    found = integrated_gradients(algorithm, seen, env.batch.bank.names)
    assert gap_share(found) < 0.02
    assert found.entries["window"].shape == (6, 1, 5, 2)
    assert {"return_1", "sentiment"} <= set(found.by_feature()["feature"])
    assert [finding.title for finding in found.findings()] == ["Attribution by feature", "Attribution by lag"]
    with pytest.raises(ConfigError, match="name it in `symbols`"):
        found.by_asset()


@pytest.mark.parametrize("action", ["target", "discrete"])
def test_a_whole_market_is_explained_by_asset(action: str) -> None:
    env = PortfolioVectorEnv(PANEL, 4, table=TABLE, window_bars=5, action=action)
    algorithm, seen = algorithm_on(env, "ppo", network_options=WHOLE)
    found = integrated_gradients(algorithm, seen, env.batch.bank.names, PANEL.symbols)
    assert gap_share(found) < 0.02
    assert found.entries["window"].shape == (4, 3, 5, 2)
    assert set(found.by_asset()["asset"]) == set(PANEL.symbols)
    assert list(found.by_lag()["lag"]) == [0, 1, 2, 3, 4]
    for table in (found.by_asset(), found.by_lag(), found.by_feature()):
        assert table["share"].sum() == pytest.approx(1.0)
    titles = [finding.section().title for finding in found.findings()]
    assert titles == ["Attribution by feature", "Attribution by asset", "Attribution by lag"]


def test_masks_are_passed_on_and_not_explained() -> None:
    shapes = SHAPES | {"action_mask": (5,)}
    torch.manual_seed(1)
    agent = SymbolAgent(network("mlp", width=8), shapes, actions=5, hidden=8)
    seen = observations(3) | {"action_mask": np.tile(np.array([1, 0, 1, 1, 0], np.float32), (3, 1))}
    found = integrated_gradients(agent, seen)
    assert set(found.entries) == set(SHAPES)
    masked = integrated_gradients(agent, seen, output=1)
    np.testing.assert_array_equal(masked.outputs, 0.0)


def test_misuse_gets_a_sentence() -> None:
    agent, seen = symbol_agent("mlp"), observations(3)
    with pytest.raises(ConfigError, match="output=9 is not one of the policy's 5"):
        integrated_gradients(agent, seen, output=9)
    with pytest.raises(DataError, match="2 symbols given for 3"):
        integrated_gradients(agent, seen, symbols=["A", "B"])
    with pytest.raises(DataError, match="'window' has 3 features, but 1 names"):
        integrated_gradients(agent, seen, names={"window": ("a",)})
    nothing = Attributions({"position": np.ones((1, 1, 1, 2))}, np.ones(1), np.zeros(1), (), {"position": ("a", "b")})
    with pytest.raises(ConfigError, match="no window"):
        nothing.by_lag()


def test_without_captum_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(ConfigError, match=r"pip install 'pacesetter\[evaluate\]'"):
        integrated_gradients(symbol_agent("mlp"), observations(2))


def test_sentences_name_what_pushed_an_order():
    entries = {"window": np.array([[[[0.3, -0.1]]], [[[0.2, 0.0]]]])}
    found = Attributions(entries, np.array([0.2, 0.2]), np.zeros(2), (), {"window": ("up", "down")})
    finding = found.explain_orders([0, 1], ["buy 0.50 A", "buy 0.20 A"])
    assert list(finding.table["why"]) == [
        "buy 0.50 A because of up (+0.30); against it down (-0.10).",
        "buy 0.20 A because of up (+0.20).",
    ]
    turned = found.apply_signs({0: -1.0})
    assert turned.explain_orders([0], ["sell 0.50 A"]).table["why"][0].startswith("sell 0.50 A because of up (-0.30)")
