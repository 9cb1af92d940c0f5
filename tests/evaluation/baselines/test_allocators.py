"""The allocations against known answers, on markets with halts, late listings and few symbols."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines import allocators as allocation
from pacesetter.evaluation.baselines.allocators import (
    EqualWeight,
    Hold,
    InverseVolatility,
    MinimumVariance,
    Momentum,
    Random,
)
from pacesetter.market import Column, Fill, Limits, MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.policy import Snapshot

NO_SEEN: Any = None
WIDE = MarketParameters(limits=Limits(position_cap_fraction=1.0))


@cache
def market(symbols: int = 10) -> Panel:
    return load("synthetic", symbols=symbols, bars=400, seed=5)


def returns(symbols: int = 6, bars: int = 500) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    scale = np.linspace(0.005, 0.02, symbols)
    return scale * (rng.standard_normal((bars, symbols)) + 0.5 * rng.standard_normal((bars, 1)))


def seen_at(panel: Panel, t: int, first: int | None = None) -> Snapshot:
    nothing = {"position": np.zeros((len(panel.symbols), 7), np.float32)}
    return Snapshot(panel.rows(0, t + 1), t, nothing, None, t if first is None else first)


def test_inverse_volatility_is_that() -> None:
    moves = np.array([[0.01, 0.02, 0.04], [-0.01, -0.02, -0.04]] * 10)
    np.testing.assert_allclose(InverseVolatility().allocate(moves, NO_SEEN), np.array([4, 2, 1]) / 7)


def test_minimum_variance_varies_less_than_any_other() -> None:
    moves = returns()
    best = MinimumVariance(cap=1.0).allocate(moves, NO_SEEN)
    assert best.sum() == pytest.approx(1)
    for seed in range(20):
        other = np.random.default_rng(seed).dirichlet(np.ones(6))
        assert (moves @ best).var() < (moves @ other).var() * 1.02  # the covariance is shrunk
    assert MinimumVariance(cap=0.3).allocate(moves, NO_SEEN).max() <= 0.3 + 1e-6


def test_risk_parity_adds_as_much_risk_by_each_symbol() -> None:
    moves = returns()
    shares = allocation.RiskParity(cap=1.0).allocate(moves, NO_SEEN)
    parts = shares * (np.cov(moves.T) @ shares)
    np.testing.assert_allclose(parts / parts.sum(), np.full(6, 1 / 6), rtol=0.05)  # the covariance is shrunk


def test_mean_variance_takes_what_rose_for_its_risk() -> None:
    moves = returns() + np.array([0, 0, 0, 0, 0, 0.01])
    assert allocation.MeanVariance(cap=1.0).allocate(moves, NO_SEEN)[-1] > 0.9
    assert allocation.MeanVariance(cap=1.0, risk_aversion=1e4).allocate(moves, NO_SEEN)[-1] < 0.5


@pytest.mark.parametrize("kind", [MinimumVariance, allocation.RiskParity, allocation.MeanVariance])
def test_prices_that_stand_still_and_one_symbol_are_shared_equally(kind: Any) -> None:
    np.testing.assert_allclose(kind().allocate(np.zeros((100, 4)), NO_SEEN), np.full(4, 0.25))
    np.testing.assert_allclose(kind().allocate(returns(1), NO_SEEN), [1.0])


@pytest.mark.parametrize("kind", [MinimumVariance, allocation.RiskParity, allocation.MeanVariance])
@pytest.mark.parametrize(("symbols", "cap"), [(2, 0.5), (5, 1.0), (9, 0.15), (31, 0.15), (60, 0.5)])
def test_a_program_has_the_shares_of_skfolio_bit_for_bit(kind: Any, symbols: int, cap: float) -> None:
    policy, wanted = kind(cap=cap), max(cap, 1.0 / symbols)
    for bars in (40, 252):
        moves = returns(symbols, bars)
        moves[: bars // 3, -1] = 0.0  # listed later
        solved = policy._solve(moves, wanted)
        assert solved is not None
        np.testing.assert_array_equal(solved, policy._fit(moves, wanted))


def test_momentum_buys_what_rose_most_before_the_last_month() -> None:
    moves = np.zeros((252, 10))
    moves[:100, 3], moves[:100, 7] = 0.01, 0.02
    moves[-21:, 5] = 0.1  # too recent
    shares = Momentum().allocate(moves, NO_SEEN)
    assert np.flatnonzero(shares).tolist() == [3, 7]
    assert shares[[3, 7]].tolist() == [0.5, 0.5]


def test_random_shares_repeat_by_seed_and_bar() -> None:
    panel = market()
    first, again, other = (Random(seed=seed).decide(seen_at(panel, 100)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert (first != Random(seed=1).decide(seen_at(panel, 101))).any()


def test_shares_are_renewed_every_so_many_bars_and_left_alone_between() -> None:
    result = backtest(EqualWeight(every_bars=5), market(), first=100)
    due = np.isfinite(result.orders).all(axis=1)
    assert np.flatnonzero(due).tolist() == list(range(0, 299, 5))
    assert not result.fills[~due, :, Fill.QUANTITY].any()
    held = backtest(Hold(), market(), first=100)
    assert np.flatnonzero(np.isfinite(held.orders).any(axis=1)).tolist() == [0]


def test_fewer_symbols_than_the_cap_needs_leave_cash() -> None:
    result = backtest(EqualWeight(), market(3), first=100)
    assert result.orders[0].tolist() == [0.15] * 3
    assert result.ledger[0, Column.EXPOSURE] == pytest.approx(0.45, abs=0.01)
    wide = backtest(EqualWeight(cap=1.0), market(3), first=100, market=WIDE)
    assert wide.ledger[0, Column.EXPOSURE] == pytest.approx(1.0, abs=0.01)


def test_a_halted_symbol_is_kept_and_an_unlisted_one_is_not_bought() -> None:
    panel = market(4)
    mask = panel.mask.copy()
    mask[:, 0] &= np.arange(400) >= 300  # listed later
    mask[121, 1] = False  # halted when shares are renewed
    gone = replace(panel, mask=mask, blocks=np.where(mask, panel.blocks, np.nan))
    result = backtest(EqualWeight(cap=1.0), gone, first=100, last=399, market=WIDE)
    assert np.isnan(result.orders[0, 0])
    np.testing.assert_allclose(result.orders[0, 1:], 1 / 3)
    assert np.isnan(result.orders[21, :2]).all()
    held = result.fills[:21, 1, Fill.QUANTITY].sum() * result.closes[20, 1] / result.equity[21]
    np.testing.assert_allclose(result.orders[21, 2:], (1 - held) / 2, rtol=1e-6)
    assert result.fills[200:, 0, Fill.QUANTITY].any()  # bought once it is listed


@pytest.mark.parametrize("kind", [InverseVolatility, MinimumVariance, Momentum])
def test_too_little_history_is_cash(kind: Any) -> None:
    assert not kind().decide(seen_at(market(), 24)).any()
    assert kind().decide(seen_at(market(), 399)).sum() > 0.29


def test_a_new_symbol_is_left_out_until_it_has_half_the_history() -> None:
    closes = 100 + np.random.default_rng(0).standard_normal((200, 2)).cumsum(axis=0)
    closes[:160, 1] = np.nan
    panel = Panel.from_fields(pd.date_range("2020", periods=200, tz="UTC"), ["A", "B"], {"close": closes})
    assert InverseVolatility().decide(seen_at(panel, 180)).tolist() == [0.15, 0.0]
    assert InverseVolatility().decide(seen_at(panel, 199)).tolist() == [0.15, 0.15]


@pytest.mark.parametrize("options", [{"every_bars": 0}, {"cap": 0.0}, {"cap": 1.5}, {"history_bars": -1}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="equal_weight: every_bars="):
        EqualWeight(**options)
    with pytest.raises(ConfigError, match="skipped_bars=300"):
        Momentum(skipped_bars=300)
