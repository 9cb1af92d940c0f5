"""Constants and the oracle over the same bars: `play_trace` against the batch itself, in every kind of action."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.build.sections import Gates
from pacesetter.data import load
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.evaluation.recovery.measures import trace_sharpe
from pacesetter.evaluation.recovery.page import gate_rows, store_gates
from pacesetter.evaluation.recovery.trace import Act, constant_actions, play_trace
from pacesetter.evaluation.recovery.yardsticks import Yardsticks
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.features import feature_table
from pacesetter.market.orders import Discrete
from pacesetter.market.parameters import Costs, Exits, MarketParameters
from pacesetter.runs import Run

CHEAP = MarketParameters(costs=Costs(commission_bps=1.0, spread_bps=1.0, slippage_bps=1.0))
LIMITS = Gates(constant=True, oracle=True)


@pytest.fixture(scope="module")
def panel():
    return load("synthetic", symbols=3, bars=300, groups=1, unrelated_share=0.0, strength=0.8, seed=1)


@pytest.fixture(scope="module")
def bank(panel):
    return Bank.from_panels(panel, feature_table(panel, ["return_1"]), None)


def fixed(bank: Bank, action: str) -> Batch:
    return Batch(bank, 3, action=action, window_bars=2, market=CHEAP, has_windows=False, starts="fixed")


def test_a_constant_order_is_played_as_the_batch_plays_it(bank):
    batch = fixed(bank, "discrete")
    buying = play_trace(batch, constant_actions(batch)[Discrete.BUY_SMALL])
    assert buying.columns == 3
    assert (buying.actions == Discrete.BUY_SMALL).all()
    assert buying.filled[0].all()
    assert not buying.closed.any()
    assert (buying.weight[0] == 0).all()
    assert (buying.weight[1] > 0).all()
    holding = play_trace(batch, constant_actions(batch)[Discrete.HOLD])
    assert not holding.returns.any()


@pytest.mark.parametrize("action", ["discrete", "continuous", "target"])
def test_the_oracle_beats_every_constant_where_there_is_something_to_know(panel, bank, action):
    yardsticks = Yardsticks(fixed(bank, action), LIMITS, panel, 200)
    assert trace_sharpe(yardsticks.oracle) > yardsticks.best_constant() + 1
    follower = int(np.argmax(panel.truth.strengths))
    assert yardsticks.oracle_values(follower)["round trips per 1,000 steps"] > 20
    assert yardsticks.best_constant(follower) >= 0  # holding nothing is one of them


def test_where_no_trade_earns_its_costs_the_oracle_holds(panel, bank):
    dear = MarketParameters(costs=Costs(commission_bps=500.0))
    batch = Batch(bank, 3, window_bars=2, market=dear, has_windows=False, starts="fixed")
    assert Yardsticks(batch, LIMITS, panel, 200).oracle_values()["trade rate"] == 0
    assert Yardsticks(batch, LIMITS, None, 0).oracle_values() is None
    assert Yardsticks(batch, Gates(), panel, 200).best_constant() is None


def test_a_stop_closes_a_position_and_the_policy_did_not(bank):
    """Every round trip of a policy that only buys is a stop's; of one that sells what it bought each is its own."""
    stopped = MarketParameters(exits=Exits(stop_loss_fraction=0.01))
    batch = Batch(bank, 3, action="discrete", window_bars=2, market=stopped, has_windows=False, starts="fixed")
    buying = play_trace(batch, constant_actions(batch)[Discrete.BUY_SMALL])
    assert buying.closed.sum() > 10
    assert not buying.left.any()
    batch = fixed(bank, "discrete")
    bars = iter(range(10_000))
    orders = (Discrete.BUY_SMALL, Discrete.SELL_ALL)
    turning = play_trace(batch, Act(lambda observation, masks: np.full(batch.inputs.shape, orders[next(bars) % 2])))
    assert turning.closed.sum() > 10
    assert (turning.closed == turning.left).all()


def test_gates_are_stored_by_name_with_a_page(tmp_path, bank):
    trace = play_trace(fixed(bank, "discrete"), constant_actions(fixed(bank, "discrete"))[0])
    gates = {
        "deterministic": [Gate("distinct actions", 0.5, ">", 0.3, oracle=0.2), Gate("trade rate", 0.0, ">=", 0.05)]
    }
    assert [row[-1] for row in gate_rows(gates)] == ["not applicable", "FAIL"]
    run = Run.create(tmp_path, "gates", {})
    store_gates(run, gates, {"deterministic": trace}, {"A": gates})
    stored = run.folder / "gates.json"
    assert '"recovered"' in stored.read_text()
    assert "States visited" in (run.folder / "gates.html").read_text()
