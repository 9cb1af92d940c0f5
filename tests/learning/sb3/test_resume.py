"""An exact resume in one process: every algorithm, replay as places, generators left alone by looking."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data import load
from pacesetter.envs import TradingVectorEnv
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.learner import Stop
from pacesetter.learning.randomness import keep_randomness
from pacesetter.learning.sb3.algorithms import ALGORITHMS, load_algorithm, make_algorithm
from pacesetter.learning.sb3.learner import SB3Learner
from pacesetter.learning.sb3.resume import capture
from pacesetter.learning.state import pack, write_state

PANEL = load("synthetic", symbols=3, bars=240, seed=1)
ON_POLICY = {"n_steps": 16, "batch_size": 16, "n_epochs": 2}
OFF_POLICY = {"learning_starts": 40, "batch_size": 16, "buffer_size": 100}
OPTIONS: dict[str, dict[str, Any]] = {
    "ppo": ON_POLICY,
    "maskable_ppo": ON_POLICY,
    "recurrent_ppo": ON_POLICY,
    "gru_ppo": ON_POLICY,
    "full_information": {"n_steps": 16},
    "thompson": ON_POLICY,
    "a2c": {"n_steps": 8},
    "sac": OFF_POLICY,
    "td3": OFF_POLICY | {"action_noise": 0.1},
}
GRID = (8, 16, 32)
WINDOWS = {"shortest": 8, "longest": 32, "seen": GRID, "grid": GRID}
STEPS, STOP_AT = 256, 100
torch.set_num_threads(1)


def make_env(name: str = "ppo", has_windows: bool = False) -> TradingVectorEnv:
    action = "continuous" if ALGORITHMS[name].actions == "continuous" else "discrete"
    return TradingVectorEnv(PANEL, 4, action=action, window_bars=6, episode_bars=15, has_windows=has_windows)


def make_learner(name: str = "ppo", **more: Any) -> SB3Learner:
    sizes = {"network": "mlp", "network_options": {"width": 8, "layers": 1}, "heads": (8,)}
    options = sizes | OPTIONS[name] | more
    if name == "full_information":  # its environment has windows to choose, and no orders
        return SB3Learner(make_algorithm(name, LookbackVectorEnv(PANEL, 4, windows=WINDOWS), **options))
    env = make_env(name)
    bank = env.batch.bank
    tables = Tables(bank.windows, bank.context, bank.places, 6, False)
    return SB3Learner(make_algorithm(name, env, tables=tables, **options))


class StopAt:
    """Stores the learner at the first moment between rollouts from a step on, and stops it there."""

    def __init__(self, learner: SB3Learner, folder: Path | None = None, at: int = STOP_AT) -> None:
        self.learner, self.folder, self.at = learner, folder, at

    def step(self, seen: Any) -> None:
        pass

    def between_rounds(self) -> None:
        if self.folder is not None and self.learner.step >= self.at:
            self.learner.save(self.folder, {}, {"note": 3})
            raise Stop("here")


AT_ONCE = [("ppo", 0), ("recurrent_ppo", 0), ("sac", 0)]  # stopped before the first step


@pytest.mark.parametrize(("name", "at"), [*((name, STOP_AT) for name in OPTIONS), *AT_ONCE])  # offline: jobs/offline
def test_a_resumed_learner_ends_as_one_that_was_never_stopped(name: str, at: int, tmp_path: Path) -> None:
    whole = make_learner(name)
    whole.learn(STEPS, StopAt(whole))
    plain, tensors = pack(capture(whole.algorithm))
    cut = make_learner(name)
    with pytest.raises(Stop):
        cut.learn(STEPS, StopAt(cut, tmp_path, at))
    random.seed(99), torch.manual_seed(99)
    resumed = make_learner(name, seed=5)
    assert resumed.load(tmp_path) == {"note": 3}
    assert at <= resumed.step < STEPS
    resumed.learn(STEPS, StopAt(resumed))
    assert resumed.weights_hash() == whole.weights_hash()
    plain_again, tensors_again = pack(capture(resumed.algorithm))
    assert plain_again == plain  # generators, episodes, counters …
    # NaN is what was not measured yet.
    torch.testing.assert_close(tensors_again, tensors, rtol=0, atol=0, equal_nan=True)


def test_replay_holds_places_instead_of_windows() -> None:
    learner = make_learner("sac")
    learner.learn(60, StopAt(learner))
    replay = capture(learner.algorithm)["replay"]
    assert set(replay["observations"]) == {"index", "position", "portfolio"}
    assert len(replay["rewards"]) == 15


def test_gathered_windows_are_those_that_the_environment_would_show(tmp_path: Path) -> None:
    compact, full = make_env(), make_env(has_windows=True)
    bank = compact.batch.bank
    tables = Tables(bank.windows, bank.context, bank.places, 6, False)
    seen, shown = (env.reset(seed=3)[0] for env in (compact, full))
    gathered = tables({name: torch.as_tensor(entry) for name, entry in seen.items()})
    assert set(gathered) == set(shown)
    for name, entry in shown.items():
        np.testing.assert_array_equal(gathered[name].numpy(), entry)
    learner = make_learner()
    learner.save(tmp_path, {})
    outside = load_algorithm(tmp_path, full)  # the same weights act on windows that are gathered outside
    inside, _ = learner.algorithm.predict(seen, deterministic=True)
    np.testing.assert_array_equal(outside.predict(shown, deterministic=True)[0], inside)


def test_looking_leaves_every_generator_as_it_was() -> None:
    def draws() -> tuple[float, float, float]:
        return random.random(), float(np.random.random()), float(torch.rand(()))  # noqa: NPY002 - the one that is kept

    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
    expected = draws()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
    with keep_randomness():
        draws()
    assert draws() == expected


def test_a_frozen_encoder_stays_and_its_normaliser_too() -> None:
    learner = make_learner()
    learner.freeze(("encoder",))
    before = {name: tensor.clone() for name, tensor in learner.weights().items()}
    learner.learn(64, StopAt(learner))
    after = learner.weights()
    assert all(torch.equal(before[name], after[name]) for name in before if "encoder" in name)
    assert not torch.equal(before["action_net.weight"], after["action_net.weight"])
    with pytest.raises(ConfigError, match=r"'encodr'.*did you mean 'encoder'"):
        learner.freeze(("encodr",))


def test_weights_are_taken_where_they_fit(tmp_path: Path) -> None:
    teacher, pupil = make_learner(seed=1), make_learner("a2c", seed=2)
    teacher.save(tmp_path, {})
    assert pupil.take_weights(tmp_path) == len(pupil.weights())
    assert pupil.weights_hash() == teacher.weights_hash()
    wider = make_learner(network_options={"width": 12, "layers": 1})
    assert 0 < wider.take_weights(tmp_path) < len(wider.weights())  # normaliser and last layers have the same shape


def test_nothing_that_fits_is_refused(tmp_path: Path) -> None:
    make_learner("sac").save(tmp_path, {})
    learner = make_learner()
    learner.weights = lambda: {"other": torch.zeros(1)}  # type: ignore[method-assign]
    with pytest.raises(RunError, match="no weights that fit"):
        learner.take_weights(tmp_path)


def test_schedules_reach_the_optimiser() -> None:
    learner = make_learner()
    learner.set("learning_rate", 0.0)
    before = learner.weights()["action_net.weight"].clone()
    learner.learn(64, StopAt(learner))
    assert torch.equal(before, learner.weights()["action_net.weight"])
    learner.set("clip_range", 0.3)
    assert learner.algorithm.clip_range(1.0) == 0.3
    with pytest.raises(ConfigError, match=r"'learning_rat'.*did you mean 'learning_rate'"):
        learner.set("learning_rat", 1.0)


def test_noise_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(ConfigError, match="use_sde"):
        make_learner("sac", use_sde=True)


def test_a_checkpoint_of_another_kind_is_refused_as_a_teacher(tmp_path: Path) -> None:
    write_state(tmp_path, {"learner": {"algorithm": "FleetPPO"}}, {"fleet": {}})
    with pytest.raises(RunError, match="holds neither a single agent nor a direction classifier"):
        make_learner().take_weights(tmp_path)
