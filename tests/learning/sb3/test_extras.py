"""Extras of a single agent: rewards change, what is logged has its names, and a resumed run is bit-exact."""

from __future__ import annotations

import pytest
import torch

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.errors import ConfigError
from pacesetter.learning.learner import Between
from pacesetter.learning.sb3.extras import RewardDeviation

CURIOUS = "agent.extras.curiosity={warmup_steps:0,hidden:16}"
SHAPED = "agent.extras.potential={kind:holding,weight:0.5}"


def learner_of(config):
    return build_learner(config, build_parts(config, build_panel(config)))


@pytest.mark.parametrize(
    ("agent", "extra"), [("ppo", SHAPED), ("sac", CURIOUS), pytest.param("sac", SHAPED, marks=pytest.mark.proof)]
)
def test_it_changes_what_is_learned_and_resumes_bit_exactly(small, tmp_path, agent, extra):
    config = small(agent, extra)
    whole = learner_of(config)
    half = 128
    whole.learn(2 * half, Between(lambda: whole.save(tmp_path, more={}) and None if whole.step == half else None))
    resumed = learner_of(config)
    torch.manual_seed(99)
    resumed.load(tmp_path)
    resumed.learn(2 * half)
    assert resumed.weights_hash() == whole.weights_hash()
    assert resumed.statistics() == pytest.approx(whole.statistics(), nan_ok=True)
    plain = learner_of(small(agent))
    plain.learn(2 * half)
    assert plain.weights_hash() != whole.weights_hash()
    names = {"icm/forward_loss", "icm/inverse_loss", "icm/intrinsic_reward_mean"}
    assert (names if extra == CURIOUS else {"potential/weight"}) <= set(whole.statistics())


def test_what_a_single_agent_cannot_have_is_refused(small):
    with pytest.raises(ConfigError, match="extras need one action"):
        learner_of(small("ppo", "task=portfolio", "task.action=discrete", CURIOUS))
    config = small("ppo", "agent.extras.potential={kind:trend}", "features.names=[return_1]")
    with pytest.raises(ConfigError, match="needs the feature"):
        learner_of(config)


def test_rewards_are_measured_in_their_own_deviation():
    deviation = RewardDeviation()
    rewards = torch.randn(4, 50)
    for row in rewards:
        deviation.observe(row)
    assert deviation.value == pytest.approx(float(rewards.double().square().mean().sqrt()))
