"""How much a result depends on the market's rules: costs, slippage and limits varied one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from pacesetter.evaluation.backtest.scenarios import Scenario
from pacesetter.market.parameters import Costs, MarketParameters
from pacesetter.panel import Panel

__all__ = ["FACTORS", "cost_scenarios", "scaled_costs", "sensitivity_scenarios"]

FACTORS = (1.0, 2.0, 3.0)
SLIPPAGES_BPS = (0.0, 5.0, 10.0, 20.0)
POSITION_CAPS = (0.05, 0.15, 0.30)
LOSS_LIMITS = (0.1, 0.2, None)
# Interest is income, a model's name is not a number, what is left of an impact is a share of one, and a symbol's own
# cost is scaled below with the spread.
NOT_COSTS = ("interest_bps_per_year", "impact_model", "impact_left", "by_symbol")
ALL_COSTS = tuple(item.name for item in fields(Costs) if item.name not in NOT_COSTS)


def scaled_costs(market: MarketParameters, factor: float, names: Sequence[str] = ALL_COSTS) -> MarketParameters:
    """The market with the named costs `factor` times as high; interest on cash is not a cost and stays."""
    higher_costs: dict[str, Any] = {name: factor * vars(market.costs)[name] for name in names}
    if "spread_bps" in names:  # as which a symbol's own cost is booked
        own = market.costs.by_symbol
        higher_costs["by_symbol"] = tuple(replace(each, extra_bps=factor * each.extra_bps) for each in own)
    return replace(market, costs=replace(market.costs, **higher_costs))


def cost_scenarios(
    panel: Panel, first: int, *, market: MarketParameters | None = None, factors: Sequence[float] = FACTORS
) -> list[Scenario]:
    """The market with all its costs at each multiple."""
    market = market or MarketParameters()
    # All costs together: doubling one of several would understate higher costs.
    return [Scenario(f"costs ×{factor:g}", panel, first, market=scaled_costs(market, factor)) for factor in factors]


def sensitivity_scenarios(panel: Panel, first: int, *, market: MarketParameters | None = None) -> list[Scenario]:
    """Costs at 1×, 2×, 3×, then other slippages, position caps and portfolio loss limits, one at a time."""
    market = market or MarketParameters()
    costs, limits = market.costs, market.limits
    rules = {f"slippage {bps:g} bps": replace(market, costs=replace(costs, slippage_bps=bps)) for bps in SLIPPAGES_BPS}
    rules |= {
        f"position cap {cap:.0%}": replace(market, limits=replace(limits, position_cap_fraction=cap))
        for cap in POSITION_CAPS
    }
    rules |= {
        f"loss limit {limit:.0%}" if limit else "no loss limit": replace(
            market, limits=replace(limits, portfolio_loss_limit_fraction=limit)
        )
        for limit in LOSS_LIMITS
    }
    varied = [Scenario(label, panel, first, market=changed) for label, changed in rules.items()]
    return cost_scenarios(panel, first, market=market) + varied
