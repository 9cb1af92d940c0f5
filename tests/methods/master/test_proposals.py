"""A master and fixed allocations over the same proposals: known answers, gates, and who is better on a planted one.

Runs `policies.fleet`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.agents.agent import PROPOSALS
from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.allocators import EqualWeight
from pacesetter.evaluation.fleet.account_measures import allocation_gates, measures
from pacesetter.features import feature_table
from pacesetter.leadlag.lookback.policy import ConstantLookback
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.learning.experience.advisers import Advisers
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.market.parameters import Costs, Limits, MarketParameters
from pacesetter.methods.master.agent import Master, MasterNetwork
from pacesetter.methods.master.learner import MasterMethod, MasterPPO, MasterTrainer
from pacesetter.methods.master.market import MasterMarket
from pacesetter.methods.master.policy import MasterPolicy
from pacesetter.methods.master.proposals import FIXED, AllocationComparison, ProposedAllocation, compare_allocations
from pacesetter.panel import Panel
from pacesetter.policies.advice import Advice
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy, Snapshot

SMALL = MasterNetwork(width=16, heads=2, layers=1, hidden=16)


@dataclass(frozen=True, eq=False)
class Fixed(Advice):
    """Agents that always propose the same."""

    proposals: tuple[float, ...] = ()

    def __call__(self, seen: Snapshot) -> dict[str, Any]:
        return super().__call__(seen) | {PROPOSALS: np.array(self.proposals, dtype=np.float32)}


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Synthetic(symbols=4, bars=200, seed=1).read()


@pytest.fixture(scope="module")
def bank(panel: Panel) -> Bank:
    return market_bank(panel, feature_table(panel, ["return_1"]))


@pytest.fixture(scope="module")
def fleet(panel: Panel) -> Fleet:
    torch.manual_seed(0)
    market = FleetMarket(Bank.from_panels(panel, feature_table(panel, ["return_1"])), 1, window_bars=4)
    return Fleet(network("mlp", width=8, layers=1), market.shapes, market.symbols, market.actions, 8)


def seen_in(panel: Panel, bank: Bank, orders: list[float]) -> Snapshot:
    """What is seen at bar 60 by a policy that ordered these weights at bar 59."""
    met: list[Snapshot] = []

    class Once(Policy):
        name, action = "once", "target"

        def decide(self, seen: Snapshot) -> Any:
            met.append(seen._replace(observation={name: np.array(part) for name, part in seen.observation.items()}))
            return np.array(orders)

    backtest(Once(), panel, first=59, last=61, bank=bank, window_bars=4)
    return met[-1]


def test_a_fixed_allocation_holds_what_agents_want(panel: Panel, bank: Bank, fleet: Fleet) -> None:
    advice = Fixed(fleet, (0.5, -0.5, 0.05, 0.05))  # buy, sell, keep, keep
    policy = ProposedAllocation(EqualWeight(cap=0.4), advice)
    found = policy.decide(seen_in(panel, bank, [0.0, 0.1, 0.1, 0.0]))
    np.testing.assert_allclose(found, [0.4, 0.0, 0.4, 0.0])
    unchanged = policy.decide(seen_in(panel, bank, [0.1, 0.0, 0.1, 0.0]))
    assert np.isnan(unchanged).all()
    assert policy.name == "equal_weight of proposals"


def test_a_fresh_master_gives_more_to_what_is_proposed(panel: Panel, bank: Bank, fleet: Fleet) -> None:
    shapes = MasterMarket(bank, 1, Advisers(fleet, panel.symbols), window_bars=4).shapes
    torch.manual_seed(0)
    advice = Fixed(fleet, (1.0, -1.0, 0.0, 0.0))
    weights = MasterPolicy(Master(SMALL, shapes), advice).decide(seen_in(panel, bank, [0.0, 0.0, 0.0, 0.0]))
    assert weights[0] > 0.5 > 10 * weights[2] > 100 * weights[1] > 0
    assert weights.sum() < 1


def test_backtest_and_training_show_the_master_the_same(panel: Panel, bank: Bank, fleet: Fleet) -> None:
    advisers = Advisers(fleet, panel.symbols)
    market = MasterMarket(bank, 1, advisers, starts="fixed", window_bars=4)
    torch.manual_seed(0)
    master = Master(SMALL, market.shapes)
    policy = MasterPolicy(master, Advice(fleet))
    seen, growth = market.reset(), []
    first = int(market.batch.cursor[0, 1])
    for _ in range(20):
        step = market.step(master.evaluate(market.tables(seen))[0].mode().detach())
        growth.append(float(step.returns))
        seen = step.observation
    found = backtest(policy, panel, first=first, last=first + 20, bank=bank, window_bars=4)
    np.testing.assert_allclose(found.returns, growth, atol=1e-6)


def test_gates_tell_cash_and_one_symbol_from_a_spread(panel: Panel, bank: Bank) -> None:
    def gates(weights: list[float]) -> list[bool]:
        class Constant(Policy):
            name, action = "constant", "target"

            def decide(self, seen: Snapshot) -> Any:
                return np.array(weights)

        played = backtest(Constant(), panel, first=50, last=80, bank=bank, window_bars=4)
        return [gate.passed for gate in allocation_gates(measures(played))]

    assert gates([0.1, 0.1, 0.1, 0.1]) == [True, True]
    assert gates([0.0, 0.0, 0.0, 0.0]) == [False, False]
    assert gates([0.15, 0.0, 0.0, 0.0]) == [True, False]


def test_a_comparison_names_the_best_fixed_allocation(panel: Panel, bank: Bank, fleet: Fleet) -> None:
    shapes = MasterMarket(bank, 1, Advisers(fleet, panel.symbols), window_bars=4).shapes
    master = MasterPolicy(Master(SMALL, shapes), Fixed(fleet, (1.0, 1.0, 1.0, -1.0)))
    options: dict[str, Any] = {"first": 100, "bank": bank, "window_bars": 4, "fixed": FIXED[:2]}
    capped = compare_allocations(master, panel, **options).table()
    assert list(capped.index) == ["master", "fleet", "equal_weight, inverse_volatility of proposals"]  # 15 % each
    uncapped = MarketParameters(limits=Limits(position_cap_fraction=1.0))
    found = compare_allocations(master, panel, market=uncapped, **options)
    table = found.table()
    fixed = ["equal_weight of proposals", "inverse_volatility of proposals"]
    assert list(table.index) == ["master", "fleet", *fixed]
    assert found.best.name == table["sharpe"][fixed].idxmax()
    assert found.difference().value == pytest.approx(table["sharpe"]["master"] - table["sharpe"][fixed].max())
    np.testing.assert_allclose(table["difference"][1:], table["sharpe"].iloc[0] - table["sharpe"][1:])
    assert (table["low"] <= table["high"])[1:].all()


def test_effective_positions_count_what_is_held(panel: Panel, bank: Bank) -> None:
    class Thirds(Policy):
        name, action = "thirds", "target"

        def decide(self, seen: Snapshot) -> Any:
            return np.array([0.1, 0.1, 0.1, 0.0])

    played = backtest(Thirds(), panel, first=50, last=80, bank=bank, window_bars=4)
    assert measures(played)["positions"] == pytest.approx(3, abs=0.05)


# ---- the planted signal ---------------------------------------------------------------------------------------------

STILL = {"bull": (-0.0072, 0.8), "bear": (-0.022, 1.4), "sideways": (-0.004, 0.6), "mixed": (-0.0136, 1.1)}
MARKET = MarketParameters(costs=replace(Costs(), commission_bps=1.0, spread_bps=1.0, slippage_bps=1.0))
FEATURES = ["return_1", "volatility_20", "regime_downside_share"]
WINDOW: dict[str, Any] = {"window_bars": 2, "market": MARKET}


def planted(trained_bars: int = 1800) -> tuple[Panel, Panel]:
    """Leaders of whom followers are predicted, and strangers; the training bars, and all of them."""
    options: dict[str, Any] = {"groups": 3, "unrelated_share": 0.4, "strength": 0.8, "volatility": 0.15, "max_delay": 1}
    panel = Synthetic(symbols=20, bars=2600, regimes=STILL, seed=5, **options).read()
    return panel.rows(0, trained_bars), panel


def trained_fleet(panel: Panel, table: Any, steps: int = 20_000) -> Fleet:
    torch.manual_seed(0)
    market = FleetMarket(Bank.from_panels(panel, table), 4, episode_bars=100, **WINDOW)
    fleet = Fleet(network("mlp", width=32, layers=1), market.shapes, market.symbols, market.actions, 32)
    FleetTrainer(PPO(fleet, market, FleetPPO(n_steps=128, batch_size=128))).learn(steps)
    return fleet


def trained_master(panel: Panel, table: Any, advisers: Advisers, steps: int = 60_000) -> Master:
    market = MasterMarket(Bank.from_panels(panel, table, is_whole=True), 64, advisers, episode_bars=50, **WINDOW)
    master = Master(replace(SMALL, width=32, hidden=32), market.shapes)
    MasterTrainer(MasterMethod(master, market, MasterPPO(n_steps=16, batch_size=256))).learn(steps)
    return master


def compared_on_planted() -> tuple[AllocationComparison, Any]:
    trained, panel = planted()
    leadlag = leadlag_features(policy=ConstantLookback(250))
    table = feature_table(trained, FEATURES, leadlag)
    fleet = trained_fleet(trained, table)
    master = trained_master(trained, table, Advisers(fleet, panel.symbols))
    policy = MasterPolicy(master, Advice(fleet), fitted_until=trained.index[-1])
    bank = market_bank(panel, feature_table(panel, FEATURES, leadlag))
    return compare_allocations(policy, panel, first=len(trained), bank=bank, **WINDOW), policy


@pytest.mark.proof
def test_the_master_beats_every_fixed_allocation_of_the_same_proposals() -> None:
    found, _ = compared_on_planted()
    difference = found.difference()
    print(found.table().round(3).to_string())
    print(f"master above {found.best.name}: {difference}")
    for gate in allocation_gates(measures(found.master)):
        print(f"{gate.name} {gate.value:.2f} {gate.sense} {gate.limit:g}")
        assert gate.passed
    assert difference.low > 0
