"""The reward audit on rewards whose faults are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import TradingEnv
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.explain.reward_audit import RewardAudit, audit, audit_ledger, reward_frame
from pacesetter.market.ledger import Column, Flag
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.rewards.reward import RewardConfig

STEPS = 2000
RNG = np.random.default_rng(0)
EARNED, OTHER = RNG.standard_normal(STEPS), RNG.standard_normal(STEPS)
ALWAYS = np.ones(STEPS, dtype=bool)


class Churning(Policy):
    """Sends each of the seven discrete orders in turn."""

    name, action = "churning", "discrete"

    def decide(self, seen: Snapshot) -> Any:
        return np.array([seen.t % 7])


def audited(earned: Any = EARNED, active: Any = ALWAYS, **components: Any) -> RewardAudit:
    frame = pd.DataFrame(components)
    return audit(frame, frame.sum(axis=1), earned, active)


def test_a_sound_reward_shows_no_sign() -> None:
    found = audited(pnl=EARNED, risk=-0.5 * np.abs(OTHER))
    assert found.signs == ()
    assert found.table["balance"].sum() == pytest.approx(1)
    assert found.table.loc["pnl", "equity"] == pytest.approx(1)
    assert found.table.loc["risk", "signal_to_noise"] == pytest.approx(np.sqrt(2 / np.pi) / np.sqrt(1 - 2 / np.pi), 0.1)
    expected = np.corrcoef(EARNED, -0.5 * np.abs(OTHER))[0, 1]
    assert found.correlation.loc["pnl", "risk"] == pytest.approx(expected)
    assert found.idle == 0


def test_one_component_that_drowns_the_others() -> None:
    assert "pnl makes up 99% of the reward" in audited(pnl=EARNED, risk=0.01 * OTHER).signs[0]
    assert audited(pnl=EARNED).signs == ()  # alone it has nobody to drown


def test_two_components_that_say_the_same() -> None:
    signs = audited(pnl=EARNED, growth=-2 * EARNED + 0.01 * OTHER, risk=3 * EARNED * (OTHER > 0)).signs
    assert any("pnl and growth are redundant (correlation -1.00)" in sign for sign in signs)


def test_a_component_that_never_changes() -> None:
    found = audited(pnl=EARNED, bonus=np.full(STEPS, 0.1))
    assert found.signs == ("bonus never changes and gives no learning signal.",)
    assert np.isnan(found.table.loc["bonus", ["signal_to_noise", "equity"]].astype(float)).all()


def test_reward_that_rises_while_equity_falls() -> None:
    losing = -0.2 + 0.1 * EARNED
    found = audited(earned=losing, activity=0.1 - losing)
    assert found.opposed == 1.0
    assert found.with_equity == pytest.approx(-1)
    assert any("positive while equity falls in 100% of the time" in sign for sign in found.signs)
    assert any("hardly follows the equity (correlation -1.00)" in sign for sign in found.signs)


def test_reward_that_is_farmed_without_trading() -> None:
    active = np.arange(STEPS) % 2 == 0
    found = audited(active=active, pnl=np.where(active, EARNED, 0.0), patience=np.where(active, 0.0, 0.3))
    assert found.idle == pytest.approx(0.3 * STEPS / 2 / (0.3 * STEPS / 2 + np.maximum(EARNED, 0)[active].sum()))
    assert any("paid while nothing is held or traded" in sign for sign in found.signs)


def test_an_agent_that_did_nothing() -> None:
    signs = audited(earned=np.zeros(STEPS), active=~ALWAYS, pnl=np.zeros(STEPS)).signs
    assert signs[0] == "pnl never changes and gives no learning signal."
    assert "hardly follows the equity" in signs[1]


def test_a_stored_ledger_is_audited_with_its_weights() -> None:
    reward = RewardConfig({"pnl": 1.0, "cost": 0.5})
    panel = Synthetic(symbols=1, bars=400, seed=2).read()
    env = TradingEnv(panel, starts="fixed", record=True, reward=reward)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(150):
        env.step(env.action_space.sample())
    assert env.journal is not None
    ledger = env.journal.ledger_frame()
    found = audit_ledger(ledger, {"pnl": 1.0, "cost": 0.5})
    assert list(found.table.index) == ["pnl", "cost"]
    assert found.with_equity > 0.9
    sizes = ledger["reward_pnl"].abs().sum(), 0.5 * ledger["reward_cost"].abs().sum()
    assert found.table.loc["cost", "balance"] == pytest.approx(sizes[1] / sum(sizes))


def test_a_backtest_is_paid_what_its_environment_pays_and_nothing_once_it_has_ended() -> None:
    reward = RewardConfig({"pnl": {"kind": "linear", "points": [[0, 0.0], [100, 1.0]]}, "cost": 0.5})
    panel = Synthetic(symbols=1, bars=400, seed=2).read()
    env = TradingEnv(panel, starts="fixed", record=True, reward=reward)
    env.reset(seed=0)
    result = backtest(Churning(), panel, first=int(env.batch.cursor[0, Cursor.TIME]))
    for order in result.orders[:150, 0]:
        env.step(int(order))
    assert env.journal is not None
    raw = ["reward_pnl", "reward_cost"]
    found = reward_frame(result, reward, steps=100)
    np.testing.assert_allclose(found[raw][:150], env.journal.ledger_frame()[raw], atol=1e-12)
    np.testing.assert_allclose(found["reward"], found["reward_pnl"] + 0.5 * found["reward_cost"])
    result.ledger[100, Column.FLAGS] = Flag.TERMINATED
    np.testing.assert_array_equal(reward_frame(result, reward)[101:], 0.0)


def test_what_cannot_be_audited_is_refused() -> None:
    with pytest.raises(DataError, match="equal length, not 3, 2000"):
        audited(earned=EARNED[:3], pnl=EARNED)
    with pytest.raises(DataError, match="must be finite"):
        audited(pnl=np.where(ALWAYS, np.nan, 0.0))
    with pytest.raises(DataError, match="no reward components"):
        audit_ledger(pd.DataFrame({"reward": [0.0, 1.0]}), {})
