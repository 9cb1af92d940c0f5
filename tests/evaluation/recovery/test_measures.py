"""Measures on traces of known shape, each by an independent count; a gate that the oracle fails does not apply."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.build.sections import Gates
from pacesetter.errors import ConfigError
from pacesetter.evaluation.recovery.measures import (
    ABOVE_CONSTANT,
    all_gates,
    compare_with_oracle,
    gates_by_name,
    is_recovered,
    recovery_gates,
    state_counts,
    trace_values,
)
from pacesetter.evaluation.recovery.trace import Trace

LIMITS = Gates(min_entropy=0.6, min_distinct=0.3, min_round_trips=20, min_states=0.8, min_coverage=0.9, constant=True)


def trace(actions, kinds=7, **entries) -> Trace:
    actions = np.asarray(actions, dtype=np.float64)
    actions = actions[:, None] if actions.ndim == 1 else actions
    none = np.zeros(actions.shape)
    parts = dict.fromkeys(("weight", "unrealised", "returns"), none)
    parts |= {
        "is_played": none == 0,
        "filled": none > 0,
        "closed": none > 0,
        "left": none > 0,
        "regime": none.astype(np.int64),
    }
    options = {"kinds": kinds, "cap": 0.15, "hold_zone": 0.1, "bars_per_year": 252.0}
    return Trace(actions=actions, **(parts | options | entries))


def test_a_policy_that_only_holds_fails_what_it_should():
    values = trace_values(trace(np.zeros(100)))
    assert values["action entropy"] == 0
    assert values["most used action"] == 1
    assert values["distinct actions"] == pytest.approx(1 / 7)
    assert values["trade rate"] == values["round trips per 1,000 steps"] == 0
    assert values["states visited"] == pytest.approx(1 / 9)  # flat, of nine states in the one regime there is
    failed = {gate.name for gate in all_gates(trace(np.zeros(100)), LIMITS, 0.0) if not gate.passed}
    assert failed == {
        *("most used action", "trade rate", "action entropy", "distinct actions", "round trips per 1,000 steps"),
        *("voluntary round trips per 1,000 steps", "states visited", ABOVE_CONSTANT),
    }


def test_equal_use_has_the_largest_entropy_in_nats():
    assert trace_values(trace(np.arange(700) % 7))["action entropy"] == pytest.approx(np.log(7))
    spread = trace_values(trace(np.linspace(-1, 1, 2000), kinds=None))
    assert spread["action entropy"] == pytest.approx(np.log(20), abs=1e-3)
    assert spread["range coverage"] == 1
    assert spread["most used action"] == pytest.approx(0.45, abs=0.01)  # a tenth holds


def test_the_limit_of_the_entropy_is_nats_for_a_range_and_a_share_for_orders():
    discrete = {gate.name: gate for gate in recovery_gates(trace(np.arange(70) % 7), LIMITS)}
    assert discrete["action entropy"].limit == pytest.approx(0.5 * np.log(7))
    box = {gate.name: gate for gate in recovery_gates(trace(np.linspace(-1, 1, 50), kinds=None), LIMITS)}
    assert box["action entropy"].limit == 0.6
    assert recovery_gates(trace(np.zeros(9)), Gates()) == []


def test_distinct_actions_are_counted_in_a_sliding_twenty():
    actions = np.r_[np.zeros(30), np.arange(30) % 3]
    counts = [len({*actions[t : t + 20]}) for t in range(len(actions) - 19)]
    assert trace_values(trace(actions))["distinct actions"] == pytest.approx(np.mean(counts) / 7)


def test_round_trips_and_states_are_those_of_played_steps_alone():
    closed = np.zeros((200, 1), bool)
    closed[[10, 50, 150]] = True
    weight, unrealised = np.zeros((200, 1)), np.zeros((200, 1))
    weight[20:40], weight[40:60] = 0.05, 0.14
    unrealised[20:60, 0] = np.tile([-0.02, -0.005, 0.005, 0.02], 10)
    regime = np.where(np.arange(200)[:, None] < 100, 0, 3)
    played = np.arange(200)[:, None] < 100
    left = closed & (np.arange(200)[:, None] != 50)  # a stop closed that one
    one = trace(
        np.zeros(200), closed=closed, left=left, weight=weight, unrealised=unrealised, regime=regime, is_played=played
    )
    values = trace_values(one)
    assert values["round trips per 1,000 steps"] == 20
    assert values["voluntary round trips per 1,000 steps"] == 10
    assert values["states visited"] == 1  # all nine, in the one regime that was played in
    assert state_counts(one)[:, 0].tolist() == [60, *[5] * 8]
    both = trace(np.zeros(200), weight=weight, unrealised=unrealised, regime=regime)
    assert trace_values(both)["states visited"] == pytest.approx(10 / 18)


def test_a_number_that_is_none_is_noticed():
    returns = np.zeros((100, 1))
    returns[3] = np.nan
    assert trace_values(trace(np.zeros(100), returns=returns))["finite numbers"] == 0.99


def test_what_the_oracle_fails_does_not_apply_and_recovery_needs_the_best_constant_beaten():
    gates = all_gates(trace(np.arange(700) % 7, filled=np.ones((700, 1), bool)), LIMITS)
    trips = dict.fromkeys(("round trips per 1,000 steps", "voluntary round trips per 1,000 steps"), 5.0)
    told = gates_by_name(compare_with_oracle(gates, trips | {"states visited": 0.5}))
    assert not told["round trips per 1,000 steps"]["applicable"]
    assert told["action entropy"]["applicable"]
    assert set(told["action entropy"]) == {"value", "sense", "limit", "passed", "oracle", "applicable"}
    assert not is_recovered(told)  # nothing was held against a constant
    gained = {ABOVE_CONSTANT: {"passed": True, "applicable": True}}
    assert is_recovered(told | gained)
    assert not is_recovered(told | {ABOVE_CONSTANT: {"passed": False, "applicable": True}})


@pytest.mark.parametrize(("name", "value"), [("min_states", 1.2), ("temperature", 0.0), ("max_share", -0.1)])
def test_limits_outside_their_range_are_refused(name, value):
    with pytest.raises(ConfigError, match=rf"train\.gates\.{name}"):
        Gates(**{name: value})
