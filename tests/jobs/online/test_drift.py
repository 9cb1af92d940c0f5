"""ADWIN raises no false alarm and sees a shift soon; a reservoir is a fair sample.

Runs `jobs.online.reservoir`.
"""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.jobs.online.drift import DriftMonitor
from pacesetter.jobs.online.reservoir import Reservoir


def test_a_shift_of_one_deviation_is_seen_within_about_fifty_values_and_nothing_else_is():
    delays = []
    for seed in range(20):
        generator, monitor = np.random.default_rng(seed), DriftMonitor()
        assert monitor.add("earned", generator.normal(size=2_000)) == []
        alarms = monitor.add("earned", generator.normal(1.0, 1.0, 500))
        delays.append(alarms[0])
        assert monitor.width("earned") < 1_000  # what came before the shift was dropped
    assert 25 < np.mean(delays) < 70


def test_series_are_watched_apart_and_a_rise_of_what_is_earned_is_no_alarm():
    monitor = DriftMonitor()
    steps = np.concatenate([np.zeros(300), np.ones(300)])
    assert monitor.add("risen", steps, falls_only=True) == []
    assert monitor.add("fallen", -steps, falls_only=True)
    monitor.add("earned", np.zeros(500))
    assert monitor.add("shown", np.ones(500)) == []
    with pytest.raises(ConfigError, match="confidence"):
        DriftMonitor(0.0)


def test_every_value_is_kept_with_the_same_probability():
    counts = np.zeros(100)
    for seed in range(400):
        reservoir = Reservoir(20, seed)
        reservoir.add(range(100))
        assert len(set(reservoir.kept)) == 20
        counts[reservoir.kept] += 1
    assert abs(counts[:50].mean() - counts[50:].mean()) < 6  # 80 expected, in both halves
    assert counts.min() > 40
    again = Reservoir(20, 399)
    again.add(range(40))
    resumed = Reservoir.from_dict(again.to_dict())
    resumed.add(range(40, 100))
    assert resumed.kept == reservoir.kept
