"""Capacity: at the equity that is named, the kernel's own account earns half."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.report.persian import in_persian
from pacesetter.evaluation.statistics.capacity import find_capacity
from pacesetter.evaluation.statistics.contribution import contribution
from pacesetter.market.parameters import Costs, Limits, MarketParameters
from pacesetter.policies.policy import Policy

RULES = MarketParameters(
    Costs(commission_bps=0.0, spread_bps=0.0, slippage_bps=0.0, impact_bps=50.0),
    Limits(position_cap_fraction=0.5, volume_cap_fraction=1.0),
)


class Turning(Policy):
    name, action = "turning", "target"

    def decide(self, snapshot):
        return np.full(2, 0.4 if snapshot.t % 2 else 0.1)


@pytest.fixture(scope="module")
def panel():
    return load("synthetic", symbols=2, bars=400, seed=4, strength=0.0)


def played(panel, equity):
    rules = replace(RULES, initial_cash=equity)
    return backtest(Turning(), panel, first=250, market=rules)


def test_the_kernel_earns_half_at_the_capacity(panel):
    own = played(panel, 10_000.0)
    capacity = find_capacity(own, panel, RULES.costs)
    assert capacity is not None
    assert not capacity.is_assumed
    large = played(panel, capacity.equity)
    ratio = large.returns.mean() / own.returns.mean()
    assert ratio == pytest.approx(0.5, abs=0.03)
    assert "halves at an equity of" in capacity.sentence
    assert in_persian(capacity.sentence)


def test_without_impact_in_the_rules_a_law_is_assumed_and_said(panel):
    free = Costs()
    capacity = find_capacity(played(panel, 10_000.0), panel, free)
    assert capacity is not None
    assert capacity.is_assumed
    assert "assumed impact" in capacity.sentence
    assert in_persian(capacity.sentence)


def test_shares_of_risk_sum_to_one(panel):
    table = contribution(played(panel, 10_000.0)).table
    assert table["risk"].sum() == pytest.approx(1.0)
    assert (table["turnover"] > 0).all()
