"""Phases of PPO and evolution take turns on one fleet, by their budgets and by what they still improve."""

from __future__ import annotations

import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.ppo import PPO
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.methods.evolution.es import ES
from pacesetter.methods.evolution.hybrid import FleetHybrid, HybridTrainer, should_switch

SMALL = {"population": 4, "n_steps": 2}


def make(bank: Bank) -> HybridTrainer:
    torch.manual_seed(3)
    market = FleetMarket(bank, 3, window_bars=6, episode_bars=10)
    fleet = Fleet(network("mlp", width=16), market.shapes, market.symbols, market.actions, hidden=8)
    options = {"n_steps": 16, "batch_size": 24, "rl_steps": 96, "es_iterations": 2, "switch_at": 0.0}
    config = FleetHybrid(evolution=SMALL, **options)  # type: ignore[arg-type]
    evolution = FleetTrainer(ES(fleet, market.for_members(4), config.of_evolution))
    return HybridTrainer(PPO(fleet, market, config), evolution)


def test_phases_take_turns_and_all_their_steps_count(bank: Bank) -> None:
    learner = make(bank)
    kinds, steps = [], []
    for _ in range(6):
        steps.append(learner.round_steps)
        learner.learn(learner.step + 1)
        kinds.append(bool(learner.statistics()["hybrid/evolving"][0]))
    assert kinds == [False, False, True, True, False, False]  # 96 steps of PPO are two rounds of 48
    assert steps == [48, 48, 24, 24, 48, 48]
    assert learner.step == sum(steps)
    assert learner.fleet.has_state_value


def test_both_phases_move_the_same_fleet(bank: Bank) -> None:
    learner = make(bank)
    moved = []
    for _ in range(3):
        before = [one.detach().clone() for one in learner.fleet.actor.parameters()]
        learner.learn(learner.step + 1)
        after = learner.fleet.actor.parameters()
        moved.append(any(not torch.equal(old, new) for old, new in zip(before, after, strict=True)))
    assert moved == [True, True, True]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0, 1, 2, 3, 4, 5], False),  # improves as it always did
        ([0, 4, 5, 5, 5, 5], True),  # has stopped
        ([0, 4, 5], False),  # too short to say
        ([5, 4, 3, 2], True),  # loses
        ([5, 1, 2, 3], False),  # lost, and recovers
    ],
)
def test_a_phase_ends_when_it_improves_by_less_than_half_its_mean(scores: list[float], expected: bool) -> None:
    assert should_switch(torch.tensor(scores).double(), 0.5) is expected


def test_unknown_options_of_evolution_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent\.evolution\.popluation is unknown"):
        FleetHybrid(evolution={"popluation": 4})
    with pytest.raises(ConfigError, match="even number"):
        FleetHybrid(evolution={"population": 5})
