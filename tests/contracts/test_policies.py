"""Over every registered baseline: bars after t change no order up to t, bit for bit; and who cheats is caught."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from pacesetter.agents.agent import Agent
from pacesetter.data import load
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.backtest.leak import check_policy
from pacesetter.evaluation.baselines.catalogue import BASELINES, make_baseline
from pacesetter.features import Normaliser, ZScore, feature_table
from pacesetter.features.causality import altered_after
from pacesetter.leadlag.lookback.policy import ConstantLookback
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy, Snapshot

FIRST, NOW = 290, 332  # at both the allocations are renewed
FORECASTS = (
    *("ridge", "lasso", "expected", "ridge_sized", "lasso_sized", "trees_sized", "ridge_formula", "lasso_formula"),
    "learned_sized",
)


@cache
def market() -> Panel:
    """Seven symbols, some of them listed late or delisted, with funding."""
    panel = load("synthetic", symbols=7, bars=360, seed=6, late_share=0.3, delisted_share=0.3, strength=3.0)
    rates = np.random.default_rng(6).normal(0, 1e-5, panel.mask.shape)
    return panel.with_field("funding_rate", np.where(panel.mask, rates, np.nan))


def bank_with_odds(panel: Panel) -> Bank:
    """Class probabilities of the last bar's move, and lead–lag features: causal."""
    up = np.full((len(panel.symbols), len(panel)), 0.5)
    moves = np.nan_to_num(panel.close[1:] / panel.close[:-1] - 1)
    up[:, 1:] = 0.5 + 0.4 * np.tanh(50 * moves.T)
    table = feature_table(panel, extra=leadlag_features("ccf_lag1", ConstantLookback(60)))
    return market_bank(panel, table, np.stack([1 - up, up], axis=2))


@pytest.mark.parametrize("name", list(BASELINES))
def test_the_future_changes_no_order_of_a_baseline(name: str) -> None:
    def make(panel: Panel) -> Policy:
        return make_baseline(name, bank_with_odds(panel))

    check_policy(make, market(), NOW, first=FIRST, bank_of=bank_with_odds, draws=1)
    played = backtest(make(market()), market(), first=FIRST, last=NOW + 1, bank=bank_with_odds(market()))
    decided = np.isfinite(played.orders)
    if name in FORECASTS:  # these act only where a forecast is high enough
        assert decided.any()
    else:
        assert name == "hold" or decided[-1].any()  # something was decided at this bar


@dataclass
class Peeks(Policy):
    """Holds what will rise within `ahead` bars, read from a panel that the backtest did not hand to it."""

    panel: Panel
    ahead: int = 1
    name: str = "peeks"
    action: str = "target"

    def decide(self, seen: Snapshot) -> Any:
        later, now = self.panel.close[seen.t + self.ahead], self.panel.close[seen.t]
        return np.where(later > now, 0.1, 0.0)


@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize("symbols", [1, 5])
def test_a_policy_that_peeks_is_caught(ahead: int, symbols: int) -> None:
    panel = load("synthetic", symbols=symbols, bars=300, seed=0)
    with pytest.raises(DataError, match=r"policy 'peeks' looks ahead: when bars after .* change, its order for 'S"):
        check_policy(lambda given: Peeks(given, ahead), panel, 280, first=250)


def test_features_that_peek_are_caught_through_the_observation() -> None:
    class Follows(Policy):
        name, action = "follows", "target"

        def decide(self, seen: Snapshot) -> Any:
            return np.where(seen.observation["supervised"][:, -1] > 0.5, 0.1, 0.0)

    def leaking_bank(panel: Panel) -> Bank:
        up = np.full((len(panel.symbols), len(panel)), 0.5)
        up[:, :-1] = (panel.close[1:] > panel.close[:-1]).T  # the next bar's move
        return market_bank(panel, supervised=np.stack([1 - up, up], axis=2))

    panel = load("synthetic", symbols=3, bars=300, seed=0)
    check_policy(lambda given: Follows(), panel, 280, first=250, bank_of=bank_with_odds)
    with pytest.raises(DataError, match="policy 'follows' looks ahead"):
        check_policy(lambda given: Follows(), panel, 280, first=250, bank_of=leaking_bank)


@dataclass
class Scaled(Policy):
    """Acts on the newest bar's features, normalised."""

    scaler: Normaliser
    name: str = "scaled"
    action: str = "continuous"

    def decide(self, seen: Snapshot) -> Any:
        columns = self.scaler.transform(np.asarray(seen.observation["window"][:, -1]))
        return np.tanh(np.nan_to_num(columns)[:, 0])


def test_a_scaler_fitted_on_the_tested_bars_is_caught() -> None:
    panel = load("synthetic", symbols=3, bars=300, seed=0)
    table = feature_table(panel, ["return_1", "rsi_14"])
    bank = market_bank(panel, table)
    backtest(Scaled(ZScore().fit(table, until=panel.index[250])), panel, first=250, bank=bank)
    with pytest.raises(DataError, match="'scaler' of policy 'scaled' was fitted on bars until"):
        backtest(Scaled(ZScore().fit(table)), panel, first=250, bank=bank)


def test_an_agent_trained_on_the_tested_bars_is_caught() -> None:
    panel = load("synthetic", symbols=3, bars=300, seed=0)

    class Idle(Agent):
        def act(self, observation: Any, deterministic: bool = True) -> Any:
            return np.zeros(3)

    late = AgentPolicy(Idle(), "late", "continuous", fitted_until=panel.index[-1])
    with pytest.raises(DataError, match="policy 'late' was fitted"):
        backtest(late, panel, first=250)


def test_altered_bars_leave_the_past_alone_and_change_the_future() -> None:
    panel = market()
    up, down = (altered_after(panel, NOW, 0, side) for side in (1.0, -1.0))
    assert up.rows(0, NOW + 1) == down.rows(0, NOW + 1) == panel.rows(0, NOW + 1)
    later = slice(NOW + 1, None)
    seen = up.mask[later]
    assert seen.mean() < panel.mask[later].mean()
    product = (up.close * down.close / panel.close**2)[later][seen]
    np.testing.assert_allclose(product, 1.0)
    assert (up.close != panel.close)[later][seen].all()
