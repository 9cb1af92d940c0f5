"""Pictures of a policy carry the numbers they should, and each becomes a section of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.explain.behaviour import (
    BehaviourFinding,
    action_distribution,
    anomaly_overlay,
    attention_map,
    state_action_map,
    value_landscape,
)
from pacesetter.evaluation.report.page import write_report
from pacesetter.leadlag.structure.anomaly import AlertLevels
from pacesetter.methods.supervised.direction import Classifier, Direction

NAMES = {"window": ("return", "sentiment"), "position": ("weight", "unrealised_return")}
SHAPES = {"window": (5, 2), "position": (2,)}


def observations(count: int = 400) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {name: generator.normal(size=(count, *size)).astype(np.float32) for name, size in SHAPES.items()}


def agent(name: str = "mlp", **options: Any) -> SymbolAgent:
    torch.manual_seed(0)
    return SymbolAgent(network(name, width=8, **options), SHAPES, actions=7, hidden=8)


def test_discrete_actions_are_counted_by_name() -> None:
    found = action_distribution(np.array([0, 0, 0, 5]))
    assert found.table.set_index("action")["count"].to_dict()["hold"] == 3
    assert found.table["share"].sum() == 1.0
    assert "hold, takes 75%" in found.text
    even = action_distribution(np.arange(7).repeat(9))
    assert "the entropy is 100% of the maximum" in even.text
    assert list(action_distribution(np.array([1]), names=("shorter", "longer")).table["action"]) == [
        "shorter",
        "longer",
    ]


def test_continuous_actions_are_counted_in_twentieths() -> None:
    found = action_distribution(np.linspace(-1, 1, 2001))
    assert len(found.table) == 20
    assert found.table["count"].sum() == 2001
    assert found.table["share"].max() < 0.051
    with pytest.raises(DataError, match="no action to count"):
        action_distribution(np.array([]))


def test_a_policy_that_buys_on_sentiment_shows_it_in_the_map() -> None:
    seen = observations()
    orders = np.sign(seen["window"][:, -1, 1])
    found = state_action_map(seen, orders, ("window", "sentiment"), ("position", "weight"), NAMES, bins=4)
    assert found.table.shape == (4, 4)
    assert (found.table.iloc[:, 0] == -1).all()
    assert (found.table.iloc[:, -1] == 1).all()
    assert not found.section().rows


def test_a_market_is_read_symbol_by_symbol() -> None:
    window = np.random.default_rng(1).normal(size=(50, 3, 5, 2))
    position = np.random.default_rng(2).normal(size=(50, 3, 2))
    seen = {"window": window, "position": position}
    found = state_action_map(seen, position[:, :, 0], ("window", "return"), ("position", "weight"), NAMES, bins=3)
    lowest, middle, highest = found.table.mean(axis=1)
    assert lowest < -0.5 < middle < 0.5 < highest


@pytest.mark.parametrize(
    ("feature", "words"),
    [(("windw", "return"), "did you mean 'window'"), (("window", "sentimnt"), "did you mean 'sentiment'")],
)
def test_an_unknown_feature_gets_a_sentence(feature: tuple[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        state_action_map(observations(), np.zeros(400), feature, ("position", "weight"), NAMES)


def test_actions_of_another_length_are_refused() -> None:
    with pytest.raises(DataError, match="3 actions do not match"):
        state_action_map(observations(), np.zeros(3), ("window", "return"), ("position", "weight"), NAMES)


def test_the_landscape_is_the_critics_value_at_the_median_observation() -> None:
    policy, seen = agent(), observations()
    found = value_landscape(policy, seen, ("position", "weight"), ("position", "unrealised_return"), NAMES, points=6)
    assert found.table.shape == (6, 6)
    low, high = np.quantile(seen["position"][:, 0], (0.01, 0.99))
    assert (found.table.columns[0], found.table.columns[-1]) == pytest.approx((low, high))
    median = {name: np.median(entry, axis=0) for name, entry in seen.items()}
    median["position"] = np.array([found.table.columns[4], found.table.index[1]])
    tensors = {name: torch.tensor(entry[None], dtype=torch.float32) for name, entry in median.items()}
    assert found.table.iloc[1, 4] == pytest.approx(policy(tensors)[1].item(), abs=1e-6)


def test_the_landscape_moves_the_newest_bar_and_refuses_a_policy_without_critic() -> None:
    policy, features = agent(), (("window", "return"), ("position", "weight"))
    found = value_landscape(policy, observations(), *features, NAMES, points=5)
    assert np.ptp(found.table.to_numpy(), axis=1).min() > 0
    model = Classifier(Direction(width=8, window_bars=5), NAMES)
    with pytest.raises(ConfigError, match="has no critic"):
        value_landscape(model, observations(), *features, NAMES)


def test_attention_between_bars_and_between_assets() -> None:
    found = attention_map(agent("transformer_small", heads=2, layers=1), observations(8))
    assert list(found.table.columns) == ["-4", "-3", "-2", "-1", "0"]
    np.testing.assert_allclose(found.table.sum(axis=1), 1.0, rtol=1e-5)
    shapes = {"assets": (3, 2), "universe_mask": (3,)}
    torch.manual_seed(0)
    market = SymbolAgent(network("mlp", width=8, asset_heads=2, asset_layers=1), shapes, actions=7)
    seen = {"assets": np.random.default_rng(0).normal(size=(4, 3, 2)), "universe_mask": np.tile([1.0, 1, 0], (4, 1))}
    found = attention_map(market, seen, symbols=("A", "B", "C"))
    assert found.table.loc[["A", "B"], "C"].max() == 0.0
    with pytest.raises(ConfigError, match="no assets that attend"):
        attention_map(agent(), observations(2))


def overlay() -> BehaviourFinding:
    days = pd.date_range("2020-01-01", periods=10, tz="UTC")
    equity = pd.Series(100_000.0 * 1.01 ** np.arange(10), index=days)
    scores = pd.Series([np.nan, 1.0, 5.0, 9.0], index=days[[1, 3, 5, 8]])
    return anomaly_overlay(equity, scores, AlertLevels(), after_bars=2)


def test_alarms_stand_on_the_equity_with_what_came_after() -> None:
    found = overlay()
    assert list(found.table["grade"]) == ["warning", "alarm"]
    assert list(found.table["time"].dt.day) == [6, 9]
    np.testing.assert_allclose(found.table["return in 2 bars"], [1.01**2 - 1, 1.01 - 1])
    assert found.text.endswith("warnings: 1, alarms: 1.")
    assert [trace.name for trace in found.figure.data] == ["equity", "warning", "alarm"]


def test_findings_make_a_report(tmp_path: Path) -> None:
    findings = [overlay(), action_distribution(np.array([0, 1, 1]))]
    page = write_report(tmp_path / "report.html", "policy", [finding.section() for finding in findings])
    text = page.read_text()
    assert "Anomalies over equity" in text
    assert "buy small" in text
    assert "2020-01-09" in text
    assert "105,101" in text  # money without an exponent
