"""Counts: states by hand, 1/√N for each agent by itself, bit-exact resumes, and a refusal where there are no counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.counts import STATES, Counts, Visits, states

COUNTED = {"model": "counts", "share": 0.5, "warmup_steps": 0}


def position(weight: float, held: float, gain: float) -> torch.Tensor:
    row = torch.zeros(1, len(PositionEntry))
    row[0, PositionEntry.WEIGHT], row[0, PositionEntry.BARS_HELD] = weight, held
    row[0, PositionEntry.UNREALISED_RETURN] = gain
    return row


def test_states_differ_by_bars_held_position_and_gain() -> None:
    places = [
        (weight, held, gain)
        for weight in (-1.0, -0.4, 0.0, 0.2, 1.0)
        for held in (0.0, 4.0, 60.0, 128.0)
        for gain in (-0.02, -0.005, 0.005, 0.02)
    ]
    found = [int(states(position(*place))) for place in places]
    assert len(set(found)) == len(places)
    assert 0 <= min(found) <= max(found) == STATES - 1
    assert int(states(position(0.21, 5.0, 0.002))) == int(states(position(0.2, 4.0, 0.009)))
    assert int(states(position(3.0, 900.0, 0.5))) == STATES - 1


def test_what_an_agent_was_in_often_is_worth_less_to_it_alone() -> None:
    visits = Visits(2)
    agents, places = torch.tensor([0, 0, 0, 1]), torch.tensor([5, 5, 6, 5])
    torch.testing.assert_close(visits(agents, places), torch.tensor([2.0, 2.0, 1.0, 1.0]).rsqrt())
    torch.testing.assert_close(visits(agents, places), torch.tensor([4.0, 4.0, 2.0, 2.0]).rsqrt())


@pytest.mark.parametrize("warmup", [0, 100])
def test_the_reward_is_mixed_after_the_warm_up(make_learner: Callable[..., Any], warmup: int) -> None:
    learner = make_learner(extras={"curiosity": COUNTED | {"warmup_steps": warmup, "eta": 2.0}})
    counts = learner.extras["curiosity"]
    assert isinstance(counts, Counts)
    count = learner.market.env_count
    rows = torch.arange(count) // 3
    batch = Transitions(rows, learner.market.reset(), torch.zeros(count), rewards=torch.ones(count))
    nothing = torch.zeros(count, 1)
    found = counts.reward(batch, nothing, nothing, 50)
    # Three environments of each symbol begin in the same state.
    torch.testing.assert_close(found, torch.full((count,), 1.0 if warmup else 0.5 + 0.5 * 2.0 * 3**-0.5))


def test_a_fleet_resumes_bit_exactly(make_learner: Callable[..., Any]) -> None:
    whole = make_learner(extras={"curiosity": COUNTED})
    whole.learn(192)
    first = make_learner(extras={"curiosity": COUNTED})
    first.learn(96)
    stored = first.state_dict()
    second = make_learner(extras={"curiosity": COUNTED})
    second.load_state_dict(stored)
    second.learn(192)
    assert whole.weights_hash() == second.weights_hash() != make_learner().weights_hash()
    visits = whole.extras["curiosity"].own["visits"].counts
    assert visits.sum() == 192 * 4
    assert torch.equal(visits, second.extras["curiosity"].own["visits"].counts)


def test_a_run_of_a_fleet_counts(small: Any, console: Any) -> None:
    more = ("task=fleet", "agent=ppo", "agent.n_steps=16", "agent.batch_size=64", "task.retrain_share=0")
    counted = ("agent.extras.curiosity={model:counts}", "features.names=[return_1]", "train.validate_every=256")
    run = train(resolve([*small.common, *more, *counted]), console=console).run
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert any(0 < line["icm/intrinsic_reward_mean"] < 1 for line in lines if "icm/intrinsic_reward_mean" in line)


def test_a_single_agent_is_refused(small: Any) -> None:
    config = small("ppo", "agent.extras.curiosity={model:counts}")
    with pytest.raises(ConfigError, match="take task=fleet"):
        build_learner(config, build_parts(config, build_panel(config)))
