"""Copies keep what a market is like and hold exactly the planted relation."""

from __future__ import annotations

import numpy as np
import pytest

import pacesetter as ps
from pacesetter.errors import DataError
from pacesetter.lab.selftest.surrogates import Surrogates


@pytest.fixture(scope="module")
def copies() -> Surrogates:
    return Surrogates(ps.load("synthetic", symbols=8, bars=3000, strength=0.8, seed=3))


def moves(panel: ps.Panel) -> np.ndarray:
    return np.diff(np.log(panel.close), axis=0)


def test_noise_keeps_volatility_and_correlation_and_no_relation_in_time(copies: Surrogates) -> None:
    own, copied = copies.moves, moves(copies.noise(1).panel)
    np.testing.assert_allclose(np.abs(copied), np.abs(own), atol=1e-12)
    np.testing.assert_allclose(np.corrcoef(copied.T), np.corrcoef(own.T), atol=0.05)
    lagged = np.array([[np.corrcoef(copied[:-1, i], copied[1:, j])[0, 1] for j in range(8)] for i in range(8)])
    assert np.abs(lagged).max() < 0.08


def test_a_planted_follower_keeps_its_variance_and_follows_by_one_bar(copies: Surrogates) -> None:
    planted = copies.plant_leaders(2, 0.5)
    found = moves(planted.panel)
    assert len(planted.links) == 2
    for leader, follower in planted.links:
        assert np.corrcoef(found[:-1, leader], found[1:, follower])[0, 1] == pytest.approx(0.5, abs=0.06)
        assert found[:, follower].std() == pytest.approx(copies.deviation[follower], rel=0.06)
    assert copies.worth_bps(0.5) == pytest.approx(5 * copies.worth_bps(0.1))


def test_equal_seeds_give_equal_copies_and_too_little_is_refused(copies: Surrogates) -> None:
    assert copies.plant_leaders(2, 0.5).panel == copies.plant_leaders(2, 0.5).panel
    with pytest.raises(DataError, match="2 symbols and 120 bars"):
        Surrogates(ps.load("synthetic", symbols=3, bars=100))


def test_bars_keep_their_shape_and_closes_alone_are_led_by_two_bars() -> None:
    market = ps.load("synthetic", symbols=4, bars=1500, seed=3)
    bars = Surrogates(market).plant_leaders(1, 0.6).panel
    assert bars.has_bars
    assert (bars.high >= np.maximum(bars.open, bars.close)).all()
    assert (bars.low <= np.minimum(bars.open, bars.close)).all()
    late = Surrogates(ps.load(market.to_frame()["close"])).plant_leaders(1, 0.6)
    found = moves(late.panel)
    leader, follower = late.links[0]
    assert np.corrcoef(found[:-2, leader], found[2:, follower])[0, 1] == pytest.approx(0.6, abs=0.08)
    assert abs(np.corrcoef(found[:-1, leader], found[1:, follower])[0, 1]) < 0.1
