"""One account, several fits: each decides from its own start on, in its own units, and none saw later bars."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.backtest import PlayedMarket, backtest, backtest_many
from pacesetter.evaluation.backtest.refitted import RefittedPolicy
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines
from pacesetter.market.parameters import Limits, MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy

FREE = MarketParameters(limits=Limits(position_cap_fraction=1.0))


class Constant(Policy):
    action = "target"

    def __init__(self, share: float, until: pd.Timestamp | None = None) -> None:
        self.name, self.share, self.fitted_until = f"constant {share}", share, until
        self.firsts: list[int] = []

    def decide(self, snapshot):
        self.firsts.append(snapshot.first)
        return np.full(len(snapshot.panel.symbols), self.share)


@pytest.fixture(scope="module")
def panel():
    return load("synthetic", symbols=2, bars=300, seed=3)


def test_each_fit_decides_from_its_own_start(panel):
    fits = Constant(0.1), Constant(0.3)
    policy = RefittedPolicy(fits, panel.index[[200, 250]])
    assert (policy.name, policy.action) == ("constant 0.3", "target")
    result = backtest(policy, panel, first=200, market=FREE)
    assert set(result.orders[:50].ravel()) == {0.1}
    assert set(result.orders[50:].ravel()) == {0.3}
    assert (set(fits[0].firsts), set(fits[1].firsts)) == ({200}, {250})
    many = backtest_many(policy, [PlayedMarket(panel, market_bank(panel), FREE)] * 2, first=200)
    assert all((each.orders == result.orders).all() for each in many)


def test_each_fit_brings_the_scale_of_its_views(panel):
    risk = RiskOptions(target_volatility=0.1, base="equal_weight", tracking_error=0.05, scale=0.2)
    alone = backtest(Constant(0.3), panel, first=200, market=FREE, risk=risk)
    one = RiskOptions(target_volatility=0.1, base="equal_weight", tracking_error=0.05, scale=1.0)
    policy = RefittedPolicy((Constant(0.3),), panel.index[[200]], (0.2,))
    together = backtest(policy, panel, first=200, market=FREE, risk=one)
    assert together.returns == pytest.approx(alone.returns, abs=1e-12)


def test_regressions_are_refitted_at_the_same_moments():
    market = load("synthetic", symbols=4, bars=900, seed=1, strength=0.8)
    once = evaluate_baselines(market, 400, ["hold", "lasso"])
    twice = evaluate_baselines(market, 400, ["hold", "lasso"], refits=market.index[[400, 650]])
    assert (once["hold"].returns == twice["hold"].returns).all()
    assert (once["lasso"].returns[:250] == twice["lasso"].returns[:250]).all()
    assert not (once["lasso"].orders[250:] == twice["lasso"].orders[250:]).all()


def test_a_fit_that_saw_later_bars_and_starts_out_of_order_are_refused(panel):
    with pytest.raises(DataError, match="after its first decision"):
        RefittedPolicy((Constant(0.1, panel.index[210]),), panel.index[[200]])
    with pytest.raises(ConfigError, match="not in order"):
        RefittedPolicy((Constant(0.1), Constant(0.2)), panel.index[[250, 200]])
    with pytest.raises(ConfigError, match="2 fits have 1 starts"):
        RefittedPolicy((Constant(0.1), Constant(0.2)), panel.index[[200]])
