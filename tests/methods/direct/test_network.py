"""The policy network of all symbols: it begins at the plain shape, learns through the ledger, and is stored whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.build import build_panel, build_parts
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.methods.direct.learner import load_direct
from pacesetter.methods.direct.objective import objective
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.direct.policy import DirectPolicy

from .conftest import CHEAP, Make

SMALL: dict[str, Any] = {"network": "shared", "hidden": 4, "dictionary": ("lags",), "segment_bars": 16}


def test_an_untrained_network_changes_nothing() -> None:
    plain, shared = (DirectPolicy(("A", "B", "C"), side_cost=1e-3, hidden=hidden).double() for hidden in (0, 8))
    generator = torch.Generator().manual_seed(0)
    signal, held = (torch.randn(20, 3, generator=generator, dtype=torch.float64) * scale for scale in (0.3, 0.05))
    volatility = torch.full_like(signal, 0.01)
    torch.testing.assert_close(shared.target(signal, volatility, held), plain.target(signal, volatility, held))


def test_it_learns_through_the_ledger_and_acts_as_stored(make_learner: Make, tmp_path: Path) -> None:
    learner = make_learner(**SMALL, segments=64, learning_rate=0.05)
    learner.fit_weights()
    starts = torch.arange(0, 700, 16)
    with torch.no_grad():
        before = float(objective(learner.roll(starts, 16), "sharpe", 0.0))
    for _ in range(20):
        learner.round()
    with torch.no_grad():
        assert float(objective(learner.roll(starts, 16), "sharpe", 0.0)) > before
    layers = learner.policy.layers
    assert layers is not None
    assert bool(layers[-1].weight.any())
    learner.save(tmp_path)
    again = make_learner(**SMALL, segments=64, learning_rate=0.05)
    again.load(tmp_path)
    assert again.weights_hash() == learner.weights_hash()
    stored = load_direct(tmp_path)
    signal = torch.randn(4, len(stored.symbols)) * 0.2
    volatility, held = torch.full_like(signal, 0.01), torch.zeros_like(signal)
    torch.testing.assert_close(stored.target(signal, volatility, held), learner.agent.target(signal, volatility, held))


def test_where_fills_move_the_price_the_first_shape_is_chosen_by_the_objective(make_learner: Make) -> None:
    limits = replace(CHEAP.limits, volume_cap_fraction=0.5)
    deep = replace(CHEAP, costs=replace(CHEAP.costs, impact_bps=300.0), limits=limits, initial_cash=1e7)
    cheap, dear = make_learner(dictionary=("lags",)), make_learner(market=deep, dictionary=("lags",))
    for learner in (cheap, dear):
        learner.fit_weights()
    assert dear.statistics()["gain"] < cheap.statistics()["gain"] / 1.8
    assert dear.risk() < dear.fit_figures["first_risk"]


def test_other_networks_are_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"agent\.network=mlp is not a network of agent=direct; give linear_cross"):
        Direct(network="mlp")
    for name in ("linear_cross", "shared", "team"):
        with pytest.raises(ConfigError, match=rf"network={name} is one of agent=direct"):
            network(name)


@pytest.mark.parametrize("name", ["shared", "team", "team_cross"])
def test_a_network_of_several_on_one_symbol_is_refused(name: str) -> None:
    market = ["task=fleet", "agent=direct", "+preset=planted", "data.symbols=1", "data.groups=1", "data.bars=900"]
    config = resolve([*market, f"agent.network={name}"])
    with pytest.raises(ConfigError, match=rf"agent\.network={name} is shared by symbols, and .* is alone; give more"):
        build_parts(config, build_panel(config))
