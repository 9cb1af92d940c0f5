"""Gates of options on traces whose options are known."""

from __future__ import annotations

import numpy as np

from pacesetter.evaluation.recovery.trace import Trace
from pacesetter.methods.options.gates import option_gates, option_runs, option_values, regime_alignment


def trace(option: np.ndarray, began: np.ndarray, returns: np.ndarray, regime: np.ndarray) -> Trace:
    nothing = np.zeros(option.shape)
    common = dict.fromkeys(("actions", "filled", "closed", "left", "weight", "unrealised"), nothing)
    rest = {"kinds": None, "cap": 0.15, "hold_zone": 0.1, "bars_per_year": 252.0, "options": ("a", "b")}
    played = np.ones(option.shape, bool)
    return Trace(is_played=played, returns=returns, regime=regime, option=option, began=began, **common, **rest)


def test_shares_durations_and_successes_are_counted() -> None:
    option = np.array([[0, 0, 0, 1, 1, 1, 1, 0, 0, 0]]).T
    began = np.array([[1, 0, 0, 1, 0, 1, 0, 1, 0, 0]], bool).T
    returns = np.array([[0.01, 0, 0, -0.01, 0, 0.02, 0, 0, 0, 0]]).T
    found = trace(option, began, returns, np.zeros((10, 1), int))
    runs = option_runs(found)
    assert runs.option.tolist() == [0, 1, 1, 0]
    assert runs.bars.tolist() == [3, 2, 2, 3]
    values = option_values(found)
    assert values["smallest option share"] == values["largest option share"] == 0.5
    assert values["mean option duration"] == 2.5
    assert values["option success"] == 0.75
    assert values["options used"] == 1.0
    gates = {gate.name: gate.passed for gate in option_gates(found)}
    assert gates["smallest option share"]
    assert not gates["mean option duration"]


def test_switches_with_the_regime_are_told_from_switches_at_random() -> None:
    generator = np.random.default_rng(0)
    bars = 3000
    changes = generator.random(bars) < 0.05
    regime = np.cumsum(changes)[:, None] % 4
    aligned = changes | (generator.random(bars) < 0.05)
    random = generator.random(bars) < 0.1
    blank = np.zeros((bars, 1))
    assert regime_alignment(trace(blank.astype(int), aligned[:, None], blank, regime)) > 10.0  # times the null's
    assert regime_alignment(trace(blank.astype(int), random[:, None], blank, regime)) < 0.0
    assert regime_alignment(trace(blank.astype(int), random[:, None], blank, blank.astype(int))) == 0.0


def test_a_policy_without_options_has_none_of_these_gates() -> None:
    plain = trace(np.zeros((5, 1), int), np.zeros((5, 1), bool), np.zeros((5, 1)), np.zeros((5, 1), int))
    object.__setattr__(plain, "option", None)
    assert option_gates(plain) == []
