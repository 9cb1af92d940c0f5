"""Causal tables: volatilities and correlations against plain weighted sums, who joins when, and nothing after t."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import DataError
from pacesetter.market.covariance import JOIN_DAYS, SHRINKAGE, check_history, make_tables
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel


def panel_of(closes: np.ndarray, freq: str = "D") -> Panel:
    index = pd.date_range("2020-01-01", periods=len(closes), freq=freq, tz="UTC") + pd.Timedelta("12h")
    return Panel.from_fields(index, [f"S{k}" for k in range(closes.shape[1])], {"close": closes})


def walk(bars: int = 120, symbols: int = 3, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 0.01, (bars, 1))
    return 100 * np.cumprod(1 + common + rng.normal(0, 0.01, (bars, symbols)) * np.arange(1, symbols + 1), axis=0)


def weighted(values: np.ndarray, half_life: float) -> float:
    weights = 0.5 ** (np.arange(len(values))[::-1] / half_life)
    return float((weights * values).sum() / weights.sum())


def test_tables_are_the_weighted_sums_that_they_stand_for() -> None:
    closes = walk()
    tables = make_tables(panel_of(closes), half_life_days=20, bars_per_year=252)
    returns = closes[1:] / closes[:-1] - 1
    volatility = [np.sqrt(252 * weighted(returns[:, k] ** 2, 20)) for k in range(3)]
    assert tables.volatilities[-1] == pytest.approx(volatility)
    pairs = {}
    for i in range(3):
        for j in range(i):
            product = weighted(returns[:, i] * returns[:, j], 60)
            pairs[i, j] = product / np.sqrt(weighted(returns[:, i] ** 2, 60) * weighted(returns[:, j] ** 2, 60))
    mean = np.mean(list(pairs.values()))
    shrunk = [(1 - SHRINKAGE) * pairs[pair] + SHRINKAGE * mean for pair in ((1, 0), (2, 0), (2, 1))]
    assert tables.correlations[tables.days[-1]] == pytest.approx(shrunk, rel=1e-6)
    matrix = tables.matrix(-1)
    assert matrix[2, 0] == pytest.approx(shrunk[1] * volatility[0] * volatility[2], rel=1e-6)
    assert np.array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > 0


def test_hours_count_as_parts_of_a_day() -> None:
    closes = walk(24 * 30, 2)
    tables = make_tables(panel_of(closes, "h"), half_life_days=20)
    returns = closes[1:] / closes[:-1] - 1
    expected = np.sqrt(8766 * weighted(returns[:, 0] ** 2, 20 * 24))
    assert tables.volatilities[-1, 0] == pytest.approx(expected)
    assert tables.first is not None
    assert 24 * JOIN_DAYS <= tables.first < 24 * (JOIN_DAYS + 1)  # at the first bar of a day
    assert len(tables.correlations) <= 31


def test_nothing_after_a_bar_changes_what_was_known_there() -> None:
    closes, t = walk(), 80
    later = closes.copy()
    later[t + 1 :] *= np.linspace(1, 9, len(closes) - t - 1)[:, None]
    own, other = (make_tables(panel_of(each), "inverse_volatility") for each in (closes, later))
    cut = make_tables(panel_of(closes[: t + 1]), "inverse_volatility", bars_per_year=panel_of(closes).bars_per_year)
    for name in ("volatilities", "correlations", "days", "base"):
        assert np.array_equal(getattr(own, name)[: t + 1], getattr(other, name)[: t + 1])
        assert np.array_equal(getattr(own, name)[: t + 1], getattr(cut, name))
    assert not np.array_equal(own.volatilities[t + 1 :], other.volatilities[t + 1 :])


def test_symbols_join_halt_leave_and_need_a_variance() -> None:
    closes = walk(200, 5)
    closes[:60, 1] = np.nan  # enters
    closes[100:110, 2] = np.nan  # is halted
    closes[150:, 3] = np.nan  # leaves
    closes[:, 4] = 7.0  # never moves
    tables = make_tables(panel_of(closes), "inverse_volatility")
    joined = tables.volatilities > 0
    assert not joined[: 60 + JOIN_DAYS, 1].any()
    assert joined[60 + JOIN_DAYS :, 1].all()
    assert joined[JOIN_DAYS:, 2].all()
    assert np.unique(tables.volatilities[99:110, 2]).size == 1
    assert joined[JOIN_DAYS : 150 + 19, 3].all()
    assert not joined[150 + 19 :, 3].any()
    assert not joined[:, 4].any()
    sums = tables.base.sum(axis=1)
    assert sums[:JOIN_DAYS] == pytest.approx(0)
    assert sums[JOIN_DAYS:] == pytest.approx(1)
    assert (tables.base[~joined] == 0).all()
    # A return over eleven bars counts as one of their mean variance, not as a jump of one bar.
    assert tables.volatilities[110, 2] < 2 * tables.volatilities[109, 2]


def test_bases_sum_to_one_and_name_their_symbols() -> None:
    panel = panel_of(walk())
    assert make_tables(panel, "equal_weight").base[-1] == pytest.approx([1 / 3] * 3)
    given = make_tables(panel, {"S0": 3, "S2": 1})
    assert given.base[-1] == pytest.approx([0.75, 0, 0.25])
    assert not make_tables(panel, "cash").base.any()
    inverse = make_tables(panel, "inverse_volatility")
    assert inverse.base[-1] * inverse.volatilities[-1] == pytest.approx([1 / (1 / inverse.volatilities[-1]).sum()] * 3)
    with pytest.raises(DataError, match=r"risk\.base names 'S9', which the bars do not have"):
        make_tables(panel, {"S9": 1})


def test_a_stated_risk_needs_twenty_days_of_history():
    panel = panel_of(walk(100))
    with pytest.raises(DataError, match=r"needs 20 days of returns before .*, and these bars have 14; "):
        check_history(RiskOptions(0.1), panel, 15)
    check_history(RiskOptions(0.1), panel, 21)
    check_history(RiskOptions(), panel, 1)
    with pytest.raises(DataError, match=r"risk\.base names 'ZZZ', which the bars do not have"):
        check_history(RiskOptions(None, {"ZZZ": 1.0}), panel, 100)
