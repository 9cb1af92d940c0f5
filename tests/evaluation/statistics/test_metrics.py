"""Metrics against quantstats, by hand, and those of a whole backtest against its ledger."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import DataError
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.statistics import metrics as ours
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.market.ledger import Column
from pacesetter.policies.policy import Policy, Snapshot

YEAR = 252
SERIES = arrays(np.float64, (40, 3), elements=st.floats(-0.2, 0.2).map(lambda value: round(value, 6)))


@pytest.fixture(scope="module")
def library() -> ModuleType:
    """quantstats, which warns while it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("quantstats.stats", reason="quantstats is only there to check against")


@pytest.fixture(scope="module")
def daily() -> pd.Series:
    rng = np.random.default_rng(3)
    values = 0.0004 + 0.01 * rng.standard_t(4, 1500)
    values[::50] = 0.0  # bars without a position
    return pd.Series(values, pd.bdate_range("2010-01-04", periods=1500))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "theirs", "options"),
    [
        ("total_return", "comp", {}),
        ("annual_return", "cagr", {"periods": YEAR}),
        ("volatility", "volatility", {"periods": YEAR}),
        ("sharpe", "sharpe", {"periods": YEAR}),
        ("sortino", "sortino", {"periods": YEAR}),
        ("calmar", "calmar", {"periods": YEAR}),
        ("win_rate", "win_rate", {}),
        ("profit_factor", "profit_factor", {}),
        ("tail_ratio", "tail_ratio", {}),
    ],
)
def test_they_agree_with_quantstats(
    library: ModuleType, daily: pd.Series, name: str, theirs: str, options: dict[str, Any]
) -> None:
    own = [YEAR] if options else []
    assert getattr(ours, name)(daily.to_numpy(), *own) == pytest.approx(
        float(getattr(library, theirs)(daily, **options)), rel=1e-9
    )


@pytest.mark.filterwarnings("ignore")
def test_losses_are_positive_here_and_negative_in_quantstats(library: ModuleType, daily: pd.Series) -> None:
    values = daily.to_numpy()
    assert ours.max_drawdown(values) == pytest.approx(-float(library.max_drawdown(daily)), rel=1e-9)
    # ours is the historical one; the library's value at risk assumes a normal distribution and has no such option
    assert ours.value_at_risk(values) == pytest.approx(-daily.quantile(0.05), rel=1e-9)
    historical = float(library.conditional_value_at_risk(daily, method="historical"))
    assert ours.expected_shortfall(values) == pytest.approx(-historical, rel=1e-9)
    np.testing.assert_allclose(ours.drawdowns(values), -library.to_drawdown_series(daily), atol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_alpha_and_beta_agree_with_quantstats(library: ModuleType, daily: pd.Series) -> None:
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(daily))
    held = 0.0001 + 1.3 * daily + noise
    theirs = library.greeks(held, daily, periods=YEAR)
    alpha, beta = ours.alpha_beta(held.to_numpy(), daily.to_numpy(), YEAR)
    assert (alpha, beta) == pytest.approx((theirs["alpha"], theirs["beta"]), rel=1e-9)
    assert np.isnan(ours.alpha_beta(held.to_numpy(), np.zeros(len(held)), YEAR)).all()


def test_drawdowns_by_hand() -> None:
    returns = np.array([0.25, -0.2, -0.5, 1.0, 0.25, 0.0, -0.1])  # equity 1.25 1 0.5 1 1.25 1.25 1.125
    assert ours.max_drawdown(returns) == pytest.approx(0.6)
    assert ours.longest_drawdown(returns) == 3
    assert ours.longest_drawdown(np.array([-0.1, 0.0, 0.05])) == 3  # the start counts as a high
    assert ours.longest_drawdown(np.zeros(4)) == 0


def test_nothing_moves() -> None:
    for still in (np.zeros(50), np.full(50, 0.1 / YEAR)):
        assert ours.sharpe(still) == 0.0
    assert np.isnan([ours.sortino(np.zeros(9)), ours.calmar(np.zeros(9), YEAR), ours.win_rate(np.zeros(9))]).all()


def test_all_is_lost() -> None:
    returns = np.array([0.1, -1.0, 0.0])
    assert ours.annual_return(returns, YEAR) == -1.0
    assert ours.max_drawdown(returns) == 1.0


@pytest.mark.parametrize(
    "name",
    [
        *("total_return", "volatility", "sharpe", "sortino", "max_drawdown", "longest_drawdown", "win_rate"),
        *("profit_factor", "tail_ratio", "value_at_risk", "expected_shortfall"),
    ],
)
@given(returns=SERIES)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_many_at_once_are_each_by_itself(name: str, returns: Any) -> None:
    statistic = getattr(ours, name)
    alone = [statistic(column) for column in returns.T.copy()]
    np.testing.assert_allclose(statistic(returns), alone, rtol=1e-9, atol=1e-12)


@given(returns=SERIES)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_a_shortfall_is_no_smaller_than_the_value_at_risk(returns: Any) -> None:
    assert (ours.expected_shortfall(returns) >= ours.value_at_risk(returns) - 1e-12).all()
    assert ((ours.drawdowns(returns) >= 0) & (ours.drawdowns(returns) < 1)).all()


# ---- a whole backtest -----------------------------------------------------------------------------------------------


class Shuffled(Policy):
    """Random weights."""

    name, action = "shuffled", "target"

    def decide(self, seen: Snapshot) -> Any:
        return np.random.default_rng(seen.t).dirichlet(np.ones(len(seen.panel.symbols))) * 0.3


@pytest.fixture(scope="module")
def result() -> Backtest:
    return backtest(Shuffled(), Synthetic(symbols=3, bars=260, seed=1).read(), first=60)


def test_a_backtest_in_figures(result: Backtest) -> None:
    found = metrics(result, benchmark=result.returns)
    assert found["bars"] == 199
    assert found["total_return"] == pytest.approx(result.equity[-1] / result.equity[0] - 1)
    assert found["max_drawdown"] == pytest.approx(result.drawdown.max())
    assert found["cost"] == pytest.approx(result.ledger[:, Column.COST].sum())
    assert found["cost_share"] == pytest.approx(found["cost"] / 100_000)
    assert found["turnover"] > 1
    assert 0 < found["exposure"] <= 0.4
    closed = [trade.pnl for trade in result.trades() if trade.exit_bar is not None]
    assert found["round_trips"] == len(closed)
    assert (found["alpha"], found["beta"]) == pytest.approx((0, 1))
    assert all(isinstance(value, float) for value in found.values())


def test_figures_that_cannot_be_are_refused(result: Backtest) -> None:
    with pytest.raises(DataError, match="the benchmark has 5 bars and the result 199"):
        metrics(result, benchmark=np.zeros(5))
    with pytest.raises(DataError, match="returns cover 0 bars"):
        ours.check_returns([])
    with pytest.raises(DataError, match="not finite in 2 of 4 bars, first in bar 1"):
        ours.check_returns([0.0, np.nan, 0.1, np.inf])


def test_volatility_by_sums_is_above_that_of_bars_where_returns_follow_each_other() -> None:
    rng = np.random.default_rng(4)
    news = rng.normal(0, 0.01, 20_001)
    free, stale = news[1:], 0.5 * news[1:] + 0.5 * news[:-1]
    by_bars, by_sums = ours.volatility(free, YEAR), ours.sums_volatility(free, 21, YEAR)
    assert by_sums == pytest.approx(by_bars, rel=0.05)
    # Half of the news a bar late: the variance of a bar halves, that of a month hardly changes.
    assert ours.volatility(stale, YEAR) == pytest.approx(by_bars * np.sqrt(0.5), rel=0.02)
    assert ours.sums_volatility(stale, 21, YEAR) == pytest.approx(by_sums, rel=0.03)
    # By hand: sums of two of (1, 2, 3, 6) are 3, 5, 9, less 2 · 3; m = 2 · 3 · (1 − 2/4) = 3
    assert ours.sums_volatility(np.array([1.0, 2.0, 3.0, 6.0]), 2) == pytest.approx(np.sqrt((9 + 1 + 9) / 3))
    assert np.isnan(ours.sums_volatility(free[:41], 21))
    many = ours.sums_volatility(np.stack([free, stale], axis=1), 21, YEAR)
    assert many == pytest.approx([by_sums, ours.sums_volatility(stale, 21, YEAR)])
