"""Answers of many windows: each is that of its window alone, however far apart they are."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.leadlag.answer import Preparation, StrengthMeasure, answer_window
from pacesetter.leadlag.answer import rolling as module
from pacesetter.leadlag.answer.rolling import LEAP, rolling_answers
from pacesetter.leadlag.series import read_series

LOOKBACK = 60


@pytest.mark.parametrize("method", ["ccf_peak", "ccf_auc"])
@pytest.mark.parametrize("step", [1, LEAP, 3 * LEAP, LOOKBACK + 7])
def test_windows_that_slide_or_leap_give_the_answer_of_each_window(method, step):
    panel = load("synthetic", symbols=5, bars=LOOKBACK + 80 * LEAP, seed=2)
    gauge = StrengthMeasure(method)
    series = read_series(panel, "log", gauge.minimum, False)
    ends = np.arange(LOOKBACK, len(panel), step)
    blocks = list(rolling_answers(series, ends, LOOKBACK, gauge, Preparation()))
    leadership = np.concatenate([block.leadership for block in blocks])
    delays = np.concatenate([block.delays for block in blocks])
    for row in (0, 1, len(ends) // 2, len(ends) - 1):
        alone = answer_window(series.observed_window(ends[row], LOOKBACK), series.symbols, gauge)
        np.testing.assert_allclose(leadership[row], alone.leadership, atol=1e-12)
        apart = ~np.eye(len(series.symbols), dtype=bool)
        np.testing.assert_array_equal(delays[row][apart], (alone.delays * alone.signs)[apart])


def test_windows_far_apart_go_by_products_of_matrices(monkeypatch):
    panel = load("synthetic", symbols=3, bars=400, seed=2)
    gauge = StrengthMeasure("ccf_peak")
    series = read_series(panel, "log", gauge.minimum, False)
    monkeypatch.setattr(module, "_slide", None)  # would be refused if it were called
    ends = np.arange(LOOKBACK, len(panel), LEAP)
    (block,) = rolling_answers(series, ends, LOOKBACK, gauge, Preparation())
    assert np.isfinite(block.leadership).all()
