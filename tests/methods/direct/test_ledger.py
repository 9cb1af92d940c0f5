"""The smooth ledger: the kernel's own numbers when hard, and right gradients when soft."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.market.ledger import Column
from pacesetter.market.parameters import Costs, Limits, MarketParameters, Orders, SymbolCost
from pacesetter.methods.direct.ledger import Fills, Rules, settle
from pacesetter.methods.direct.policy import DirectPolicy
from pacesetter.methods.direct.series import MarketSeries
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy, Snapshot

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
    "linear impact": MarketParameters(
        costs=Costs(impact_bps=5_000.0, impact_model="linear"),
        limits=Limits(position_cap_fraction=0.9, volume_cap_fraction=0.002),
        orders=Orders(minimum_trade=0.0),
    ),
    "impact that is left": MarketParameters(
        costs=Costs(impact_bps=400.0, impact_left=0.7),
        limits=Limits(position_cap_fraction=0.9, volume_cap_fraction=0.002, shorting=True),
        orders=Orders(minimum_trade=0.0),
    ),
    "one symbol costs more": MarketParameters(
        costs=Costs(by_symbol=(SymbolCost("S01", 80.0),)),
        limits=Limits(position_cap_fraction=0.9),
        orders=Orders(minimum_trade=0.0),
    ),
}


class Scripted(Policy):
    """Given targets, whatever is seen."""

    name, action = "scripted", "target"

    def __init__(self, targets: Any) -> None:
        self.targets = targets

    def decide(self, seen: Snapshot) -> Any:
        return self.targets[seen.t]


def rolled(panel: Panel, targets: Any, market: MarketParameters, first: int) -> Any:
    """Net returns of the hard ledger for targets (bar, symbol) from bar `first` on."""
    series = MarketSeries.of(whole_bank(panel), DirectPolicy(panel.symbols).double(), market)
    rules, held = Rules.of(market), torch.zeros(len(panel.symbols), dtype=torch.float64)
    wealth, paid, impact, returns = torch.tensor(1.0, dtype=torch.float64), None, None, []
    for t in range(first, len(panel) - 1):
        fills = series.fills(torch.tensor(t - series.first))
        held, earned, paid, impact = settle(held, torch.from_numpy(targets[t]), wealth, fills, rules, paid, impact)
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


@pytest.mark.parametrize("funding", ["auto", "none", 5.0])
def test_funding_is_part_of_the_return(funding: Any) -> None:
    panel, first = market_panel(0.4, bars=160), 60
    generator = np.random.default_rng(2)
    panel = panel.with_field("funding_rate", generator.normal(0.001, 0.002, panel.mask.shape))
    limits = Limits(position_cap_fraction=0.4, shorting=True)
    market = MarketParameters(
        limits=limits, orders=Orders(minimum_trade=0.0), funding=funding, bars_per_year=panel.bars_per_year
    )
    targets = generator.uniform(-0.4, 0.4, (len(panel), len(panel.symbols)))
    played = backtest(Scripted(targets), panel, first=first, market=market, window_bars=2)
    paid = played.ledger[:, Column.FUNDING]
    assert paid.any() == (funding != "none")
    np.testing.assert_allclose(rolled(panel, targets, market, first), played.returns, rtol=0, atol=1e-9)


TERMS = MARKETS | {
    "loan": MarketParameters(
        costs=Costs(loan_bps_per_year=5_000.0),
        limits=Limits(position_cap_fraction=0.9, gross_leverage=3.0),
        orders=Orders(minimum_trade=0.0),
        bars_per_year=2.0,
    ),
    "budget": MarketParameters(
        costs=Costs(commission_bps=50.0, impact_bps=500.0, interest_bps_per_year=400.0),
        limits=Limits(position_cap_fraction=0.9, reserve_cash_fraction=0.5, volume_cap_fraction=0.9),
        orders=Orders(minimum_trade=0.0),
    ),
    "linear impact": MarketParameters(
        costs=Costs(impact_bps=500.0, impact_model="linear"),
        limits=Limits(position_cap_fraction=0.9, volume_cap_fraction=0.9),
        orders=Orders(minimum_trade=0.0),
    ),
    "volume cap": MarketParameters(
        costs=Costs(impact_bps=500.0),
        limits=Limits(position_cap_fraction=0.9, volume_cap_fraction=0.02),
        orders=Orders(minimum_trade=0.0),
    ),
}


@pytest.mark.parametrize("softness", [1e-2, 0.0])
@pytest.mark.parametrize("name", TERMS)
def test_gradients_are_those_of_small_differences(name: str, softness: float) -> None:
    market = TERMS[name]
    rules = Rules.of(market, softness)
    generator = torch.Generator().manual_seed(0)
    low = -0.4 if market.limits.shorting else 0.01
    held, target = (low + (0.6 - low) * torch.rand(3, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    ones = torch.ones(3, 4, dtype=torch.float64)
    fills = Fills(ones * 1.01, ones * 0.98, ones, ones * 2.0 * market.initial_cash)
    wealth = torch.tensor([0.9, 1.0, 1.2], dtype=torch.float64)

    def account(*state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        settled = settle(*state[:3], fills, rules, None, *state[3:])
        left = () if settled.impact is None else (settled.impact,)
        return settled.held, settled.earned, *left

    # Left by purchases and by sales, beside trades of either side.
    left = (0.02 * torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4),) if rules.impact_left else ()
    state = tuple(each.requires_grad_() for each in (held, target, wealth, *left))
    assert torch.autograd.gradcheck(account, state)
    # What the case is about must be at work, or its gradient is that of another one.
    traded = target - held
    if name in ("impact", "budget"):
        free = replace(rules, impact=0.0)
        assert (settle(*state[:3], fills, free).earned > account(*state)[1]).all()
    if name == "budget":
        assert (account(*state)[0].sum(-1) < 0.51).any()
    if name == "loan":
        assert (held.sum(-1) > 1.0).any()
    if name == "volume cap":
        assert (traded.abs() > 0.02 * 2.0 / wealth[:, None]).any()


def test_a_smaller_trade_is_known_to_meet_a_smaller_impact() -> None:
    costs, limits = (
        Costs(commission_bps=0.0, spread_bps=0.0, slippage_bps=0.0, impact_bps=100.0),
        Limits(volume_cap_fraction=0.5),
    )
    rules = Rules.of(MarketParameters(costs=costs, limits=limits))
    one = torch.ones(1, dtype=torch.float64)
    fills = Fills(one, one, one, one * rules.initial_cash)
    target = torch.tensor([0.1], dtype=torch.float64, requires_grad=True)
    settle(0 * one, target, torch.tensor(1.0, dtype=torch.float64), fills, rules).earned.backward()
    # 1.5 · impact · √share: that of the cost |w| · impact · √|w|, and not of a share that stays as it is.
    assert target.grad is not None
    torch.testing.assert_close(target.grad, -1.5 * 0.01 * torch.tensor([0.1], dtype=torch.float64).sqrt())


def test_a_soft_cost_is_never_above_the_hard_one() -> None:
    market = MARKETS["costs"]
    traded = torch.linspace(-0.1, 0.1, 41, dtype=torch.float64)
    soft, hard = (Rules.of(market, softness).cost(traded, 1e-3) for softness in (1e-3, 0.0))
    assert (soft <= hard + 1e-15).all()
    assert torch.allclose(soft, hard, atol=2e-6)
