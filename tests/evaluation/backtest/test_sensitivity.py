"""Costs, slippage and limits varied one at a time."""

from __future__ import annotations

from pacesetter.data import load
from pacesetter.evaluation.backtest.scenarios import evaluate_scenarios
from pacesetter.evaluation.backtest.sensitivity import cost_scenarios, scaled_costs, sensitivity_scenarios
from pacesetter.market import Costs, MarketParameters


def test_every_cost_is_scaled_and_interest_is_not() -> None:
    before = MarketParameters(costs=Costs(1, 2, 3, 4, 0, 6, 7, 8))
    assert scaled_costs(before, 2.0).costs == Costs(2, 4, 6, 8, 0, 12, 7, 16)
    assert scaled_costs(before, 2.0, ("spread_bps",)).costs == Costs(1, 2, 6, 4, 0, 6, 7, 8)


def test_higher_costs_cost_more_and_earn_less() -> None:
    panel = load("synthetic", symbols=8, bars=400, seed=2)
    table = evaluate_scenarios(["random"], cost_scenarios(panel, 250))
    assert [label for label, _ in table.index] == ["costs ×1", "costs ×2", "costs ×3"]
    assert table["cost"].is_monotonic_increasing
    assert table["total_return"].is_monotonic_decreasing


def test_one_rule_changes_at_a_time() -> None:
    panel, market = load("synthetic", symbols=8, bars=400, seed=2), MarketParameters()
    scenarios = {scenario.label: scenario.market for scenario in sensitivity_scenarios(panel, 250)}
    assert scenarios["costs ×1"] == scenarios["position cap 15%"] == scenarios["no loss limit"] == market
    slippage, cap = scenarios["slippage 20 bps"], scenarios["position cap 5%"]
    assert slippage is not None
    assert cap is not None
    assert (slippage.costs.slippage_bps, slippage.limits) == (20.0, market.limits)
    assert (cap.limits.position_cap_fraction, cap.costs) == (0.05, market.costs)
    table = evaluate_scenarios(["hold"], sensitivity_scenarios(panel, 250)).droplevel("policy")
    assert table.loc["position cap 5%", "exposure"] < 0.5 < table.loc["position cap 30%", "exposure"]
    assert table.loc["slippage 0 bps", "cost"] < table.loc["slippage 20 bps", "cost"]
