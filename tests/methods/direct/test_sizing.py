"""The differentiable risk step: the kernel's own numbers, right gradients, and views that learn through it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.market.covariance import make_tables
from pacesetter.market.parameters import Limits, MarketParameters, Orders
from pacesetter.market.risk import RiskOptions
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.ledger import Rules
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.direct.sizing import ViewSizer
from pacesetter.policies.agent import AgentPolicy

from .conftest import market_panel, whole_bank

RISKS = {
    "base": RiskOptions(0.1, "inverse_volatility", 0.04),
    "no band": RiskOptions(0.15, "equal_weight", 0.05, band=0.0),
    "whole base": RiskOptions(None, "equal_weight", 0.04),
    "cash": RiskOptions(0.1),
}
MARKET = MarketParameters(
    limits=Limits(position_cap_fraction=0.5, reserve_cash_fraction=0.05), orders=Orders(minimum_trade=0.0)
)


def learner(risk: RiskOptions, market: MarketParameters = MARKET, bars: int = 400) -> DirectLearner:
    panel = market_panel(0.8, bars=bars)
    market = replace(market, bars_per_year=panel.bars_per_year)
    config = Direct(segments=8, segment_bars=24, burn_in_bars=4)
    made = DirectLearner(whole_bank(panel), market, config, risk=(risk, make_tables(panel, risk.base)))
    made.fit_weights()
    return made


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize("shorting", [False, True])
def test_the_rolled_account_repeats_the_backtest_through_the_risk_step(name: str, shorting: bool) -> None:
    market = replace(MARKET, limits=replace(MARKET.limits, shorting=shorting))
    made, panel, first = learner(RISKS[name], market), market_panel(0.8, bars=400), 130
    assert made.scale > 0
    made.signals = made.whole_signals()  # as a backtest shows them, by all bars
    bars = len(panel) - 1 - first
    start = torch.tensor([first - made.series.first])
    returns, _ = made.roll_sized(start, bars, made.rules.hard())
    policy = AgentPolicy(made.agent, "direct", "target", is_whole=True)
    risk = replace(RISKS[name], scale=made.scale)
    options = {
        "first": first,
        "market": made.market,
        "bank": whole_bank(panel),
        "window_bars": made.config.history_bars,
    }
    played = backtest(policy, panel, risk=risk, **options)
    # float32 observations against the learner's double precision
    assert returns[0].detach().numpy() == pytest.approx(played.returns, abs=3e-6)
    assert np.abs(played.returns).max() > 1e-3


def test_views_are_signed_around_a_base_and_their_sum_is_long_only() -> None:
    made, panel = learner(RISKS["base"]), market_panel(0.8, bars=400)
    policy = AgentPolicy(made.agent, "direct", "target", is_whole=True)
    risk = replace(RISKS["base"], scale=made.scale)
    bank, bars = whole_bank(panel), made.config.history_bars
    played = backtest(policy, panel, risk=risk, first=130, market=made.market, bank=bank, window_bars=bars)
    assert (played.orders < 0).any()
    assert played.held is not None
    assert played.held.min() >= 0.0
    assert learner(RISKS["cash"]).policy.lowest == 0.0


def test_the_scale_in_training_is_the_tracking_error_over_the_views_volatility() -> None:
    made = learner(RISKS["base"])
    before = made.scale
    made.round()
    starts = torch.arange(0, len(made.series.to_open) - 24, 24)
    _, variance = made.roll_sized(starts, 24)
    assert made.scale == pytest.approx(0.04 / variance**0.5, rel=0.3)
    resumed = learner(RISKS["base"])
    resumed.load_state_dict(made.state_dict())
    assert resumed.scale == made.scale != before


def test_the_gradient_of_the_step_is_that_of_differences() -> None:
    panel = market_panel(0.4, bars=120)
    risk = RISKS["base"]
    sizer = ViewSizer.of(make_tables(panel, risk.base), risk, 60, torch.device("cpu"))
    views = torch.randn(3, len(panel.symbols), dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 0.02
    base, now = torch.zeros_like(views), torch.tensor([5, 11, 30])
    rules = Rules.of(replace(MARKET, limits=Limits(position_cap_fraction=1.0)))

    def targets(given: torch.Tensor) -> torch.Tensor:
        sized = sizer.size(given, now, 1.5, base, rules)
        return sized.targets.square().sum() + sized.scale.sum()

    views.requires_grad_(True)
    (gradient,) = torch.autograd.grad(targets(views), views)
    step = 1e-6
    for place in [(0, 0), (1, 2), (2, 3)]:
        moved = torch.zeros_like(views)
        moved[place] = step
        with torch.no_grad():
            slope = float(targets(views + moved) - targets(views - moved)) / (2 * step)
        assert float(gradient[place]) == pytest.approx(slope, rel=1e-4, abs=1e-7)
