"""Leaders → followers: hand-computed returns, planted follow-through, noise that only pays costs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.strategy import (
    COST_BPS,
    fill_to_fill_returns,
    follow_leaders,
    follower_weights,
    last_moves,
    returns_of,
)
from pacesetter.leadlag.study import Study
from pacesetter.market.parameters import Costs
from pacesetter.panel import Panel

FIRST_LEADS = np.array([[0.0, 1.0, 1.0], [-1.0, 0.0, 1.0], [-1.0, -1.0, 0.0]])


def panel_of(**fields: np.ndarray) -> Panel:
    bars, assets = fields["close"].shape
    return Panel.from_fields(pd.date_range("2024", periods=bars, tz="UTC"), [f"A{i}" for i in range(assets)], fields)


def market(follow: float, bars: int = 4000, assets: int = 10) -> Panel:
    """Closes; the last two assets follow the mean move of the first two two bars later, in time for a fill."""
    rng = np.random.default_rng(0)
    moves = 0.01 * rng.standard_normal((bars, assets))
    moves[2:, -2:] += follow * moves[:-2, :2].mean(axis=1, keepdims=True)
    return panel_of(close=100 * np.exp(np.cumsum(moves, axis=0)))


def planted_matrices(bars: int, assets: int) -> np.ndarray:
    place = np.arange(assets)
    return np.broadcast_to(np.sign(place[None, :] - place[:, None]), (bars, assets, assets)).astype(float)


def run(panel: Panel, cost_bps: float):
    matrices = planted_matrices(len(panel), len(panel.symbols))
    return follow_leaders(matrices, last_moves(panel), fill_to_fill_returns(panel), cost_bps=cost_bps)


def test_fills_run_from_the_next_open_to_the_one_after() -> None:
    close = np.array([[10.0], [11.0], [12.0], [13.0]])
    opens = np.array([[9.0], [10.0], [12.0], [15.0]])
    with_opens = fill_to_fill_returns(panel_of(open=opens, close=close))
    np.testing.assert_allclose(with_opens[:, 0], [0.2, 0.25, np.nan, np.nan])
    closes_only = fill_to_fill_returns(panel_of(close=close))
    np.testing.assert_allclose(closes_only[:, 0], [12 / 11 - 1, 13 / 12 - 1, np.nan, np.nan])


def test_moves_are_known_at_their_bar() -> None:
    np.testing.assert_allclose(
        last_moves(panel_of(close=np.array([[10.0], [11.0], [np.nan]])))[:, 0], [np.nan, 0.1, np.nan]
    )


def test_hand_computed_example() -> None:
    # A leads, C follows: A rises, rises, falls → long, long, short C; turnover 1, 0, 2
    moves = np.array([[0.01, 0, 0], [0.02, 0, 0], [-0.01, 0, 0], [0.01, 0, 0]])
    fills = np.array([[9, 9, 0.05], [9, 9, -0.02], [9, 9, -0.03], [np.nan] * 3])
    result = follow_leaders(np.broadcast_to(FIRST_LEADS, (4, 3, 3)), moves, fills, quantile=0.34, cost_bps=10)
    np.testing.assert_array_equal(result.weights[:, 2], [1, 1, -1, 1])
    np.testing.assert_array_equal(result.weights[:, :2], 0)
    np.testing.assert_allclose(result.gross, [0.05, -0.02, 0.03, np.nan])
    np.testing.assert_allclose(result.costs, [0.001, 0, 0.002, np.nan])
    np.testing.assert_allclose(result.net, [0.049, -0.02, 0.028, np.nan])


def test_planted_follow_through_earns_after_costs() -> None:
    net = run(market(follow=0.8), cost_bps=5).net
    assert np.nanmean(net) > 4 * np.nanstd(net) / np.sqrt(len(net))


def test_noise_earns_no_more_than_chance_and_pays_its_costs() -> None:
    result = run(market(follow=0.0), cost_bps=5)
    error = np.nanstd(result.gross) / np.sqrt(len(result.gross))
    assert abs(np.nanmean(result.net) + np.nanmean(result.costs)) < 3 * error
    assert np.nanmean(result.costs) == pytest.approx(5e-4, rel=0.1)  # the sign turns every other bar: turnover one


@given(cost_bps=st.floats(0, 100), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_doubling_costs_never_raises_the_result(cost_bps: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, fills = rng.standard_normal((2, 30, 4))
    assert (returns_of(weights, fills, 2 * cost_bps).net <= returns_of(weights, fills, cost_bps).net).all()


def test_costs_are_those_of_the_market_unless_told() -> None:
    costs = Costs()
    assert Study().cost_bps == COST_BPS == costs.commission_bps + costs.spread_bps / 2 + costs.slippage_bps
    weights, fills = np.array([[1.0, -1.0], [1.0, -1.0]]), np.zeros((2, 2))
    np.testing.assert_allclose(returns_of(weights, fills).costs, [2 * COST_BPS / 1e4, 0.0])


def test_nothing_is_held_without_observed_leaders_or_moves() -> None:
    moves = np.array([0.01, 0.0, 0.0])
    assert not follower_weights(np.full((3, 3), np.nan), moves).any()
    assert not follower_weights(FIRST_LEADS, np.array([np.nan, 0.1, 0.1])).any()
    assert not follower_weights(np.zeros((3, 3)), moves).any()


def test_refusals_name_the_problem() -> None:
    with pytest.raises(ConfigError, match="cost_bps=-1"):
        returns_of(np.zeros((3, 2)), np.zeros((3, 2)), cost_bps=-1)
    with pytest.raises(DataError, match="one shape"):
        returns_of(np.zeros((3, 2)), np.zeros((3, 3)))
