"""Answers of many windows: each is that of its window alone, however far apart they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.leadlag.answer import Preparation, StrengthMeasure, answer_window, find_links
from pacesetter.leadlag.answer import rolling as module
from pacesetter.leadlag.answer.rolling import LEAP, ReplayedWindows, rolling_answers
from pacesetter.leadlag.series import read_series
from pacesetter.panel import Panel

LOOKBACK = 60


@pytest.mark.parametrize("method", ["ccf_peak", "ccf_auc"])
@pytest.mark.parametrize("step", [1, LEAP, 3 * LEAP, LOOKBACK + 7])
@pytest.mark.parametrize("block_bytes", [module.BLOCK_BYTES, 1])  # as with few symbols, and as with many
def test_windows_that_slide_or_leap_give_the_answer_of_each_window(monkeypatch, method, step, block_bytes):
    monkeypatch.setattr(module, "BLOCK_BYTES", block_bytes)
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
    for block in rolling_answers(series, ends, LOOKBACK, gauge, Preparation()):
        assert np.isfinite(block.leadership).all()


def market(seed: int, bars: int = 1300, symbols: int = 8) -> np.ndarray:
    """Noise whose volatility and tails change from stretch to stretch, calm at the end."""
    rng = np.random.default_rng(seed)
    x = 0.5 * rng.standard_normal((bars, 1)) + 0.87 * rng.standard_normal((bars, symbols))
    for start in range(0, bars - 300, 100):
        if rng.random() < 0.4:
            x[start : start + 100] *= 3.0 * rng.standard_t(3, (100, 1))
    return x


def unfaded(seeds: range) -> tuple[list[float], list[float]]:
    """Of each noise market the share of windows with any strong score: by each window's null, and by the last's."""
    own, last = [], []
    for seed in seeds:
        x = market(seed)
        closes = 100 * np.exp(0.001 * np.cumsum(x, axis=0))
        panel = Panel.from_fields(pd.date_range("2020", periods=len(x), tz="UTC"), "ABCDEFGH", {"close": closes})
        gauge = StrengthMeasure("ccf_peak")
        history = ReplayedWindows(panel, read_series(panel, "log", gauge.minimum, False), gauge, Preparation(), 200)
        line = history.time_line(np.arange(200, len(panel), 20), draws=100, level=0.05, seed=seed)
        assert line.strong.shape == line.leadership.shape
        own.append(float(line.strong.any(axis=1).mean()))
        least = find_links(np.diff(np.log(closes[-201:]), axis=0), gauge, draws=100, level=0.05).leader_least
        last.append(float((np.abs(line.leadership) > least).any(axis=1).mean()))
    return own, last


def test_on_noise_few_windows_of_a_time_line_are_strong():
    own, last = unfaded(range(20))
    assert np.mean(own) <= 0.05 + 2.33 * np.std(own) / np.sqrt(len(own))
    assert np.mean(last) > 3 * np.mean(own)  # a calm end says nothing of what chance gave in a storm


@pytest.mark.proof
def test_on_a_thousand_noise_markets_the_strong_windows_are_within_the_level():
    own, last = unfaded(range(1000))
    error = np.std(own) / np.sqrt(len(own))
    print(f"time line: any strong score in {np.mean(own):.2%} of the windows of 1,000 markets, stated 5%;", end=" ")
    print(f"by the last window's null {np.mean(last):.2%}")
    assert np.mean(own) - 2.33 * error <= 0.05
