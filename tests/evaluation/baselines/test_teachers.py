"""The expert as a baseline, and the oracle as a teacher of training bars alone."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.errors import DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline, possible_baselines
from pacesetter.evaluation.baselines.teachers import OracleTeacher
from pacesetter.features import feature_table
from pacesetter.market.parameters import Costs, MarketParameters
from pacesetter.policies.market_rows import market_bank

BARS, STOP = 400, 300
CHEAP = MarketParameters(costs=Costs(commission_bps=1.0, spread_bps=1.0, slippage_bps=1.0))


@pytest.fixture(scope="module")
def panel():
    return load("synthetic", symbols=4, bars=BARS, groups=1, unrelated_share=0.0, strength=0.8, seed=1)


def test_the_expert_trades_as_a_baseline_and_needs_its_indicators(panel):
    bank = market_bank(panel)
    assert "expert" in possible_baselines(bank)
    assert "expert" not in possible_baselines(market_bank(panel, feature_table(panel, ["return_1"])))
    result = backtest(make_baseline("expert", bank, CHEAP), panel, first=200, market=CHEAP, bank=bank)
    assert set(np.unique(result.orders)) <= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
    assert result.fills.any()


def test_the_oracle_teacher_earns_on_training_bars_and_teaches_no_others(panel):
    table = feature_table(panel, ["return_1"])
    bank = Bank.from_panels(panel, table, None)
    teacher = OracleTeacher.from_truth(panel, bank, CHEAP, STOP)
    batch = Batch(bank, 4, window_bars=2, market=CHEAP, has_windows=False, starts="stratified", episode_bars=STOP - 10)
    pool = batch.starts.pool[[np.flatnonzero(batch.starts.pool[:, 0] == block)[0] for block in range(4)]]
    batch.use_starts(type(batch.starts)(pool, np.arange(5), is_fixed=True))
    observation, growth = batch.reset(), np.zeros(4)
    for _ in range(STOP - 20):
        step = batch.step(teacher.act(observation))
        observation, growth = step.observation, growth + step.rewards
    followers = panel.truth.strengths > 0
    assert (growth[followers] > 0).all()
    assert growth[followers].mean() > growth[~followers].mean()
    with pytest.raises(DataError, match="bars before 299 only"):
        teacher.act({"index": np.array([[0, STOP]]), "position": np.zeros((1, 7))})


def test_without_a_truth_or_a_gain_there_is_no_oracle(panel):
    bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]), None)
    dear = MarketParameters(costs=Costs(commission_bps=500.0))
    with pytest.raises(DataError, match="no trade earns its costs"):
        OracleTeacher.from_truth(panel, bank, dear, STOP)
    real = load("sample").rows(0, 400)
    with pytest.raises(DataError, match="known truth"):
        OracleTeacher.from_truth(real, bank, CHEAP, STOP)
