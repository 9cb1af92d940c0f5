"""A small market of four symbols, and a fleet that trades it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.features import feature_table


@pytest.fixture(scope="session")
def bank() -> Bank:
    """Four symbols of 300 bars with two window features and one of the regime."""
    panel = Synthetic(symbols=4, bars=300, seed=1).read()
    return Bank.from_panels(panel, feature_table(panel, ["return_1", "return_5", "regime_downside_share"]))


@pytest.fixture
def make_learner(bank: Bank) -> Callable[..., Any]:
    """A fleet PPO trainer of 3 environments a symbol; options are those of the market, the fleet and PPO."""
    import torch

    from pacesetter.agents.encoders import network
    from pacesetter.agents.fleet import Fleet
    from pacesetter.learning.experience.market import FleetMarket
    from pacesetter.learning.fleet.ppo import PPO, FleetPPO
    from pacesetter.learning.fleet.trainer import FleetTrainer

    def make(
        action: str = "discrete", symbols: tuple[str, ...] | None = None, reward: Any = "pnl", **options: Any
    ) -> FleetTrainer:
        torch.manual_seed(3)
        market = FleetMarket(bank, 3, action=action, window_bars=6, episode_bars=10, reward=reward)
        fleet = Fleet(network("mlp", width=16), market.shapes, symbols or market.symbols, market.actions, hidden=8)
        config = FleetPPO(**({"n_steps": 16, "batch_size": 24} | options))
        return FleetTrainer(PPO(fleet, market, config))

    return make
