"""Fleet PPO with the advantages of every order: right for the order sent, zero on average, repeated bit-exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pacesetter.errors import ConfigError
from pacesetter.learning.equations import gae
from pacesetter.learning.fleet.expected import ExpectedPPO
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.learner import Between
from pacesetter.methods.master.learner import MasterPPO

Make = Callable[..., Any]


@pytest.fixture
def make_expected(make_learner: Make) -> Make:
    """A trainer as `make_learner` gives it, with the advantages of every order."""

    def make(**options: Any) -> FleetTrainer:
        made = make_learner(advantages="expected", **options)
        return FleetTrainer(ExpectedPPO(made.fleet, made.market, made.config))

    return make


def test_of_the_order_sent_it_knows_what_was_earned_and_seen(make_expected: Make) -> None:
    learner = make_expected(gamma=0.5, gae_lambda=0.0)
    method = learner.method
    rollout = method.collect(learner)
    data = method.prepare(rollout, learner)  # with the scale of rewards of this round
    log_probs, tried, values = (torch.stack(parts) for parts in zip(*method.considered, strict=True))
    sent = rollout.actions.unsqueeze(-1)
    torch.testing.assert_close(tried.gather(-1, sent).squeeze(-1), rollout.rewards)
    torch.testing.assert_close(log_probs.gather(-1, sent).squeeze(-1), rollout.log_probs)
    # the value of what followed is the next step's own, or that of the final observation where time was up
    finals = torch.where(rollout.truncated, 0.5 * method.final_values(rollout, learner), 0.0)
    following = torch.cat([0.5 * rollout.values[1:], torch.zeros_like(finals[:1])])
    known = values.gather(-1, sent).squeeze(-1)
    is_up = rollout.truncated
    torch.testing.assert_close(known[is_up], finals[is_up])
    torch.testing.assert_close(known[:-1][~is_up[:-1]], following[:-1][~is_up[:-1]])
    assert int(is_up.sum()) == 12
    assert data["advantages"].shape == (4, 48, 7)


def test_advantages_are_zero_on_average_and_of_one_size_in_each_symbol(make_expected: Make) -> None:
    learner = make_expected()
    data = learner.method.prepare(learner.method.collect(learner), learner)
    weights, advantages = data["log_probs"].exp(), data["advantages"]
    torch.testing.assert_close((weights * advantages).sum(-1), torch.zeros(4, 48), atol=1e-4, rtol=0)
    size = (weights * advantages**2).sum(-1).mean(1).sqrt()
    torch.testing.assert_close(size, torch.ones(4), atol=1e-3, rtol=0)
    assert (data["remainders"] != 0).any()


def test_targets_average_the_first_step_over_orders(make_expected: Make) -> None:
    learner = make_expected(gamma=0.5, gae_lambda=0.6)
    method = learner.method
    rollout = method.collect(learner)
    data = method.prepare(rollout, learner)
    log_probs, tried, values = (torch.stack(parts) for parts in zip(*method.considered, strict=True))
    scaled = method.scale(tried.view(len(tried), 4, -1)).view_as(tried)
    means = (log_probs.exp() * (scaled + values)).sum(-1)
    ended = rollout.terminated | rollout.truncated
    totals = gae(means, rollout.values, torch.zeros_like(means), ended, 0.3)
    expected = (totals + rollout.values).view(16, 4, 3).transpose(0, 1).flatten(1)
    torch.testing.assert_close(data["targets"], expected)


def test_it_repeats_and_resumes_to_the_bit(make_expected: Make, tmp_path: Path) -> None:
    whole = make_expected()
    whole.learn(3 * 48, Between(lambda: whole.save(tmp_path) and None if whole.steps == 48 else None))
    resumed = make_expected(seed=0)
    resumed.load(tmp_path)
    resumed.learn(3 * 48)
    assert whole.weights_hash() == resumed.weights_hash()
    assert torch.isfinite(whole.statistics()["divergence"]).all()


def test_markets_without_discrete_orders_are_refused(make_learner: Make) -> None:
    made = make_learner("target")
    with pytest.raises(ConfigError, match=r"give task.action=discrete, or agent.advantages=sampled"):
        ExpectedPPO(made.fleet, made.market, made.config)
    with pytest.raises(ConfigError, match="task=master has no discrete orders to try"):
        MasterPPO(advantages="expected")
