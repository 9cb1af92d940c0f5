"""Yardsticks sized as agents are: direct's own arithmetic, the formula by hand, and what sizing adds to a forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline, possible_baselines
from pacesetter.evaluation.baselines.forecasting import Oracle
from pacesetter.evaluation.baselines.sized import (
    Formula,
    LassoSized,
    OracleFormula,
    OracleSized,
    Sizing,
    first_price,
    net_returns,
    observed_returns,
    price_of_risk,
    recent_volatility,
)
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.features import feature_table
from pacesetter.market.parameters import Costs, Limits, MarketParameters
from pacesetter.methods.direct.learner import _first_price
from pacesetter.methods.direct.policy import DirectPolicy, market_price
from pacesetter.policies.market_rows import market_bank

CHEAP = MarketParameters(costs=Costs(commission_bps=1, spread_bps=1, slippage_bps=1))
FIRST = 1_200
SYMBOLS = tuple("ABCDE")


@pytest.fixture(scope="module")
def planted():
    options = {"regimes": {"calm": (-0.01, 1.0)}, "volatility": 0.15, "unrelated_share": 0.0, "groups": 2}
    panel = Synthetic(symbols=6, bars=2_000, seed=3, strength=0.6, **options).read()
    return panel, market_bank(panel, feature_table(panel, ["return_1"]))


def ratio(policy, panel, bank, market=CHEAP) -> float:
    result = backtest(policy, panel, first=FIRST, market=market, bank=bank, window_bars=2)
    return float(sharpe(result.returns, result.bars_per_year))


@pytest.mark.parametrize("lowest", [0.0, -0.15])
def test_targets_are_those_of_direct_in_its_first_shape(lowest):
    generator = np.random.default_rng(0)
    volatility = 0.01 * generator.uniform(0.5, 2, (200, 5))
    signal, held = 0.1 * generator.normal(size=(200, 5)), generator.uniform(lowest, 0.15, (200, 5))
    policy = DirectPolicy(SYMBOLS, cap=0.15, lowest=lowest, side_cost=2.5e-4).double()
    with torch.no_grad():
        policy.log_gain.fill_(np.log(0.02))
        policy.log_price.fill_(np.log(0.25))
        theirs = policy.target(*map(torch.from_numpy, (signal, volatility, held))).numpy()
    ours = Sizing(cap=0.15, lowest=lowest, cost=2.5e-4, price=0.25, gain=0.02)
    assert ours.targets(signal * volatility, volatility, held) == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("shorting", [False, True])
def test_the_price_of_risk_is_that_of_direct(shorting):
    signal = np.random.default_rng(1).normal(size=(50, 5))
    theirs = market_price(torch.from_numpy(signal), torch.tensor(0.3), shorting).numpy()
    assert price_of_risk(signal, 0.3, shorting) == pytest.approx(theirs)
    z = np.random.default_rng(2).normal(size=(500, 5)) + np.random.default_rng(3).normal(size=(500, 1)) / 2
    assert first_price(z) == pytest.approx(_first_price(torch.from_numpy(z)), rel=2e-3)


def test_volatility_is_that_of_direct():
    returns = 0.01 * np.random.default_rng(0).normal(size=(45, 5))
    theirs = DirectPolicy(SYMBOLS).double().moves(torch.from_numpy(returns.T.copy())[None, ..., None])[1][0].numpy()
    assert recent_volatility(returns)[-1] == pytest.approx(theirs, rel=1e-6)


def test_a_symbol_with_too_few_returns_is_not_held():
    returns = np.full((40, 2), 0.01)
    returns[:25, 1] = np.nan
    volatility = recent_volatility(returns)[-1]
    assert volatility.tolist() == [pytest.approx(0.01), np.inf]
    for sizing in (Sizing(cost=1e-3), Formula()):
        assert sizing.targets(np.array([0.01, 0.01]), volatility, np.array([0.1, 0.1]))[1] == 0.0


def test_the_first_gain_lets_nine_tenths_stay_below_the_cap():
    generator = np.random.default_rng(0)
    forecasts, volatility = 1e-3 * generator.normal(size=(2_000, 5)), np.full((2_000, 5), 0.01)
    sizing = Sizing(cap=0.15, price=0.2).first(forecasts, volatility)
    shares = sizing.targets(forecasts, volatility, np.zeros((2_000, 5)))
    assert (shares[shares > 0] >= 0.15).mean() == pytest.approx(0.1, abs=0.002)


def test_the_formula_by_hand():
    sizing = Formula(cap=0.15, lowest=-0.15, gain=0.01)
    shares = sizing.targets(np.array([0.001, -0.002, 0.03]), np.array([0.01, 0.02, 0.01]), np.zeros(3))
    assert shares == pytest.approx([0.01 * 0.001 / 1.01e-4, -0.01 * 0.002 / 4.04e-4, 0.15])
    forecasts = np.linspace(-0.02, 0.02, 1_001)[:, None]
    fitted = sizing.first(forecasts, np.full(forecasts.shape, 0.01))
    wanted = np.abs(fitted.gain * forecasts / (1e-4 + forecasts**2))
    assert np.quantile(wanted, 0.99) == pytest.approx(0.15)


def test_net_returns_pay_cost_and_impact_by_hand():
    sizing = Formula(cap=0.5, cost=0.01, gain=1.0)
    forecasts, volatility = np.full((2, 1), 1.0), np.ones((2, 1))  # w = 0.5 at both bars
    nets = net_returns(sizing, forecasts, volatility, np.array([[0.1], [0.2]]), np.full((2, 1), 2.0), 0.04, 1.0)
    first = 0.5 * 0.1 - 0.5 * (0.01 + 0.04 * np.sqrt(0.25))
    assert nets[:, 0] == pytest.approx([first, 0.5 * 0.2])


def test_without_a_budget_the_zone_holds_where_within_one_the_book_is_traded_again():
    sizing = Sizing(cap=0.5, lowest=-0.5, cost=0.001, price=0.01, gain=0.01)
    forecasts = np.where(np.arange(40) % 2, 0.002, -0.002) * np.ones((6, 40))
    forecasts[1:] *= np.random.default_rng(0).uniform(0.7, 0.9, (5, 40))  # moves that the zone ignores
    volatility, nothing, depth = np.full((6, 40), 0.01), np.zeros((6, 40)), np.ones((6, 40))
    free, bound = (net_returns(sizing, forecasts, volatility, nothing, depth, 0.0, most) for most in (np.inf, 1.0))
    shares = sizing.targets(forecasts[0], volatility[0], np.zeros(40))
    assert np.abs(shares).sum() > 2  # of equity: views, which the risk step sizes
    assert free[0] == pytest.approx(-0.001 * np.abs(shares).sum())
    assert not free[1:].any()
    assert bound[0] == pytest.approx(-0.001)
    assert (bound[1:] < -2e-5).all()


def test_sizing_adds_to_the_same_forecast(planted):
    panel, bank = planted
    two, sized, formula = (kind.from_truth(panel.truth, bank, CHEAP) for kind in (Oracle, OracleSized, OracleFormula))
    best = ratio(sized, panel, bank)
    assert best > ratio(two, panel, bank) + 0.5
    assert ratio(formula, panel, bank) > 0.8 * best
    lasso, lasso_sized = (ratio(make_baseline(name, bank, CHEAP), panel, bank) for name in ("lasso", "lasso_sized"))
    assert 0.7 * best < lasso_sized < best
    assert lasso_sized > lasso
    assert ratio(make_baseline("learned_sized", bank, CHEAP), panel, bank) > 0.7 * best


def test_trees_find_a_part_of_what_is_planted(planted):
    panel, bank = planted
    oracle = ratio(OracleSized.from_truth(panel.truth, bank, CHEAP), panel, bank)
    assert ratio(make_baseline("trees_sized", bank, CHEAP), panel, bank) > 0.4 * oracle


def test_trees_are_played_only_where_named(planted):
    _, bank = planted
    names = possible_baselines(bank)
    assert {"lasso_sized", "ridge_sized"} <= set(names)
    assert not {"trees_sized", "lasso_formula", "ridge_formula"} & set(names)


def test_with_shorting_it_sells_short(planted):
    panel, bank = planted
    both = replace(CHEAP, limits=Limits(shorting=True))
    policy = make_baseline("lasso_sized", bank, both)
    result = backtest(policy, panel, first=FIRST, market=both, bank=bank, window_bars=2)
    assert np.nanmin(result.orders) < -0.1
    assert np.nanmax(result.orders) > 0.1


def test_where_fills_move_the_price_gain_and_zone_are_chosen(planted):
    panel, bank = planted
    costs, limits = replace(CHEAP.costs, impact_bps=50.0), Limits(volume_cap_fraction=0.5)
    deep = MarketParameters(costs=costs, limits=limits, initial_cash=5e8)
    chosen, first = (make_baseline("lasso_sized", bank, deep, **options) for options in ({}, {"has_choice": False}))
    assert isinstance(chosen, LassoSized)
    assert chosen.has_choice
    assert ratio(chosen, panel, bank, deep) > ratio(first, panel, bank, deep)


def test_what_never_pays_on_unseen_bars_stays_in_cash(planted):
    panel, bank = planted
    dear = replace(CHEAP, costs=Costs(commission_bps=500))
    options = {"first": FIRST, "market": dear, "bank": bank, "window_bars": 2}
    assert not backtest(make_baseline("ridge_sized", bank, dear), panel, **options).fills.any()
    short = panel.rows(0, 160)
    few = market_bank(short, feature_table(short, ["return_1"]))
    options = {"first": 100, "market": CHEAP, "bank": few, "window_bars": 2}
    assert not backtest(make_baseline("lasso_sized", few, CHEAP), short, **options).fills.any()


def test_returns_reach_over_bars_without_a_price():
    close = np.array([[1.0], [np.nan], [2.0], [3.0]])
    assert observed_returns(close)[:, 0] == pytest.approx([np.nan, np.nan, 1.0, 0.5], nan_ok=True)


def test_a_sized_oracle_is_refused_where_no_truth_is_known(planted):
    with pytest.raises(DataError, match="known truth"):
        OracleSized.from_truth(None, planted[1], CHEAP)
