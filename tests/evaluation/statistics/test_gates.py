"""Gates beside their limits, at the limits themselves, and with values that are not known."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.statistics.gates import Acceptance, Gate, acceptance_gates
from pacesetter.evaluation.statistics.intervals import Difference, Interval
from pacesetter.evaluation.statistics.verdict import Verdict

VERDICT = Verdict(
    name="ppo",
    bars=1000,
    level=0.95,
    sharpe=Interval(1.5, 0.4, 2.6),
    track_record=400.0,
    trials=12,
    deflated=0.97,
    baselines=3,
    baseline="hold",
    difference=Difference(0.7, 0.1, 1.3, 0.01),
    variants=4,
    overfitting=0.2,
    costs={1.0: 1.5, 2.0: 0.8, 3.0: -0.1},
)
RETURNS = np.array([0.1, -0.05, 0.02])
WINDOWS = [0.1, 0.2, -0.1, 0.3, 0.1, 0.1, 0.0, 0.2, -0.2, 0.4]
REGIMES = {"bull": 0.1, "bear": 0.02, "sideways": 0.01, "crash": -0.3}


def failed(verdict: Verdict = VERDICT, **changes: Any) -> list[str]:
    inputs: dict[str, Any] = {"returns": RETURNS, "windows": WINDOWS, "regimes": REGIMES} | changes
    return [gate.name for gate in acceptance_gates(verdict, **inputs) if not gate.passed]


def test_a_policy_that_shows_all_of_it_passes() -> None:
    gates = acceptance_gates(VERDICT, RETURNS, windows=WINDOWS, regimes=REGIMES)
    assert all(gate.passed for gate in gates)
    assert len(gates) == 8
    assert gates[:2] == [
        Gate("windows of the judged bars with a gain, share", 0.7, ">=", 0.7),  # a window without a loss is not a gain
        Gate("regimes with a gain", 3, ">=", 3),
    ]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"windows": [*WINDOWS, -0.1]}, "windows of the judged bars with a gain, share"),
        ({"regimes": {"bull": 0.1, "bear": 0.0, "sideways": 0.2}}, "regimes with a gain"),
        ({"returns": np.array([0.1, -0.11, 0.2])}, "largest drawdown"),
        ({"limits": Acceptance(cost_multiple=3.0)}, "Sharpe ratio at 3× costs"),
        ({"limits": Acceptance(cost_multiple=5.0)}, "Sharpe ratio at 5× costs"),  # was not looked at
        ({"limits": Acceptance(max_overfitting=0.1)}, "probability of overfitting"),
    ],
)
def test_each_limit_is_held(changes: dict[str, Any], name: str) -> None:
    assert failed(**changes) == [name]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"sharpe": Interval(1.5, 0.0, 2.0)}, "Sharpe ratio, lower end"),
        ({"deflated": 0.94}, "deflated Sharpe ratio, probability"),
        ({"difference": Difference(0.7, -0.1, 1.3, 0.1)}, "Sharpe ratio above hold, lower end"),
    ],
)
def test_intervals_must_be_clear(changes: dict[str, Any], name: str) -> None:
    assert failed(dataclasses.replace(VERDICT, **changes)) == [name]


def test_what_was_not_looked_at_has_no_gate() -> None:
    bare = dataclasses.replace(VERDICT, difference=None, overfitting=None, costs={})
    assert len(acceptance_gates(bare, RETURNS, windows=WINDOWS, regimes=REGIMES)) == 5


def test_unknown_values_fail_in_every_sense() -> None:
    assert not any(Gate("x", np.nan, sense, 1.0).passed for sense in ("<=", ">=", ">"))
    assert [Gate("x", 1.0, sense, 1.0).passed for sense in ("<=", ">=", ">")] == [True, True, False]


def test_limits_and_inputs_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="min_windows=70 must be in 0 … 1"):
        Acceptance(min_windows=70)
    with pytest.raises(DataError, match="there is no window"):
        failed(windows=[])
