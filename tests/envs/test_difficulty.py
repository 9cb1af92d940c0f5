"""Copies of a market: their volatility is the wanted one, noise is added to returns, bars keep their shape."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.difficulty import alter_returns
from pacesetter.errors import ConfigError


@pytest.fixture(scope="module")
def panel():
    return Synthetic(symbols=3, bars=600, seed=1).read()


def moves(panel):
    return np.diff(np.log(panel.close), axis=0)


def test_without_a_change_the_bars_are_the_same(panel):
    same = alter_returns(panel)
    for name in ("open", "high", "low", "close"):
        np.testing.assert_allclose(same[name], panel[name], rtol=1e-9)
    assert np.array_equal(same.volume, panel.volume)
    assert same.truth is None


def test_the_volatility_is_the_wanted_one_and_noise_comes_on_top(panel):
    calm = alter_returns(panel, volatility=0.1)
    yearly = moves(calm).std(axis=0) * calm.bars_per_year**0.5
    np.testing.assert_allclose(yearly, 0.1, rtol=1e-6)
    noisy = alter_returns(panel, noise=1.0, volatility=0.1)
    np.testing.assert_allclose(moves(noisy).std(axis=0) * calm.bars_per_year**0.5, 0.1 * 2**0.5, rtol=0.1)
    added = moves(noisy) - moves(calm)
    assert abs(np.corrcoef(added[1:, 0], added[:-1, 0])[0, 1]) < 0.15  # a walk, which cannot be traded
    np.testing.assert_allclose(moves(alter_returns(panel, factor=2.0)), 2 * moves(panel), rtol=1e-6, atol=1e-12)


def test_bars_stay_bars_and_a_seed_repeats_them(panel):
    noisy = alter_returns(panel, noise=0.5, volatility=0.3, seed=3)
    assert (noisy.high >= np.maximum(noisy.open, noisy.close) - 1e-9).all()
    assert (noisy.low <= np.minimum(noisy.open, noisy.close) + 1e-9).all()
    assert noisy == alter_returns(panel, noise=0.5, volatility=0.3, seed=3)
    assert noisy != alter_returns(panel, noise=0.5, volatility=0.3, seed=4)
    with pytest.raises(ConfigError, match="noise"):
        alter_returns(panel, noise=-1)
