"""Policies over many markets: rows, shared banks, baselines made for each market."""

from __future__ import annotations

import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.backtest.scenarios import Scenario, evaluate_scenarios, spread
from pacesetter.evaluation.baselines.allocators import EqualWeight
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.market import Limits, MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank

WIDE = MarketParameters(limits=Limits(position_cap_fraction=0.5))


def test_each_scenario_and_policy_has_the_row_of_its_own_backtest() -> None:
    panel, computed = load("synthetic", symbols=3, bars=300), list[Panel]()

    def bank_of(given: Panel) -> Bank:
        computed.append(given)
        return market_bank(given)

    scenarios = [
        Scenario("all", panel, 200),
        Scenario("wide", panel, 200, 250, WIDE),
        Scenario("cut", panel.rows(50), 180),
    ]
    table = evaluate_scenarios(["cash", EqualWeight(every_bars=1)], scenarios, bank_of=bank_of)
    assert len(computed) == 2
    assert list(table.index) == [(label, name) for label in ("all", "wide", "cut") for name in ("cash", "equal_weight")]
    assert (table.xs("cash", level="policy")["total_return"] == 0).all()
    own = metrics(backtest(EqualWeight(every_bars=1), panel, first=200))
    pd.testing.assert_series_equal(table.loc[("all", "equal_weight")], pd.Series(own), check_names=False)


def test_a_baseline_is_made_for_the_rules_of_each_scenario() -> None:
    panel = load("synthetic", symbols=2, bars=300)
    table = evaluate_scenarios(
        ["hold"], [Scenario("cap 15 %", panel, 200), Scenario("cap 50 %", panel, 200, None, WIDE)]
    )
    narrow, wide = table["exposure"]
    assert narrow < 0.4 < 0.9 < wide


def test_the_spread_over_scenarios() -> None:
    def over(values: list[float]) -> dict[str, float]:
        index = pd.MultiIndex.from_product([range(len(values)), ["one"]], names=["scenario", "policy"])
        return spread(pd.DataFrame({"sharpe": values}, index=index)).loc["one"].to_dict()

    few = {"mean": 0.5, "lowest": -1.0, "median": 0.5, "highest": 2.0, "positive": 0.5}
    assert over([-1.0, 0.0, 1.0, 2.0]) == pytest.approx(few)
    many = {"mean": 10.0, "5%": 1.0, "50%": 10.0, "95%": 19.0, "positive": 20 / 21}
    assert over([float(value) for value in range(21)]) == pytest.approx(many)  # quantiles from twenty scenarios on


def test_nothing_to_evaluate_and_two_policies_of_one_name_are_refused() -> None:
    panel = load("synthetic", symbols=2, bars=300)
    with pytest.raises(ConfigError, match="policy 'equal_weight' appears twice in 'all'"):
        evaluate_scenarios(["equal_weight", EqualWeight(every_bars=1)], [Scenario("all", panel, 200)])
    with pytest.raises(ConfigError, match="nothing to evaluate"):
        evaluate_scenarios(["cash"], [])
