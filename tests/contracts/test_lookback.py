"""Contracts 1 and 3 for the lookback environment: no later bar reaches a decision, and one seed is one trajectory."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.environment import LookbackEnv
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.leadlag.structure.encoding import ENCODERS
from pacesetter.panel import Panel
from pacesetter.rewards.component import REWARDS

BARS, START = 200, 64
ALL = [name for name in REWARDS if REWARDS[name].formula.__module__ == "pacesetter.rewards.lookback"]
OPTIONS: dict[str, Any] = {
    "windows": {"shortest": 8, "longest": 64, "seen": (8, 16, 64), "grid": (8, 16, 32, 64), "max_delta": 40},
    "liquidity": {"min_coverage": 0.9},
    "episodes": {"bars": None, "starts": "fixed"},
    "reward": {"components": dict.fromkeys(ALL, 1.0), "clip": None},
}


def bars(altered_after: int | None = None) -> Panel:
    """A synthetic market with late listings; every bar after `altered_after` is another one, some unobserved."""
    panel = Synthetic(symbols=5, bars=BARS, seed=4, late_share=0.4).read()
    if altered_after is None:
        return replace(panel, truth=None)
    rng = np.random.default_rng(0)
    blocks, mask = panel.blocks.copy(), panel.mask.copy()
    later = slice(altered_after + 1, None)
    blocks[:, later] *= 1 + rng.random(blocks[:, later].shape)
    mask[later] &= rng.random(mask[later].shape) > 0.2
    blocks[:, ~mask] = np.nan
    return replace(panel, blocks=blocks, mask=mask, truth=None)


def trajectory(panel: Panel, view: dict[str, Any], steps: int) -> list[tuple[Any, ...]]:
    """Observation, mask, window in force, clamp and reward components of each step of a fixed list of actions."""
    env = LookbackEnv(panel, view=view, **OPTIONS)
    observation, _ = env.reset(seed=1)
    places = np.random.default_rng(2).integers(0, 4, steps)
    told = []
    for place in places:
        mask = env.action_masks()
        after, _, _, _, info = env.step(place)
        told.append((observation, mask, info["lookback"], info["clamped"], info["reward"]))
        observation = after
    return told


VIEWS = [{"encoder": name, "context": ("regime",)} for name in ENCODERS] + [{"horizon_bars": 3}]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.get("encoder", "horizon 3"))
@pytest.mark.parametrize("t", [90, 140])
def test_later_bars_change_no_observation_mask_or_window(view: dict[str, Any], t: int) -> None:
    steps = t - START + 1  # the last decision is at bar t
    kept, altered = (trajectory(panel, view, steps) for panel in (bars(), bars(altered_after=t)))
    for before, after in zip(kept, altered, strict=True):
        np.testing.assert_equal(after[:4], before[:4])


def test_rewards_read_as_far_as_the_outcome_and_no_further() -> None:
    t, view = 140, {"horizon_bars": 2}
    kept, altered = (trajectory(panel, view, t - START + 1) for panel in (bars(), bars(altered_after=t)))
    known = t - START + 1 - 3  # a decision at t−3 is filled at t−2 and closed at t
    assert [step[4] for step in altered[:known]] == [step[4] for step in kept[:known]]
    assert all(
        after[4]["signal"] != before[4]["signal"] for after, before in zip(altered[known:], kept[known:], strict=True)
    )


def test_a_present_bar_does_change_the_observation() -> None:
    kept, altered = (trajectory(panel, {}, 60) for panel in (bars(), bars(altered_after=99)))
    assert not np.array_equal(altered[36][0]["short"], kept[36][0]["short"])  # bar 100


@pytest.mark.parametrize("kind", [LookbackEnv, LookbackVectorEnv])
def test_one_seed_is_one_trajectory(kind: type) -> None:
    options = OPTIONS | {"episodes": {"bars": 9, "synthetic_share": 0.3, "synthetic": {"bars": 150}}}

    def run(seed: int) -> list[Any]:
        env = kind(bars(), **options)
        told = [env.reset(seed=seed)]
        env.action_space.seed(seed)
        for _ in range(30):
            told.append(env.step(env.action_space.sample()))
            if kind is LookbackEnv and told[-1][3]:
                told.append(env.reset())
        return told

    first = run(3)
    np.testing.assert_equal(run(3), first)
    with pytest.raises(AssertionError):
        np.testing.assert_equal(run(4), first)


def test_the_core_runs_without_gymnasium_and_torch() -> None:
    code = (
        "import sys; sys.modules |= {'gymnasium': None, 'torch': None};"
        "import pacesetter.envs.lookback.batch, pacesetter.envs.lookback.evaluation"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
