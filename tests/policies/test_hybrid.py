"""Hybrid actions in one account of many symbols: each order is read as its own kind, by the environments' rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.envs import TradingEnv
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.explain.findings import explanation_sections
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.run.train import train
from pacesetter.market.ledger import Column
from pacesetter.policies.policy import Policy, Snapshot

BARS, FIRST = 500, 400
MARKET = load("synthetic", symbols=3, bars=BARS, seed=2)


class Script(Policy):
    """A policy that reads its orders (bar, symbol, …) from a list."""

    name = "script"

    def __init__(self, action: str, orders: np.ndarray) -> None:
        self.action, self.orders = action, orders

    def decide(self, seen: Snapshot) -> np.ndarray:
        return self.orders[seen.t - seen.first]


def played(action: str, orders: np.ndarray):
    return backtest(Script(action, orders), MARKET, first=FIRST)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_orders_of_one_kind_trade_as_that_kind(kind):
    actions = np.random.default_rng(0).uniform(-1, 1, (BARS - FIRST, 3, 2))
    actions[..., 0] = 0.3 if kind == "continuous" else -0.3
    values = actions[..., 1]
    plain = played(kind, values if kind == "continuous" else np.floor((values + 1) / 2 * 7))
    hybrid = played("hybrid", actions)
    assert hybrid.ledger.tobytes() == plain.ledger.tobytes()
    assert hybrid.fills.tobytes() == plain.fills.tobytes()


def test_kinds_change_from_bar_to_bar_as_in_the_environment_of_one_symbol():
    env = TradingEnv(MARKET.select(["S1"]), "S1", action="hybrid", starts="fixed")
    _, told = env.reset()
    actions = np.random.default_rng(1).uniform(-1, 1, (BARS - 1 - told["bar"], 1, 2))
    result = backtest(Script("hybrid", actions), MARKET.select(["S1"]), first=told["bar"])
    for action, row in zip(actions, result.ledger, strict=True):
        assert env.step(action[0])[4]["ledger"].tobytes() == row.tobytes()


def test_symbols_of_one_account_may_name_different_kinds():
    actions = np.zeros((BARS - FIRST, 3, 2))
    actions[:, 1] = -1.0, 3 / 7 - 1  # the second of seven parts: buy small
    actions[:, 2] = 1.0, 0.5
    result = played("hybrid", actions)
    np.testing.assert_allclose(result.orders[0], [0.0, 1 / 3, 0.5])
    sums = result.ledger[:2, Column.ORDER] * 3
    np.testing.assert_allclose(sums, [1 / 3 + 0.25, 1 / 3 + 0.375])  # only the continuous one is smoothed


@pytest.mark.parametrize(
    ("orders", "why"), [(np.zeros((100, 3)), r"give \(3, 2\)"), (np.full((100, 3, 2), 1.5), "not a continuous order")]
)
def test_what_is_no_hybrid_action_is_refused(orders, why):
    with pytest.raises(ConfigError, match=why):
        played("hybrid", orders)


def test_a_hybrid_run_is_judged_and_explained(small, console):
    config = small("sac", "task.action=hybrid", "train.steps=64", "train.validate_every=0")
    run = StoredRun(Path(train(config, console=console).run.folder))
    found = run.judge(draws=20)
    assert found.result.orders.shape == (len(found.result), 3)
    assert np.abs(found.result.orders).max() <= 1
    titles = [section.title for section in explanation_sections(run, found)]
    assert {"Action distribution", "State–action map"} <= set(titles)
