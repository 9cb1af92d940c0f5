"""A lookback batch that is stored and restored continues bit for bit, also across episode ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.state import load_lookback_state, lookback_state
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.errors import ConfigError
from pacesetter.panel import Panel

OPTIONS: dict[str, Any] = {
    "windows": {"shortest": 8, "longest": 32, "seen": (8, 16, 32), "grid": (8, 16, 32), "max_delta": 24},
    "episodes": {"bars": 5},
    "reward": {"components": {"signal": 1.0, "switching": 1.0}},
}


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Synthetic(symbols=4, bars=200, seed=1).read()


def played(env: LookbackVectorEnv, first: int, last: int) -> list[np.ndarray]:
    places = np.random.default_rng(4).integers(0, 3, (last, env.num_envs))
    return [env.step(actions)[1].copy() for actions in places[first:last]]


MIXED = {"bars": 5, "synthetic_share": 0.5, "synthetic": {"bars": 120}, "synthetic_pool": 2, "synthetic_plays": 2}


@pytest.mark.parametrize("episodes", [{"bars": 5}, MIXED], ids=["own bars", "synthetic markets too"])
def test_a_restored_batch_continues_bit_for_bit(panel: Panel, episodes: dict[str, Any]) -> None:
    one = LookbackVectorEnv(panel, 3, **OPTIONS | {"episodes": episodes})
    one.reset(seed=0)
    played(one, 0, 7)
    stored = lookback_state(one.batch)
    expected = played(one, 7, 20)
    other = LookbackVectorEnv(panel, 3, **OPTIONS | {"episodes": episodes})
    other.reset(seed=99)
    load_lookback_state(other.batch, stored)
    np.testing.assert_array_equal(played(other, 7, 20), expected)
    assert any(seed is not None for seed in stored["markets"]) == ("synthetic_share" in episodes)


def test_another_batch_size_is_refused(panel: Panel) -> None:
    one, other = LookbackVectorEnv(panel, 3, **OPTIONS), LookbackVectorEnv(panel, 2, **OPTIONS)
    one.reset(seed=0)
    with pytest.raises(ConfigError, match="does not match this batch of 2"):
        load_lookback_state(other.batch, lookback_state(one.batch))
