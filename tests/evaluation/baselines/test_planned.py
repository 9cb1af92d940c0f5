"""The planning oracle: its plan against every path there is, and what planning adds where a signal lasts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.planned import OraclePlanned, plan, transition_of
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.features import feature_table
from pacesetter.market.parameters import Costs, MarketParameters
from pacesetter.policies.market_rows import market_bank

LEVELS = np.linspace(0.0, 1.0, 4)
SIZES = np.abs(LEVELS - LEVELS[:, None])


@pytest.mark.parametrize("impact", [0.0, 0.01])
def test_a_plan_is_the_best_of_all_paths(impact):
    signals, bars, risk = np.array([0.02, 0.012, 0.004, -0.01, -0.02]), 5, 0.01
    forward = np.eye(5, k=1)  # the next signal is the next of the row
    forward[-1, -1] = 1.0
    costs = 0.006 * SIZES + impact * SIZES**1.5
    _, value = plan(signals, LEVELS, forward, risk, costs, bars)

    def worth(path: tuple[int, ...], held: int) -> float:
        total = 0.0
        for signal, level in zip(signals, path, strict=True):
            total += LEVELS[level] * signal - 0.5 * risk * LEVELS[level] ** 2 - costs[held, level]
            held = level
        return total

    for held in range(4):
        best = max(worth(path, held) for path in product(range(4), repeat=bars))
        assert value[0, held] == pytest.approx(best)


def test_a_signal_that_lasts_is_bought_where_one_bar_would_not_pay():
    signals = np.linspace(-0.01, 0.01, 21)
    costs = 0.01 * SIZES
    lasting = plan(signals, LEVELS, transition_of(signals, 0.95, 0.001), 0.001, costs, 60)[0]
    passing = plan(signals, LEVELS, transition_of(signals, 0.0, 0.003), 0.001, costs, 60)[0]
    assert lasting[16, 0] > 0  # 0.6 % a bar against 2 % for both sides
    assert passing[16, 0] == 0


def test_chances_add_up_and_keep_the_mean():
    signals = np.linspace(-4, 4, 41)
    chances = transition_of(signals, 0.8, 0.6)
    assert chances.sum(axis=1) == pytest.approx(np.ones(41))
    assert (chances @ signals)[10:31] == pytest.approx(0.8 * signals[10:31], abs=1e-3)


def test_it_trades_a_persistent_world():
    options = {"regimes": {"flat": (-0.01, 1.0)}, "volatility": 0.15, "unrelated_share": 0.0, "groups": 1}
    panel = Synthetic(symbols=4, bars=1_500, seed=2, world="persistent", max_delay=1, **options).read()
    bank = market_bank(panel, feature_table(panel, ["return_1"]))
    market = MarketParameters(costs=Costs(commission_bps=13.5, spread_bps=1, slippage_bps=1))
    policy = OraclePlanned.from_truth(panel.truth, bank, market)
    result = backtest(policy, panel, first=900, market=market, bank=bank, window_bars=2)
    assert float(sharpe(result.returns, result.bars_per_year)) > 1.5
