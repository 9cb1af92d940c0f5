"""The strongest leaders of each symbol: who they are, that their links and moves add up, absence, and any order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import ConfigError
from pacesetter.leadlag.leaders import leader_names
from pacesetter.leadlag.lookback.policy import ConstantLookback
from pacesetter.leadlag.shrinkage import noise_level
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.panel import Panel

LOOKBACK, LAGS, COUNT = 60, 3, 2
COLUMNS = 2 * LAGS + 2


def market(bars: int = 120, symbols: int = 4) -> Panel:
    """S0 leads S1 by two bars, with the opposite sign; nothing else leads."""
    moves = np.random.default_rng(3).standard_normal((bars, symbols))
    moves[2:, 1] -= 2 * moves[:-2, 0]
    close = 100 * np.exp(0.01 * np.cumsum(moves, axis=0))
    names = [f"S{k}" for k in range(symbols)]
    return Panel.from_fields(pd.date_range("2023", periods=bars, tz="UTC"), names, {"close": close})


def rows(panel: Panel, count: int = COUNT) -> np.ndarray:
    """(time, symbol, leader, column)."""
    features = leadlag_features("ccf_lag1", ConstantLookback(LOOKBACK), leaders=count, leader_lags=LAGS)
    found = {feature.name: feature.compute(panel) for feature in features}
    stacked = np.stack([found[name] for name in leader_names(count, LAGS)], axis=-1)
    return stacked.reshape(*stacked.shape[:2], count, COLUMNS)


def test_the_planted_leader_comes_first_with_its_delay_and_its_sign() -> None:
    panel = market()
    found = rows(panel)
    last = found[-1, 1, 0]
    assert last[0] == 0  # the place of S0
    links, moves = last[2 : 2 + LAGS], last[2 + LAGS :]
    assert links[1] < -0.3
    assert links[0] == links[2] == 0.0
    x = np.diff(np.log(panel.close[:, 0]), prepend=np.nan)
    np.testing.assert_allclose(moves / moves[0], x[-1 - np.arange(LAGS)] / x[-1], rtol=1e-5)
    assert np.isnan(found[:LOOKBACK]).all()


def test_links_times_moves_of_all_leaders_are_what_is_expected() -> None:
    panel = market()
    features = leadlag_features("ccf_lag1", ConstantLookback(LOOKBACK), leaders=3, leader_lags=LAGS, expected_lags=LAGS)
    expected = next(feature for feature in features if feature.name == "leadlag_expected").compute(panel)
    found = rows(panel, count=3)
    promised = (found[..., 2 : 2 + LAGS] * found[..., 2 + LAGS :]).sum(axis=(-1, -2))
    x = np.diff(np.log(panel.close), axis=0)
    deviation = x[-LOOKBACK:].std(axis=0)
    np.testing.assert_allclose(promised[-1] * deviation, expected[-1], rtol=0.05, atol=1e-6)


def test_symbols_in_another_order_have_the_same_leaders() -> None:
    panel = market()
    order = [2, 0, 3, 1]
    turned = panel.select([panel.symbols[place] for place in order])
    ours, theirs = rows(panel)[LOOKBACK:], rows(turned)[LOOKBACK:]
    np.testing.assert_allclose(theirs[..., 1:], ours[:, order][..., 1:], rtol=1e-5, atol=1e-6)
    names = np.array(panel.symbols)[ours[:, order][..., 0].astype(int)]
    np.testing.assert_array_equal(np.array(turned.symbols)[theirs[..., 0].astype(int)], names)


def test_an_absent_symbol_leads_nobody_and_places_without_a_leader_are_empty() -> None:
    panel = market()
    mask = panel.mask.copy()
    mask[-1, 0] = False
    found = rows(replace(panel, mask=mask), count=3)
    assert np.isnan(found[-1, 0]).all()
    assert 0 not in found[-1, 1:, :, 0]
    np.testing.assert_array_equal(found[-1, 1:, 2, 0], -1.0)  # two are left to each of three
    np.testing.assert_array_equal(found[-1, 1:, 2, 1:], 0.0)


def test_the_level_of_noise_falls_with_the_window() -> None:
    assert noise_level(5, 10, 250) == pytest.approx(np.sqrt(2 * np.log(45) / 250))
    assert noise_level(5, 10, 1000) == pytest.approx(noise_level(5, 10, 250) / 2)


def test_fewer_than_no_leaders_and_no_lags_are_refused() -> None:
    with pytest.raises(ConfigError, match="leaders=-1"):
        leadlag_features(leaders=-1)
    with pytest.raises(ConfigError, match="leader_lags=0"):
        leadlag_features(leaders=2, leader_lags=0)
