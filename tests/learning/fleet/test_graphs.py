"""Recorded rounds: the same weights as ordinary ones, in memory that stays where it is; what cannot be is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pacesetter.errors import ConfigError
from pacesetter.learning.fleet.graphs import RecordedRound, check_recordable

Make = Callable[..., Any]


@pytest.mark.parametrize("action", ["discrete", "continuous"])
def test_recorded_rounds_learn_what_ordinary_ones_do(make_learner: Make, action: str) -> None:
    plain = make_learner(action)
    plain.learn(192)
    recorded = make_learner(action)
    recorded.recorded = RecordedRound(recorded)
    recorded.learn(192)
    assert recorded.weights_hash() == plain.weights_hash()
    assert recorded.statistics().keys() == plain.statistics().keys()


def test_observations_stay_in_one_memory_and_rates_may_change(make_learner: Make) -> None:
    learner = make_learner()
    learner.recorded = RecordedRound(learner)
    learner.learn(96)
    address = {name: entry.data_ptr() for name, entry in learner.observation.items()}
    learner.set("learning_rate", 1e-4)
    learner.learn(192)
    assert {name: entry.data_ptr() for name, entry in learner.observation.items()} == address
    assert learner.recorded._rates == learner.rates


def test_what_cannot_be_recorded_is_refused(make_learner: Make) -> None:
    with pytest.raises(ConfigError, match=r"agent\.graphs=true needs a GPU, and the device is cpu"):
        make_learner(graphs=True)
    method = make_learner(extras={"curiosity": {}}).method
    with pytest.raises(ConfigError, match="agent=ppo without extras"):
        check_recordable(method, torch.device("cuda"))
