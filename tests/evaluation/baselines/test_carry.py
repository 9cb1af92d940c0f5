"""The carry baseline collects funding, and says what it needs."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data.loading import load
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.carry import Carry
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines, make_baseline, possible_baselines
from pacesetter.market import Column, Limits, MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank

RATES = np.array([0.002, 0.001, 0.0, -0.001])


def funded() -> Panel:
    panel = load("synthetic", symbols=4, bars=200, seed=3, groups=0)
    return panel.with_field("funding_rate", np.tile(RATES, (200, 1)))


def test_shorts_what_pays_and_earns_the_funding() -> None:
    panel = funded()
    market = MarketParameters(limits=Limits(position_cap_fraction=1.0, shorting=True))
    played = backtest(make_baseline("carry", market_bank(panel), market), panel, first=100, market=market)
    assert played.orders[0] == pytest.approx([-0.375, -0.125, 0.125, 0.375])
    assert played.ledger[1:, Column.FUNDING].min() > 0
    # Three eighths of the equity each get .2 % and .1 % a bar, and an eighth .1 %.
    assert played.ledger[2, Column.FUNDING] / played.ledger[2, Column.EQUITY] == pytest.approx(0.00125, rel=0.1)


def test_long_only_it_holds_what_pays_longs() -> None:
    panel = funded()
    market = MarketParameters(limits=Limits(position_cap_fraction=1.0))
    played = backtest(make_baseline("carry", market_bank(panel), market), panel, first=100, market=market)
    assert played.orders[0].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_it_is_a_default_where_there_is_funding_alone() -> None:
    panel = funded()
    assert "carry" in possible_baselines(market_bank(panel))
    assert Carry.lacks(market_bank(load("synthetic", symbols=4, bars=200, seed=3))) == "a column funding_rate"
    results = evaluate_baselines(panel, 100, ["carry", "hold"])
    assert set(results) == {"carry", "hold"}
    with pytest.raises(ConfigError, match="every_bars=0"):
        Carry(every_bars=0)


def test_later_funding_changes_no_order() -> None:
    panel = funded()
    rates = panel["funding_rate"].copy()
    rates[151:] = 0.5
    market = MarketParameters(limits=Limits(position_cap_fraction=1.0, shorting=True))
    orders = [
        backtest(Carry(cap=1.0, shorting=True), each, first=100, market=market).orders[:51]
        for each in (panel, panel.with_field("funding_rate", rates))
    ]
    assert np.array_equal(orders[0], orders[1], equal_nan=True)
