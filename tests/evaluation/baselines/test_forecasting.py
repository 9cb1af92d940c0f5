"""The forecasting yardsticks: their arithmetic by hand, and what they find on planted markets and on noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.linear_model import lasso_path

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines import forecasting
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines, make_baseline, possible_baselines
from pacesetter.evaluation.baselines.forecasting import (
    NEVER,
    PENALTIES,
    Lasso,
    Oracle,
    ReturnsOracle,
    Ridge,
    choose_thresholds,
    fill_returns,
    lagged_returns,
)
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.features import feature_table
from pacesetter.market.parameters import Costs, MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Snapshot

CHEAP = MarketParameters(costs=Costs(commission_bps=1, spread_bps=1, slippage_bps=1))
FIRST = 1_200


def market(strength: float) -> Panel:
    options = {"regimes": {"calm": (-0.01, 1.0)}, "volatility": 0.15, "unrelated_share": 0.0, "groups": 2}
    return Synthetic(symbols=6, bars=2_000, seed=3, strength=strength, **options).read()


@pytest.fixture(scope="module")
def planted():
    panel = market(0.6)
    return panel, market_bank(panel, feature_table(panel, ["return_1"]))


def ratio(policy, panel, bank) -> float:
    result = backtest(policy, panel, first=FIRST, market=CHEAP, bank=bank, window_bars=2)
    return float(sharpe(result.returns, result.bars_per_year))


def test_an_order_earns_from_the_next_open_to_the_one_after():
    index = pd.date_range("2020-01-01", periods=4, tz="UTC").as_unit("ns")
    prices = np.array([[1.0], [2.0], [3.0], [6.0]])
    closes_only = Panel.from_fields(index, ["A"], {"close": prices})
    assert fill_returns(closes_only)[:, 0] == pytest.approx([0.5, 1.0, np.nan, np.nan], nan_ok=True)
    bars = Panel.from_fields(index, ["A"], dict.fromkeys(("open", "high", "low", "close"), prices))
    assert fill_returns(bars) == pytest.approx(fill_returns(closes_only), nan_ok=True)


def test_lags_stand_side_by_side_with_the_newest_first():
    returns = np.array([[1.0, 10.0], [2.0, 20.0], [np.nan, 30.0]])
    assert lagged_returns(returns, 2).tolist() == [[1, 10, 0, 0], [2, 20, 1, 10], [0, 30, 2, 20]]


def test_ridge_is_scikit_learns():
    generator = np.random.default_rng(0)
    features, targets = generator.normal(size=(60, 4)), generator.normal(size=(60, 2))
    path = list(Ridge().path(features, targets))
    largest = np.linalg.eigvalsh(features.T @ features / 60).max()
    penalties = 60 * largest * np.logspace(2, -3, PENALTIES)  # scikit-learn's loss is a sum, ours a mean
    theirs = SklearnRidge(alpha=penalties[5], fit_intercept=False).fit(features, targets).coef_.T
    assert path[5] == pytest.approx(theirs)


def test_features_are_scaled_by_the_bars_before_the_validation_quarter():
    panel = market(0.6).rows(0, 400)
    close = panel.close.copy()
    close[300:] = close[299] * np.exp(30 * np.log(panel.close[300:] / panel.close[299]))  # wild validation bars
    wild = Panel.from_fields(panel.index, panel.symbols, {"close": close})
    scales = []
    for each in (Panel.from_fields(panel.index, panel.symbols, {"close": panel.close}), wild):
        ridge = Ridge()
        ridge.fit(Snapshot(each, 399, {}), fill_returns(each), 300)
        scales.append(ridge.scale)
    np.testing.assert_array_equal(*scales)


def test_the_largest_penalty_of_a_lasso_leaves_nothing_and_the_smallest_nearly_all():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(500, 3))
    targets = features @ np.array([[1.0], [0.0], [-2.0]])
    path = list(Lasso().path(features, targets))
    assert not path[0].any()
    assert path[-1][:, 0] == pytest.approx([1.0, 0.0, -2.0], abs=0.05)


def test_the_path_of_a_lasso_is_scikit_learns():
    generator = np.random.default_rng(1)
    features = generator.normal(size=(200, 8))
    targets = features[:, :2] + generator.normal(size=(200, 2))
    products = features.T @ targets
    penalties = np.abs(products).max() / 200 * np.logspace(0, -2, PENALTIES)
    options = {"alphas": penalties, "precompute": features.T @ features, "max_iter": 1_000_000, "tol": 1e-14}
    theirs = [lasso_path(features, targets[:, k], Xy=products[:, k].copy(), **options)[1] for k in range(2)]
    found = np.stack(list(Lasso.path(features, targets)))
    np.testing.assert_allclose(found, np.stack(theirs, axis=1).T.swapaxes(1, 2), atol=1e-6)


def test_the_path_ends_some_penalties_behind_the_least_loss():
    tried = []

    def path():
        for place, slope in enumerate((0.0, 0.5, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)):
            tried.append(place)
            yield np.array([[slope]])

    features = np.ones((10, 1))
    best, chosen = forecasting._choose_penalty(path(), features, features)
    assert (best, chosen.item()) == (2, 1.0)
    assert tried == list(range(2 + forecasting.PATIENCE + 1))


def test_inputs_that_are_nearly_the_same_have_a_whole_path(recwarn):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(300, 1)) + 0.01 * generator.normal(size=(300, 6))
    targets = generator.normal(size=(300, 1))
    assert len(list(Lasso.path(features, targets))) == PENALTIES
    assert not recwarn.list


def test_a_regression_is_fitted_once_for_each_moment_however_it_is_played(planted):
    panel, bank = planted
    forecasting._regress.cache_clear()
    options = {"refits": panel.index[[1_400, 1_600]], "market": CHEAP, "bank": bank, "window_bars": 2, "first": 1_400}
    evaluate_baselines(panel, names=["lasso", "lasso_sized", "ridge", "ridge_sized"], **options)
    evaluate_baselines(panel, names=["lasso_sized", "ridge_sized"], risk=RiskOptions(0.1), **options)
    assert forecasting._regress.cache_info().misses == 4


def test_each_fit_measures_its_views_where_it_was_not_fitted(planted):
    """A scale from an earlier fit alone would be 0 for good where that one stayed in cash."""
    late, noise = (each.close[:1_000] for each in (market(0.6), market(0.0)))
    close = np.vstack([noise, noise[-1] * late[1:] / late[0]])
    panel = Panel.from_fields(planted[0].index[: len(close)], planted[0].symbols, {"close": close})
    bank = market_bank(panel, feature_table(panel, ["return_1"]))
    options = {"market": CHEAP, "bank": bank, "window_bars": 2, "names": ["lasso_sized"]}
    early = evaluate_baselines(panel, 800, last=1_000, risk=RiskOptions(0.1), **options)["lasso_sized"]
    assert not early.returns.any()  # nothing to be found yet
    played = evaluate_baselines(panel, 1_700, risk=RiskOptions(0.1), **options)["lasso_sized"]
    assert 0.5 < np.abs(played.held).sum(axis=1).max() <= 1.0 + 1e-9
    assert sharpe(played.returns, played.bars_per_year) > 1


def test_thresholds_are_chosen_net_of_costs():
    forecasts = np.tile([[1.0], [-1.0]], (50, 1))
    earned = 0.01 * forecasts
    assert choose_thresholds(forecasts, earned, cost=0.001, size=0.5).entry < 1.0
    assert choose_thresholds(forecasts, earned, cost=0.02, size=0.5) == NEVER  # every trade costs more than it earns


def test_what_is_planted_is_found_in_the_order_of_what_each_knows(planted):
    panel, bank = planted
    oracles = [kind.from_truth(panel.truth, bank, CHEAP) for kind in (Oracle, ReturnsOracle)]
    best, returns_only = (ratio(policy, panel, bank) for policy in oracles)
    lasso, hold = (ratio(make_baseline(name, bank, CHEAP), panel, bank) for name in ("lasso", "hold"))
    assert best > returns_only > 0.7 * best
    assert lasso > 0.6 * best
    assert hold < 0.2 * best


def test_on_noise_a_lasso_earns_nothing_worth_mentioning():
    panel = market(0.0)
    bank = market_bank(panel, feature_table(panel, ["return_1"]))
    assert ratio(make_baseline("lasso", bank, CHEAP), panel, bank) < 1.0


def test_with_too_few_bars_to_fit_everything_stays_in_cash(planted):
    panel, _ = planted
    short = panel.rows(0, 160)
    bank = market_bank(short, feature_table(short, ["return_1"]))
    for name in ("ridge", "lasso"):
        result = backtest(make_baseline(name, bank, CHEAP), short, first=100, market=CHEAP, bank=bank, window_bars=2)
        assert not result.fills.any()


def test_nothing_after_the_first_decision_is_fitted_to(planted):
    panel, bank = planted
    altered = panel.close.copy()
    altered[FIRST + 100 :] *= 1.5
    fields = {name: panel[name] for name in ("open", "high", "low")} | {"close": altered}
    fields |= {"high": np.maximum(fields["high"], altered)}
    other = Panel.from_fields(panel.index, panel.symbols, fields)
    options = {"first": FIRST, "last": FIRST + 90, "market": CHEAP, "window_bars": 2}
    ours = backtest(make_baseline("lasso", bank, CHEAP), panel, bank=bank, **options)
    there = market_bank(other, feature_table(other, ["return_1"]))
    theirs = backtest(make_baseline("lasso", there, CHEAP), other, bank=there, **options)
    assert np.array_equal(ours.orders, theirs.orders, equal_nan=True)


def test_the_rule_on_our_feature_needs_the_feature(planted):
    _, bank = planted
    assert {"ridge", "lasso"} <= set(possible_baselines(bank))
    assert "expected" not in possible_baselines(bank)


def test_an_oracle_is_refused_where_no_truth_is_known(planted):
    _, bank = planted
    with pytest.raises(DataError, match="known truth"):
        Oracle.from_truth(None, bank, CHEAP)
