"""The smooth ledger: the kernel's own numbers when hard, and right gradients when soft."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.envs.batch.bank import Bank
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.learning.direct.ledger import Fills, Rules, settle
from pacesetter.learning.direct.policy import DirectPolicy
from pacesetter.learning.direct.series import MarketSeries
from pacesetter.market.parameters import Costs, Limits, MarketParameters, Orders
from pacesetter.panel import Panel
from pacesetter.policies.policy import Snapshot

from .conftest import market_panel, whole_bank

MARKETS = {
    "costs": MarketParameters(orders=Orders(minimum_trade=0.0)),
    "interest and reserve": MarketParameters(
        costs=Costs(interest_bps_per_year=300.0),
        limits=Limits(position_cap_fraction=0.5, reserve_cash_fraction=0.1),
        orders=Orders(minimum_trade=0.0),
    ),
    "shorts": MarketParameters(
        costs=Costs(borrow_bps_per_year=200.0),
        limits=Limits(position_cap_fraction=0.4, shorting=True),
        orders=Orders(minimum_trade=0.0),
    ),
    "band": MarketParameters(orders=Orders(minimum_trade=0.0), band=0.05),
    "impact": MarketParameters(
        costs=Costs(impact_bps=50.0),
        limits=Limits(position_cap_fraction=0.9, volume_cap_fraction=0.002),
        orders=Orders(minimum_trade=0.0),
    ),
}


class Scripted:
    """Given targets, whatever is seen."""

    name, action = "scripted", "target"

    def __init__(self, targets: Any) -> None:
        self.targets = targets

    def decide(self, seen: Snapshot) -> Any:
        return self.targets[seen.t]


def rolled(panel: Panel, targets: Any, market: MarketParameters, first: int) -> Any:
    """Net returns of the hard ledger for targets (bar, symbol) from bar `first` on."""
    bank: Bank = whole_bank(panel)
    series = MarketSeries.of(
        bank, DirectPolicy(panel.symbols).double(), needs_depth=market.limits.volume_cap_fraction is not None
    )
    rules, held = Rules.of(market), torch.zeros(len(panel.symbols), dtype=torch.float64)
    wealth, returns = torch.tensor(1.0, dtype=torch.float64), []
    for t in range(first, len(panel) - 1):
        fills = series.fills(torch.tensor(t - series.first))
        held, earned = settle(held, torch.from_numpy(targets[t]), wealth, fills, rules)
        wealth = wealth * (1 + earned)
        returns.append(float(earned))
    return np.array(returns)


@pytest.mark.parametrize("name", MARKETS)
def test_the_hard_ledger_repeats_the_kernel(name: str) -> None:
    panel, market, first = market_panel(0.4, bars=160), MARKETS[name], 60
    generator = np.random.default_rng(1)
    low = -1.0 if market.limits.shorting else 0.0
    targets = generator.uniform(low, 1.0, (len(panel), len(panel.symbols)))
    targets[generator.random(targets.shape) < 0.3] = 0.0
    market = replace(market, bars_per_year=panel.bars_per_year)
    played = backtest(Scripted(targets), panel, first=first, market=market, window_bars=2)
    assert np.abs(played.returns).max() > 1e-3
    np.testing.assert_allclose(rolled(panel, targets, market, first), played.returns, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["costs", "shorts"])
def test_gradients_are_those_of_small_differences(name: str) -> None:
    rules = Rules.of(MARKETS[name], softness=1e-2)
    generator = torch.Generator().manual_seed(0)
    held, target = (torch.rand(3, 4, generator=generator, dtype=torch.float64) * 0.1 for _ in range(2))
    ones = torch.ones(3, 4, dtype=torch.float64)
    fills = Fills(ones * 1.01, ones * 0.98, ones)
    wealth = torch.ones(3, dtype=torch.float64)

    def account(held: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return settle(held, target, wealth, fills, rules)

    assert torch.autograd.gradcheck(account, (held.requires_grad_(), target.requires_grad_()))


def test_a_soft_cost_is_never_above_the_hard_one() -> None:
    market = MARKETS["costs"]
    traded = torch.linspace(-0.1, 0.1, 41, dtype=torch.float64)
    soft, hard = (Rules.of(market, softness).cost(traded, 0.0) for softness in (1e-3, 0.0))
    assert (soft <= hard + 1e-15).all()
    assert torch.allclose(soft, hard, atol=2e-6)
