"""Many lookback environments at once: the numbers of one at a time, same-step resets, arrays left alone, no leak."""

from __future__ import annotations

import resource
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.environment import LookbackEnv
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.errors import ConfigError
from pacesetter.panel import Panel

WINDOWS = {"shortest": 8, "longest": 64, "seen": (8, 16, 64), "grid": (8, 16, 32, 64), "max_delta": 40}
COMPONENTS = dict.fromkeys(("signal", "stability", "switching", "follow_through", "mutual_information"), 1.0)
OPTIONS: dict[str, Any] = {
    "windows": WINDOWS,
    "view": {"context": ("volatility_10",)},
    "episodes": {"bars": 7},
    "reward": {"components": COMPONENTS},
}
COUNT = 12


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Synthetic(symbols=5, bars=300, seed=1, late_share=0.3).read()


def actions(steps: int) -> np.ndarray:
    return np.random.default_rng(4).integers(0, 4, (steps, COUNT))


def test_a_row_is_a_single_environment_step_for_step(panel: Panel) -> None:
    vector = LookbackVectorEnv(panel, COUNT, **OPTIONS)
    singles = [LookbackEnv(panel, **OPTIONS) for _ in range(COUNT)]
    batch, _ = vector.reset(seed=100)
    for row, env in enumerate(singles):
        alone, _ = env.reset(seed=100 + row)
        for name, entry in alone.items():
            np.testing.assert_array_equal(batch[name][row], entry)
    for places in actions(30):
        batch, rewards, terminated, truncated, infos = vector.step(places)
        for row, env in enumerate(singles):
            alone, reward, over, cut, info = env.step(places[row])
            last = alone
            if cut:
                alone, _ = env.reset()
                for name, entry in last.items():
                    np.testing.assert_array_equal(infos["final_obs"][name][row], entry)
            for name, entry in alone.items():
                np.testing.assert_array_equal(batch[name][row], entry, err_msg=name)
            assert (rewards[row], terminated[row], truncated[row]) == (reward, over, cut)
            for name in ("asked", "lookback", "clamped", "bar"):
                assert infos[name][row] == info[name]
            for name, value in info["reward"].items():
                assert infos["reward"][name][row] == value


def test_what_was_handed_out_is_never_written_to(panel: Panel) -> None:
    vector = LookbackVectorEnv(panel, COUNT, **OPTIONS)
    handed = [vector.reset(seed=0)]
    copies = deepcopy(handed)
    for places in actions(20):
        handed.append(vector.step(places))
        copies.append(deepcopy(handed[-1]))
    np.testing.assert_equal(handed, copies)


def test_episodes_end_together_with_their_last_observation_and_mask(panel: Panel) -> None:
    vector = LookbackVectorEnv(panel, COUNT, **OPTIONS)
    vector.reset(seed=0)
    for places in actions(6):
        *_, truncated, infos = vector.step(places)
        assert not truncated.any()
        assert "final_obs" not in infos
    observation, *_, truncated, infos = vector.step(actions(7)[-1])
    assert truncated.all()
    assert infos["final_action_mask"].shape == (COUNT, 4)
    assert infos["_final_obs"].all()
    assert not np.array_equal(infos["final_obs"]["chosen"], observation["chosen"])


def test_a_reset_mask_restarts_only_the_rows_it_marks(panel: Panel) -> None:
    vector = LookbackVectorEnv(panel, 3, **OPTIONS)
    vector.reset(seed=0, options={"reset_mask": [True, False, False]})  # none was begun: all are
    before, *_ = vector.step(np.array([1, 2, 3]))
    after, infos = vector.reset(options={"reset_mask": np.array([False, True, False])})
    for name, entry in before.items():
        np.testing.assert_array_equal(after[name][[0, 2]], entry[[0, 2]])
    assert vector.batch.decisions.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(infos["bar"], vector.batch.t)
    vector.step(np.zeros(3, dtype=np.int64))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"options": {"bar": 7}}, "reset has no option 'bar'"),
        ({"options": {"reset_maks": [True] * 3}}, "did you mean 'reset_mask'"),
        ({"options": {"reset_mask": [True] * 2}}, "not 3 booleans; give one for each environment"),
        ({"seed": [1, 2]}, "not 3 whole numbers"),
        ({"seed": [1, None, 2]}, "not 3 whole numbers"),
        ({"seed": -1}, "not 3 whole numbers"),
    ],
)
def test_a_reset_that_cannot_be_is_refused_and_moves_nothing(panel: Panel, given: dict[str, Any], told: str) -> None:
    vector = LookbackVectorEnv(panel, 3, **OPTIONS)
    vector.reset(seed=0)
    bars, dealt = vector.batch.t.copy(), vector.batch.dealer.dealt
    with pytest.raises(ConfigError, match=told):
        vector.reset(**given)
    assert vector.batch.t.tolist() == bars.tolist()
    assert vector.batch.dealer.dealt == dealt


def test_a_step_without_a_reset_is_refused(panel: Panel) -> None:
    with pytest.raises(ConfigError, match=r"no open episode: call reset\(\) first"):
        LookbackVectorEnv(panel, 2, **OPTIONS).step(np.zeros(2, dtype=np.int64))


def test_gymnasium_makes_it_and_masks_have_a_row_each(panel: Panel) -> None:
    vector = gymnasium.make_vec(
        "pacesetter/Lookback-v0", 4, vectorization_mode="vector_entry_point", panel=panel, **OPTIONS
    )
    observation, _ = vector.reset(seed=[5, 6, 7, 8])
    assert observation in vector.observation_space
    assert vector.unwrapped.action_masks().shape == (4, 4)  # type: ignore[attr-defined]


def test_several_markets_in_one_batch(panel: Panel) -> None:
    options = OPTIONS | {"episodes": {"bars": 5, "resolutions": ("", "1W"), "warmup_bars": 10}}
    vector = LookbackVectorEnv(panel, COUNT, **options)
    observation, _ = vector.reset(seed=0)
    np.testing.assert_array_equal(observation["resolution"][:, 0], [1, 0] * 6)
    assert len(vector.batch.groups) == 2
    for places in actions(12):
        observation, rewards, *_ = vector.step(places)
        assert np.isfinite(rewards).all()
        assert observation in vector.observation_space


def test_a_million_steps_take_no_more_memory() -> None:
    panel = Synthetic(symbols=3, bars=400, seed=1).read()
    options = OPTIONS | {"view": {"method": "ccf_lag1"}, "reward": {"components": {"signal": 1.0}}}
    vector = LookbackVectorEnv(panel, 4096, **options | {"episodes": {"bars": 100}})
    vector.reset(seed=0)
    places = np.zeros(4096, dtype=np.int64)

    def steps(count: int) -> int:
        for step in range(count):
            vector.step((places + step) % 4)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = steps(110)  # every environment has restarted once
    assert steps(250) - before < 16_384  # kilobytes
