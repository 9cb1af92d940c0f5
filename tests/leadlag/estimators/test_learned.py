"""Learned attention: planted leaders with their delays, nobody on noise, direct leaders only, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

import pacesetter as ps
from pacesetter.errors import ConfigError
from pacesetter.leadlag.answer import StrengthMeasure, find_links
from pacesetter.leadlag.estimators.learned import attend, attention_weights


def planted(seed: int, bars: int = 1000) -> np.ndarray:
    """Six symbols: 1 follows 0 after three bars, 3 goes against 2 after one; 4 and 5 are unrelated."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(5, (bars, 6))
    x[3:, 1] += 0.4 * x[:-3, 0]
    x[1:, 3] -= 0.4 * x[:-1, 2]
    return x


def test_leaders_are_found_with_their_delays_and_signs() -> None:
    weights = attend(planted(1), 5)
    peaks = np.abs(weights).max(axis=0)
    assert np.unravel_index(np.abs(weights[:, :, 1]).argmax(), (5, 6)) == (2, 0)
    assert np.unravel_index(np.abs(weights[:, :, 3]).argmax(), (5, 6)) == (0, 2)
    assert weights[2, 0, 1] > 0 > weights[0, 2, 3]
    assert peaks[0, 1] == pytest.approx(0.37, abs=0.08)  # 0.4 in deviations of the follower
    links = find_links(planted(1), StrengthMeasure("learned"), draws=99).mask_linked(0.05)
    assert sorted(map(tuple, np.argwhere(links))) == [(0, 1), (2, 3)]


def test_on_noise_nearly_nobody_attends() -> None:
    followers = [
        np.abs(attend(np.random.default_rng(seed).standard_normal((500, 6)), 5)).max(axis=(0, 1)) for seed in range(20)
    ]
    assert (np.array(followers) > 0.1).mean() < 0.05
    assert not attend(np.zeros((200, 3)), 5).any()
    assert not attend(np.random.default_rng(0).standard_normal((20, 3)), 5).any()  # too short for folds


def test_what_runs_through_a_third_symbol_is_not_attended_to() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2000, 3))
    x[1:, 1] = 0.8 * x[:-1, 0] + 0.6 * x[1:, 1]
    x[1:, 2] = 0.8 * x[:-1, 1] + 0.6 * x[1:, 2]
    correlation = np.corrcoef(x[:-2, 0], x[2:, 2])[0, 1]
    weights = attend(x, 3)
    assert correlation > 0.5
    assert np.abs(weights[:, 0, 2]).max() < 0.1 < 0.6 < weights[0, 1, 2]


def test_attention_comes_close_to_least_squares_where_one_input_matters() -> None:
    rng = np.random.default_rng(3)
    past = rng.standard_normal((3000, 8))
    now = 0.5 * past[:, [4]] + rng.standard_normal((3000, 1))
    weights = attention_weights(past, now, steps=400)[:, 0]
    slope = (past[:, 4] @ now[:, 0]) / (past[:, 4] @ past[:, 4])
    assert weights[4] == pytest.approx(slope, abs=0.02)
    assert np.abs(np.delete(weights, 4)).max() < 0.03


def test_it_is_an_engine_like_any_other() -> None:
    market = ps.load("synthetic", symbols=6, bars=900, strength=0.8, groups=1, seed=1)
    lag = ps.LeadLag("learned").fit(market)
    assert set(lag.ranking(lookback=600)["role"]) <= {"leader", "follower", "–"}
    delays, ahead = market.truth.delays, lag.matrix(lookback=600).to_numpy()
    found = (delays > 0) & (ahead > 0.1)
    assert found.sum() >= 3
    assert (lag.lags(899, 600) == delays)[found].all()
    with pytest.raises(ConfigError, match=r"lag\.steps"):
        ps.LeadLag("learned", steps=0).fit(market)
