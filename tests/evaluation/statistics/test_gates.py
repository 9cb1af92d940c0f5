"""The gate engine: values beside their limits, at the limits themselves, and where nothing was measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.evaluation.statistics.gates import Gate, Limit, Measured, hold

SENSES = ("<=", ">=", ">", "<")


def test_unknown_values_fail_in_every_sense() -> None:
    assert not any(Gate("x", np.nan, sense, 1.0).passed for sense in SENSES)
    assert [Gate("x", 1.0, sense, 1.0).passed for sense in SENSES] == [True, True, False, False]


def test_each_limit_is_held_against_its_own_metric() -> None:
    limits = [Limit("sharpe", ">", 1.0, "Sharpe ratio"), Limit("drawdown", "<", 0.3)]
    first, second = hold(limits, {"sharpe": Measured(1.2, 0.3, 2.1), "drawdown": Measured(0.3)})
    assert first.row == ("Sharpe ratio", "1.2", "> 1", "[+0.30, +2.10]", "pass")
    assert second.row == ("drawdown", "0.3", "< 0.3", "", "FAIL")
    assert first.to_json()["interval"] == [0.3, 2.1]


def test_what_was_not_measured_does_not_hold_unless_it_is_optional() -> None:
    limits = [Limit("sharpe", ">", 1.0), Limit("overfitting", "<=", 0.5, optional=True)]
    (only,) = hold(limits, {"overfitting": None})
    assert only.limit.metric == "sharpe"
    assert math.isnan(only.gate.value)
    assert only.row[1:] == ("", "> 1", "", "not measured")
    assert not only.holds


def test_a_limit_that_the_oracle_fails_does_not_apply() -> None:
    (held,) = hold([Limit("trades", ">=", 20.0)], {"trades": Measured(3.0, oracle=10.0)})
    assert held.row[-1] == "n/a"
    assert held.holds
    assert not held.gate.passed


def test_a_limit_is_a_number() -> None:
    with pytest.raises(ConfigError, match="has no finite limit"):
        Limit("sharpe", ">", math.nan)
