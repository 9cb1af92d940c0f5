"""The loop of our own algorithms, on an environment that counts its steps and pays their number."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback

from pacesetter.learning.methods import NetworkOptions
from pacesetter.learning.sb3.own import OwnAlgorithm, Steps

LENGTH = 5  # steps of an episode


class Counting(gymnasium.Env):
    observation_space = spaces.Dict({"step": spaces.Box(0.0, LENGTH, (1,), np.float32)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        return self._observation(), float(self.steps), False, self.steps == LENGTH, {}

    def _observation(self):
        return {"step": np.array([self.steps], np.float32)}


@dataclass(frozen=True)
class Options(NetworkOptions):
    n_steps: int = 4
    learning_rate: float = 1e-3
    gamma: float = 0.9
    max_grad_norm: float = 0.5


class Recorder(OwnAlgorithm):
    options_kind = Options

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.rounds: list[Steps] = []

    def collect(self, callback):
        played = self.play(callback)
        if played is not None:
            self.rounds.append(played)
        return played is not None

    def update(self):
        self._n_updates += 1


class StopAt(BaseCallback):
    def __init__(self, step):
        super().__init__()
        self.step = step

    def _on_step(self):
        return self.model.num_timesteps < self.step


NEVER = 10**9


@pytest.fixture
def recorder():
    return Recorder(Counting(), Options(), seed=3)


def test_a_round_holds_what_was_seen_before_each_action_and_what_came_of_it(recorder):
    recorder.learn(8, StopAt(NEVER))
    first, second = recorder.rounds
    # An episode of five: the observation of the sixth step is that of a new one.
    assert first.observation["step"].flatten().tolist() == [0, 1, 2, 3]
    assert second.observation["step"].flatten().tolist() == [4, 0, 1, 2]
    assert [*first.rewards.flatten().tolist(), *second.rewards.flatten().tolist()] == [1, 2, 3, 4, 5, 1, 2, 3]
    assert second.ended.flatten().tolist() == [True, False, False, False]
    assert [episode["r"] for episode in recorder.ep_info_buffer] == [15.0]
    assert (recorder.num_timesteps, recorder._n_updates) == (8, 2)


def test_rows_are_flat_and_a_choice_of_them_keeps_entries_together(recorder):
    recorder.learn(4, StopAt(NEVER))
    rows = recorder.rounds[0].rows()
    some = rows.at(torch.tensor([3, 1]))
    assert some.observation["step"].flatten().tolist() == [3, 1]
    assert some.rewards.tolist() == [4, 2]


def test_learning_goes_on_where_it_stopped_or_begins_again(recorder):
    recorder.learn(4, StopAt(NEVER))
    recorder.learn(4, StopAt(NEVER), reset_num_timesteps=False)
    assert recorder.rounds[1].observation["step"][0].item() == 4
    assert recorder.num_timesteps == 8
    recorder.learn(4, StopAt(NEVER))
    assert recorder.rounds[2].observation["step"][0].item() == 0
    assert recorder.num_timesteps == 4


def test_a_callback_that_asks_to_stop_ends_the_round_without_learning(recorder):
    recorder.learn(8, StopAt(6))
    assert (recorder.num_timesteps, len(recorder.rounds), recorder._n_updates) == (6, 1, 1)


def test_minibatches_hold_every_row_once(recorder):
    parts = list(recorder.minibatches(10, 4))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert sorted(torch.cat(parts).tolist()) == list(range(10))


def test_a_step_of_the_optimiser_has_the_rate_that_was_set_and_a_gradient_no_longer_than_allowed(recorder):
    recorder.set_option("learning_rate", 0.25)
    assert recorder.options.learning_rate == 0.25
    assert {group["lr"] for group in recorder.policy.optimizer.param_groups} == {0.25}
    shown = {"step": torch.ones(3, 1)}
    recorder.descend(1e6 * recorder.policy.predict_values(shown).sum())
    length = torch.stack([each.grad.norm() for each in recorder.policy.parameters() if each.grad is not None]).norm()
    assert length.item() == pytest.approx(0.5, rel=1e-3)


def test_options_of_the_network_are_not_among_its_own():
    assert set(Recorder.hyperparameters()) == {"n_steps", "learning_rate", "gamma", "max_grad_norm"}
