"""Results by regime and against an index."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines
from pacesetter.evaluation.statistics.metrics import total_return
from pacesetter.evaluation.statistics.regimes import Index, benchmark_table, index_returns, market_regimes, regime_table
from pacesetter.features import REGIMES, regime_labels
from pacesetter.market import Costs, Limits, MarketParameters, Orders
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy, Snapshot

FREE = MarketParameters(
    costs=Costs(commission_bps=0, spread_bps=0, slippage_bps=0),
    limits=Limits(position_cap_fraction=1.0, gross_leverage=2.0),
    orders=Orders(minimum_trade=0.0),
)


@cache
def market() -> Panel:
    return load("synthetic", symbols=5, bars=900, seed=4, regime_bars=100)


@dataclass
class Half(Policy):
    """Half of everything in equal parts, always."""

    name: str = "half"
    action: str = "target"

    def decide(self, seen: Snapshot) -> Any:
        return np.full(len(seen.panel.symbols), 0.5 / len(seen.panel.symbols))


@cache
def results() -> dict[str, Backtest]:
    return evaluate_baselines(market(), 200, ["cash", "equal_weight"])


def test_the_market_is_in_the_regime_of_most_symbols() -> None:
    labels, found = regime_labels(market()), market_regimes(market())
    for t in range(0, 900, 50):
        known = labels[t][labels[t] >= 0]
        assert found[t] == (np.bincount(known).argmax() if len(known) else -1)
    assert found[0] == -1


def test_every_return_belongs_to_the_regime_at_its_decision() -> None:
    result = results()["equal_weight"]
    table = regime_table(result, market())
    assert tuple(table.index) == REGIMES
    assert table["bars"].sum() == len(result)
    assert np.prod(1 + table["total_return"].fillna(0)) - 1 == pytest.approx(total_return(result.returns))
    decided = market_regimes(market())[200:-1]
    bear = result.returns[decided == REGIMES.index("bear")]
    assert table.loc["bear", "total_return"] == pytest.approx(np.prod(1 + bear) - 1)
    assert table.loc["bear", "positive"] == pytest.approx((bear > 0).mean())


def test_the_index_is_all_symbols_in_equal_parts_or_one_of_them() -> None:
    closes = np.array([[1.0, 10.0], [2.0, 10.0], [np.nan, 5.0]])
    panel = Panel.from_fields(pd.date_range("2020", periods=3, tz="UTC"), ["A", "B"], {"close": closes})
    np.testing.assert_allclose(index_returns(panel), [0, 0.5, -0.5])
    np.testing.assert_allclose(index_returns(panel, "A"), [0, 1.0, 0])


def test_half_of_the_index_has_half_its_beta_and_no_alpha() -> None:
    closes_only = Panel.from_fields(market().index, market().symbols, {"close": market().close})
    half = backtest(Half(), closes_only, first=200, market=FREE)
    table = benchmark_table({"half": half, **results()}, market())
    assert table.loc["half", "beta"] == pytest.approx(0.5, abs=0.01)
    assert table.loc["half", "alpha"] == pytest.approx(0.0, abs=0.01)
    assert table.loc["half", "correlation"] > 0.99
    assert table.loc["cash", "beta"] == 0
    assert np.isnan(table.loc["cash", "correlation"])
    assert (table["active_drawdown"] >= 0).all()


def test_a_panel_without_the_bars_is_refused() -> None:
    with pytest.raises(DataError, match="give the panel of the backtest"):
        regime_table(results()["cash"], load("synthetic", symbols=5, bars=300, start="2030-01-01"))


def test_a_named_index_replaces_all_symbols_in_equal_parts() -> None:
    panel = market()
    index = Index.of(panel, panel.symbols[0])
    np.testing.assert_array_equal(index.returns, index_returns(panel, panel.symbols[0]))
    table = benchmark_table(results(), panel, index.returns)
    assert not np.allclose(
        table.loc["equal_weight", "beta"], benchmark_table(results(), panel).loc["equal_weight", "beta"]
    )
    with pytest.raises(ConfigError, match=r"evaluation\.index=SPYY is not a symbol of the data"):
        Index.of(panel, "SPYY")
