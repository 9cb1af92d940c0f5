"""Gates on actions of known shape: each opens and closes where its limit says."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from pacesetter.agents.agent import Agent
from pacesetter.build.sections import Gates
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.jobs.run.collapse import Activity, Played, collapse_gates, gate_table, play_episodes, spread
from pacesetter.market.ledger import Column, Flag
from pacesetter.policies.variety import evenness

BOX, ORDERS = spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(7)


def played(actions, trades=0.5, voluntary=0.5):
    actions = np.reshape(actions, (-1, 1))
    count = len(actions)
    happened = [np.arange(count) < share * count for share in (trades, voluntary)]
    return Played(actions, np.zeros(count), np.zeros(count), np.zeros(count), *happened)


def failed(gates):
    return {gate.name for gate in gates if not gate.passed}


def test_varied_actions_pass_every_gate():
    assert failed(collapse_gates(played(np.linspace(-1, 1, 200)), BOX, Gates(), entropy=0.5)) == set()
    assert failed(collapse_gates(played(np.arange(70) % 7), ORDERS, Gates(), entropy=1.5)) == set()


@pytest.mark.parametrize(
    ("actions", "space", "options", "expected"),
    [
        (np.zeros(100), ORDERS, {}, {"most used action"}),
        (np.r_[np.zeros(60), np.ones(40)], ORDERS, {}, set()),
        (np.r_[np.zeros(61), np.ones(39)], ORDERS, {}, {"most used action"}),
        (np.full(100, 0.5), BOX, {}, {"most used action", "range coverage", "histogram entropy"}),
        (np.linspace(-0.05, 0.05, 100), BOX, {}, {"most used action", "range coverage", "histogram entropy"}),
        (np.linspace(-1, 1, 100), BOX, {"trades": 0.04, "voluntary": 0.04}, {"trade rate", "voluntary trades"}),
        (np.linspace(-1, 1, 100), BOX, {"trades": 0.5, "voluntary": 0.04}, {"voluntary trades"}),
    ],
)
def test_a_collapse_fails_the_gates_it_should(actions, space, options, expected):
    assert failed(collapse_gates(played(actions, **options), space, Gates())) == expected


def test_orders_within_the_markets_hold_zone_hold():
    wide = collapse_gates(played(np.linspace(-1, 1, 200)), BOX, Gates(), hold_zone=0.7)
    assert failed(wide) == {"most used action"}  # seven of ten orders trade nothing there


def test_the_spread_of_a_policy_follows_its_entropy():
    assert spread(np.log(7), ORDERS) == pytest.approx(1)
    assert spread(0.0, ORDERS) == 0
    assert spread(np.log(2), BOX) == pytest.approx(1)
    assert spread(9.0, BOX) == 1
    assert spread(2 * np.log(5), spaces.MultiDiscrete([5, 5])) == pytest.approx(1)
    gates = collapse_gates(played(np.linspace(-1, 1, 200)), BOX, Gates(), entropy=-5.0)
    assert failed(gates) == {"policy spread"}
    assert not Gate("policy spread", float("nan"), ">=", 0.02).passed


def test_histogram_entropy_has_known_values():
    assert evenness(np.full(20, 5)) == pytest.approx(1)
    assert evenness(np.array([7])) == 0  # a single action has no variety
    assert evenness(np.r_[100, np.zeros(19)]) == 0
    assert evenness(np.r_[50, 50, np.zeros(18)]) == pytest.approx(np.log(2) / np.log(20))


def test_a_forced_sale_is_a_trade_but_not_a_voluntary_one():
    ledger = np.zeros((3, len(Column)))
    ledger[:, Column.EQUITY_BEFORE] = 100.0
    ledger[0, Column.FILL_PRICE] = 10.0
    ledger[1, [Column.FILL_PRICE, Column.FLAGS]] = 10.0, float(Flag.POSITION_LIMIT)
    ledger[2, Column.EXIT_PRICE] = 9.0
    seen = Activity.of({"ledger": ledger})
    assert seen.trades.tolist() == [True, True, True]
    assert seen.voluntary.tolist() == [True, False, False]
    assert Activity.of({}).trades is None


class Clock:
    """Two environments that pay 1 a step and end after 2 and 3 steps."""

    num_envs = 2

    def reset(self, seed):
        self.time = 0
        return {}, {}

    def step(self, actions):
        self.time += 1
        ended = np.array([self.time == 2, self.time == 3])
        return {}, np.ones(2), np.zeros(2, dtype=bool), ended, {}


class Constant(Agent):
    def reset(self):
        pass

    def act(self, observation, deterministic):
        return np.array([3, 4])


def test_each_environment_is_played_to_its_first_end():
    seen = play_episodes(Constant(), Clock(), True)
    assert np.bincount(seen.actions.ravel()).tolist() == [0, 0, 0, 2, 3]
    assert seen.score == 1
    assert seen.sharpe(252) == 0


def test_the_table_says_pass_and_fail():
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=100)
    gates = [Gate("trade rate", 0.1, ">=", 0.05), Gate("most used action", 0.9, "<=", 0.6)]
    console.print(gate_table({"deterministic": gates, "stochastic": gates[:1]}))
    shown = console.file.getvalue()
    assert "0.100 pass" in shown
    assert "0.900 FAIL" in shown
