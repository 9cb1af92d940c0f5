"""The tables of a panel: an encoding is the encoder's own, computed once, and environments share them."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.actions import Windows
from pacesetter.envs.lookback.market import LookbackMarket, View, lookback_market
from pacesetter.errors import ConfigError
from pacesetter.leadlag.prediction import window_predictions

WINDOWS = Windows(seen=(20, 60, 120), grid=(10, 20, 60, 120), longest=120)
VIEW = View(encoder="signature_summary", context=("volatility_20",))


@pytest.fixture(scope="module")
def panel():
    return load("synthetic", symbols=4, bars=300, seed=1)


@pytest.fixture
def market(panel) -> LookbackMarket:
    return LookbackMarket(panel, WINDOWS, VIEW)


def test_an_encoding_is_that_of_its_window(market):
    ends, lookbacks = np.array([200, 150, 200, 50, 260]), np.array([60, 120, 60, 33, 10])
    expected = market.encode(market.matrices(ends, lookbacks), lookbacks)
    np.testing.assert_array_equal(market.encode_windows(ends, lookbacks), expected)
    np.testing.assert_array_equal(market.encode_windows(ends, lookbacks), expected)  # as it was kept


def test_what_is_seen_is_cut_to_the_history_and_empty_before_the_first_bar(market):
    bars = np.array([3, 15, 250])
    seen = market.short_to_long(bars)
    assert not seen[0].any()
    for column, lookback in enumerate(WINDOWS.seen):
        ends = bars[1:]
        cut = np.minimum(lookback, ends)
        np.testing.assert_array_equal(seen[1:, column], market.encode(market.matrices(ends, cut), cut))


def test_a_window_is_encoded_once(market, monkeypatch):
    counts = []
    encode = LookbackMarket.encode

    def counted(self, matrices, lookbacks):
        counts.append(len(matrices))
        return encode(self, matrices, lookbacks)

    monkeypatch.setattr(LookbackMarket, "encode", counted)
    ends = np.repeat(np.arange(150, 160), 3)
    for _ in range(5):
        market.encode_windows(ends, np.full(30, 60))
        market.short_to_long(ends)
    assert sum(counts) == 10 * 3  # ten bars, three windows, of which the middle one is the one chosen


def test_markets_are_shared_while_one_is_alive(panel):
    first = lookback_market(panel, WINDOWS, VIEW)
    assert lookback_market(load("synthetic", symbols=4, bars=300, seed=1), WINDOWS, VIEW) is first
    assert lookback_market(panel, WINDOWS, View()) is not first
    assert lookback_market(panel.rows(0, 250), WINDOWS, VIEW) is not first


def test_the_record_by_state_weighs_bars_of_like_volatility() -> None:
    panel = Synthetic(symbols=4, bars=420, seed=2).read()
    view = View(method="ccf_lag1", context=("volatility_10",), record_bars=20, state_bars=150)
    market = LookbackMarket(panel, WINDOWS, view)
    assert view.records == (20, 150)
    scores = window_predictions(panel, WINDOWS.grid, "ccf_lag1")
    state, t = np.log(np.maximum(market.context[:, 0].astype(float), 1e-12)), 400
    rows = np.arange(t - 2 - 149, t - 1)
    rows = rows[np.isfinite(scores[rows]).all(axis=1)]
    weights = np.exp(-0.5 * ((state[rows] - state[t]) / (0.4 * state[rows].std())) ** 2)
    expected = weights @ scores[rows] / weights.sum()
    np.testing.assert_allclose(market.record[t, len(WINDOWS.grid) :], expected, rtol=1e-4)
    with pytest.raises(ConfigError, match=r"view\.state_bars=20 must be 100 bars or more"):
        View(context=("volatility_10",), record_bars=20, state_bars=20)
