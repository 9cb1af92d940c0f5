"""Stressed markets: what each does to prices inside its stretch, and that it leaves every other return alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.backtest.scenarios import evaluate_scenarios
from pacesetter.evaluation.backtest.stress import (
    STRESSES,
    LiquidityDrought,
    Move,
    Sideways,
    VolatilityShock,
    stress_scenarios,
)
from pacesetter.market import Column, Flag, Limits, MarketParameters
from pacesetter.market.parameters import Margin
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy

START = 150


@cache
def market() -> Panel:
    return load("synthetic", symbols=3, bars=500, seed=8)


def log_returns(panel: Panel) -> Any:
    return np.diff(np.log(panel.close), axis=0, prepend=np.nan)


@pytest.mark.parametrize("name", [name for name in STRESSES if name not in ("liquidity_drought", "funding")])
def test_bars_outside_the_stretch_keep_their_returns_and_bars_stay_sound(name: str) -> None:
    stress = STRESSES[name]()
    panel = stress.apply(market(), START)
    inside = np.zeros(500, dtype=bool)
    inside[START : START + stress.bars] = True
    assert panel.rows(0, START) == market().rows(0, START)
    np.testing.assert_allclose(log_returns(panel)[~inside], log_returns(market())[~inside], atol=1e-12)
    assert (np.abs(log_returns(panel) - log_returns(market()))[inside] > 1e-6).any()
    assert (panel.high >= np.maximum(panel.open, panel.close) * (1 - 1e-12)).all()
    assert (panel.low <= np.minimum(panel.open, panel.close) * (1 + 1e-12)).all()
    np.testing.assert_array_equal(panel.volume, market().volume)


def test_a_crash_takes_what_it_says() -> None:
    panel = STRESSES["crash"]().apply(market(), START)
    np.testing.assert_allclose(panel.close[START + 9 :] / market().close[START + 9 :], 0.7)
    assert (panel.close[START] / market().close[START] > 0.96).all()


def test_a_gap_happens_before_the_open() -> None:
    panel = STRESSES["gap"]().apply(market(), START)
    for name in ("open", "high", "low", "close"):
        np.testing.assert_allclose(panel[name][START:] / market()[name][START:], 0.9)


def test_a_sideways_market_ends_where_it_began() -> None:
    panel = Sideways(bars=100).apply(market(), START)
    np.testing.assert_allclose(panel.close[START + 99], panel.close[START - 1])


def test_a_volatility_shock_multiplies_returns_and_ranges() -> None:
    panel = VolatilityShock(bars=50, factor=3.0).apply(market(), START)
    inside = slice(START, START + 50)
    np.testing.assert_allclose(log_returns(panel)[inside], 3 * log_returns(market())[inside], atol=1e-12)
    ranges = [np.log(bars.high / bars.low)[inside] for bars in (panel, market())]
    np.testing.assert_allclose(ranges[0], 3 * ranges[1], atol=1e-12)


def test_a_drought_halts_trading_thins_volume_and_makes_it_dear() -> None:
    stress, before = LiquidityDrought(bars=100), MarketParameters()
    panel = stress.apply(market(), START)
    inside = slice(START, START + 100)
    assert 0.7 < panel.mask[inside].mean() < 0.9
    assert panel.mask[:START].all()
    assert panel.mask[START + 100 :].all()
    traded = panel.mask[inside]
    np.testing.assert_allclose(panel.volume[inside][traded], 0.05 * market().volume[inside][traded])
    np.testing.assert_array_equal(panel.close[inside][traded], market().close[inside][traded])
    after = stress.rules(before, panel)
    assert after.costs.spread_bps == 5 * before.costs.spread_bps
    assert after.costs.commission_bps == before.costs.commission_bps
    assert after.limits.volume_cap_fraction == 0.1
    closes_only = load("sample", symbols=["KO", "AAPL"])
    assert stress.rules(before, closes_only).limits.volume_cap_fraction is None


def test_every_stress_is_played_beside_the_market_as_it_was() -> None:
    table = evaluate_scenarios(["hold"], stress_scenarios(market(), 250))
    totals = table["total_return"].droplevel("policy")
    perpetuals = ("funding", "liquidation_gap")
    assert list(totals.index) == ["as it was", *(name for name in STRESSES if name not in perpetuals)]
    assert totals["crash"] < totals["gap"] < totals["as it was"] < totals["rally"]
    assert table["volatility"].droplevel("policy")["volatility_shock"] > 1.2 * table["volatility"].iloc[0]
    assert table["cost"].droplevel("policy")["liquidity_drought"] > table["cost"].iloc[0]


def test_what_cannot_be_stressed_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown stress 'crush'; did you mean 'crash'"):
        stress_scenarios(market(), 250, ["crush"])
    with pytest.raises(ConfigError, match="start=100 must be after first=250"):
        stress_scenarios(market(), 250, start=100)
    with pytest.raises(ConfigError, match="takes a price to 0"):
        Move(size=-1.0)
    with pytest.raises(ConfigError, match="bars=0"):
        Sideways(bars=0)


def test_perpetuals_have_stresses_of_their_own() -> None:
    panel = market().with_field("funding_rate", np.full(market().mask.shape, 0.0002))
    limits = Limits(position_cap_fraction=2.0, gross_leverage=4.0, shorting=True)
    rules = MarketParameters(limits=limits, margin=Margin("cross"))
    scenarios = stress_scenarios(panel, 250, market=rules)
    assert [each.label for each in scenarios[-2:]] == ["funding", "liquidation_gap"]
    stressed = scenarios[-2].panel["funding_rate"][:, 0]
    assert stressed[-1] == pytest.approx(0.0006)
    assert stressed[250] == pytest.approx(0.0002)
    flat = replace(rules, funding=0.1)
    assert STRESSES["funding"]().rules(flat, panel).funding == pytest.approx(0.3)

    class Levered(Policy):
        name, action = "levered", "target"

        def decide(self, snapshot: Any) -> Any:
            return np.full(3, 1.2 if snapshot.t == 250 else np.nan)

    by_name = {each.label: each for each in scenarios}
    played = {
        name: backtest(Levered(), by_name[name].panel, first=250, market=rules)
        for name in ("as it was", "funding", "liquidation_gap")
    }
    paid = {name: result.ledger[:, Column.FUNDING].sum() for name, result in played.items()}
    assert paid["funding"] < paid["as it was"] < 0.0
    liquidated = played["liquidation_gap"].ledger
    assert (liquidated[:, Column.FLAGS].astype(int) & Flag.LIQUIDATED).any()
    assert liquidated[-1, Column.EQUITY] >= 0.0
