"""The trainer: earlier checkpoints, teachers that are none, and extras that add a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import EXTRAS, Extra, ExtraSpec, Surroundings
from pacesetter.learning.learner import StepRecord
from pacesetter.registry import Registry

Make = Callable[..., Any]


def test_a_state_json_that_is_no_classifier_is_refused_as_a_teacher(make_learner: Make, tmp_path: Path) -> None:
    learner = make_learner()
    learner.save(tmp_path)
    with pytest.raises(RunError, match="holds neither a fleet nor a direction classifier; use a run of task=fleet"):
        learner.take_weights(tmp_path)


def test_steps_are_reported_before_they_are_learned_from(make_learner: Make) -> None:
    learner, records = make_learner(), []
    before = learner.fleet.actor.first.weight.detach().clone()

    class Watcher:
        def step(self, record: StepRecord) -> None:
            records.append((record, learner.fleet.actor.first.weight.detach().clone()))

        def between_rounds(self) -> None:
            """Nothing."""

    learner.learn(96, Watcher())
    (first, weight_then), (second, weight_later) = records
    assert torch.equal(weight_then, before)
    assert not torch.equal(weight_later, before)
    assert first.rewards.shape == first.done.shape == (16, 12)
    assert second.actions.shape == (16, 12)
    assert int(first.done.sum()) == 12  # episodes of 10 bars: every environment once in 16 steps


class Recall(Extra):
    """An extra that predicts the reward of a row by a head of its symbol; the trainer trains it."""

    def __init__(self, around: Surroundings, config: Any) -> None:
        self.weight = nn.Parameter(torch.zeros(4, around.width))
        self.own = nn.ModuleDict({"head": nn.ParameterList([self.weight])})

    def losses(self, batch: Transitions, features: torch.Tensor) -> Mapping[str, torch.Tensor]:
        assert batch.targets is not None
        predicted = (features * self.weight[batch.symbol]).sum(-1)
        return {"recall": (predicted - batch.targets).square().view(4, -1).mean(1)}


@pytest.fixture
def recall(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry with one extra more."""
    from pacesetter.learning.extras.curiosity import CuriosityConfig

    monkeypatch.setattr(EXTRAS, "_members", dict(EXTRAS._members))
    EXTRAS.add("recall", ExtraSpec(CuriosityConfig, Recall))
    assert isinstance(EXTRAS, Registry)


@pytest.mark.usefixtures("recall")
def test_an_extra_adds_a_loss_to_any_method_and_is_stored(make_learner: Make, tmp_path: Path) -> None:
    learner = make_learner(extras={"recall": {}})
    learner.fleet.freeze(["S1"])
    learner.learn(48)
    moved = (learner.extras["recall"].weight != 0).any(1).tolist()
    assert moved == [True, False, True, True]
    learner.save(tmp_path)
    other = make_learner(extras={"recall": {}})
    other.load(tmp_path)
    assert torch.equal(other.extras["recall"].weight, learner.extras["recall"].weight)


def test_an_unknown_extra_is_refused(make_learner: Make) -> None:
    with pytest.raises(ConfigError, match="unknown extra 'curiousity'; did you mean 'curiosity'"):
        make_learner(extras={"curiousity": {}})
    with pytest.raises(ConfigError, match=r"unknown option 'agent\.extras\.curiosity\.shar'"):
        make_learner(extras={"curiosity": {"shar": 0.1}})
