"""Auxiliary heads: targets by hand, a weight of 0 is none, heads learn what they can, and bad options are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.extras.auxiliary import HEADS, AuxiliaryConfig, NextBar
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.market.bars import Bar
from pacesetter.panel import Panel

FEATURES = ("rsi_14", "macd", "macd_signal", "bollinger_position")


@pytest.fixture(scope="module")
def market_bank() -> Bank:
    panel = Synthetic(symbols=3, bars=300, seed=1).read()
    return Bank.from_panels(panel, feature_table(panel, FEATURES))


def learner(bank: Bank, **extras: Any) -> FleetTrainer:
    torch.manual_seed(3)
    market = FleetMarket(bank, 3, window_bars=4, episode_bars=20)
    fleet = Fleet(network("mlp", width=16), market.shapes, market.symbols, market.actions, hidden=8)
    config = FleetPPO(n_steps=16, batch_size=24, extras=extras, learning_rate=3e-3, encoder_learning_rate=3e-3)
    return FleetTrainer(PPO(fleet, market, config))


def test_a_weight_of_nothing_is_bit_equal_to_no_heads(market_bank: Bank) -> None:
    plain, without, with_heads = (
        learner(market_bank, **extras) for extras in ({}, {"auxiliary": {"weight": 0}}, {"auxiliary": {}})
    )
    hashes = []
    for each in (plain, without, with_heads):
        torch.manual_seed(0)
        each.learn(144)
        hashes.append(each.weights_hash())
    assert hashes[0] == hashes[1] != hashes[2]


def test_targets_are_those_of_the_next_bar(market_bank: Bank) -> None:
    targets, bars = NextBar(market_bank, torch.device("cpu")), market_bank.bars
    close, volume = bars[:, :, 0, Bar.CLOSE], bars[:, :, 0, Bar.VOLUME]
    found = targets.at(torch.tensor([[1, 100], [2, 298], [2, 299]]))
    moves = np.log(close[:, 1:] / close[:, :-1])
    assert float(found["change"][0]) == pytest.approx(moves[1, 100] / moves[1].std())
    assert float(found["volatility"][0]) == pytest.approx(abs(moves[1, 100]) / moves[1].std())
    assert int(found["regime"][0]) == market_bank.labels[1, 0, 101]
    ratio = volume[1, 101] / volume[1, 81:101].mean()
    assert int(found["volume"][0]) == (0 if ratio < 0.75 else 2 if ratio >= 1.25 else 1)
    assert torch.isfinite(found["change"][1])
    assert torch.isnan(found["change"][2])  # nothing follows the last bar
    assert int(found["regime"][2]) == -1


def test_every_head_learns_and_is_logged(market_bank: Bank) -> None:
    trained = learner(market_bank, auxiliary={})
    trained.learn(48)
    first = {name: float(trained.statistics()[f"aux/{name}_loss"].mean()) for name in HEADS}
    trained.learn(960)
    last = {name: float(trained.statistics()[f"aux/{name}_loss"].mean()) for name in HEADS}
    assert last["regime"] < first["regime"]  # it lasts, so that it can be predicted
    assert last["expert"] < first["expert"]
    extra, market = trained.extras["auxiliary"], trained.market
    seen = trained.observation
    shares = extra.accuracy(
        trained.features(seen), extra.prediction_targets(seen, NextBar(market.batch.bank, market.device))
    )
    assert set(shares) == set(HEADS)
    assert all(0 <= shares[name] <= 1 for name in set(HEADS) - {"volatility"})


def test_heads_without_their_data_are_refused(market_bank: Bank) -> None:
    panel = Synthetic(symbols=2, bars=200, seed=1).read()
    prices = {name: panel[name] for name in ("open", "high", "low", "close")}
    dry = Panel.from_fields(panel.index, panel.symbols, prices)
    bank = Bank.from_panels(dry, feature_table(dry, FEATURES))
    with pytest.raises(ConfigError, match=r"auxiliary\.volume needs volume"):
        learner(bank, auxiliary={})
    assert learner(bank, auxiliary={"volume": 0}).extras["auxiliary"].config.heads.keys() == HEADS.keys() - {"volume"}
    plain = Bank.from_panels(panel, feature_table(panel, ["return_1"]))
    with pytest.raises(ConfigError, match=r"auxiliary\.expert needs the features rsi_14, macd"):
        learner(plain, auxiliary={})
    with pytest.raises(ConfigError, match=r"auxiliary\.weight=2"):
        AuxiliaryConfig(weight=2)
