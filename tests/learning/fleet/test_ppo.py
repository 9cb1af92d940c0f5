"""Fleet PPO: repeatable, resumed bit-exactly, right at time limits, and each symbol on its own.

Runs `learning.fleet.trainer`, `learning.fleet.clock`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.learner import Between

Make = Callable[..., Any]


def weights(learner: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.fleet.state_dict().items()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("action", ["discrete", "continuous"])
def test_a_run_repeats_and_resumes_to_the_bit(action: str, make_learner: Make, tmp_path: Path) -> None:
    whole = make_learner(action)
    whole.learn(3 * 48, Between(lambda: whole.save(tmp_path) and None if whole.steps == 48 else None))
    again = make_learner(action)
    again.learn(3 * 48)
    assert_same(weights(whole), weights(again))
    torch.manual_seed(99)
    resumed = make_learner(action, seed=0)
    resumed.load(tmp_path)
    assert resumed.steps == 48
    resumed.learn(3 * 48)
    assert_same(weights(whole), weights(resumed))


def test_another_run_is_not_resumed(make_learner: Make, tmp_path: Path) -> None:
    make_learner().save(tmp_path)
    with pytest.raises(RunError, match="was stored with config="):
        make_learner(n_epochs=1).load(tmp_path)


def test_what_is_raised_between_rounds_ends_learning_there(make_learner: Make) -> None:
    learner = make_learner()

    def between() -> None:
        if learner.steps == 96:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(10_000, Between(between))
    assert learner.steps == 96


def test_a_time_limit_is_bootstrapped_from_the_final_observation(make_learner: Make) -> None:
    learner = make_learner(gamma=0.5, gae_lambda=0.0)
    rollout = learner.method.collect(learner)
    data = learner.method.prepare(rollout, learner)
    assert rollout.truncated.sum() == 12  # every environment once in 16 steps
    t, e = (int(place[0]) for place in torch.nonzero(rollout.truncated, as_tuple=True))
    final = {name: entry[t, e][None].repeat(12, *[1] * (entry.ndim - 2)) for name, entry in rollout.finals.items()}
    value = learner.fleet.value(learner.features(final)).view(4, 3)[e // 3, 0]
    scaled = (rollout.rewards[t, e] / learner.method.scale.variance.sqrt()[e // 3]).float()
    target = data["targets"][e // 3, t * 3 + e % 3]
    torch.testing.assert_close(target, scaled + 0.5 * value)
    following = data["targets"][e // 3, (t - 1) * 3 + e % 3]
    scaled = (rollout.rewards[t - 1, e] / learner.method.scale.variance.sqrt()[e // 3]).float()
    torch.testing.assert_close(following, scaled + 0.5 * rollout.values[t, e])


def test_nothing_follows_a_termination(make_learner: Make) -> None:
    learner = make_learner(gae_lambda=0.0)
    rollout = learner.method.collect(learner)
    rollout.terminated[3, 5], rollout.truncated[3, 5] = True, False
    data = learner.method.prepare(rollout, learner)
    scaled = (rollout.rewards[3, 5] / learner.method.scale.variance.sqrt()[1]).float()
    torch.testing.assert_close(data["targets"][1, 3 * 3 + 2], scaled)


def test_advantages_are_standardised_within_each_symbol(make_learner: Make) -> None:
    learner = make_learner()
    gains = learner.method.prepare(learner.method.collect(learner), learner)["advantages"]
    torch.testing.assert_close(gains.mean(1), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(gains.std(1), torch.ones(4), atol=1e-4, rtol=0)


def test_frozen_and_absent_symbols_keep_their_heads_and_moments(make_learner: Make) -> None:
    learner = make_learner(symbols=("S3", "S0", "X", "S1", "S2"))
    learner.fleet.freeze(["S1"])
    before = weights(learner)
    learner.learn(48)
    for name in ("actor.first.weight", "critic.last.bias"):
        moved = (learner.fleet.state_dict()[name] != before[name]).flatten(1).any(1)
        assert moved.tolist() == [True, True, False, False, True], name
    moments = learner.head_optimiser.state[learner.fleet.actor.first.weight]
    assert moments["steps"].tolist() == [8, 8, 0, 0, 8]
    assert (moments["square"].flatten(1).sum(1) > 0).tolist() == [True, True, False, False, True]


def test_a_frozen_encoder_keeps_weights_and_normaliser(make_learner: Make) -> None:
    learner = make_learner()
    learner.learn(48)
    learner.fleet.freeze_encoder()
    learner.fleet.encoder.normaliser.commit()
    before = weights(learner)
    learner.learn(96)
    after = weights(learner)
    assert_same({name: before[name] for name in before if name.startswith("encoder.")}, after)
    assert not torch.equal(before["actor.first.weight"], after["actor.first.weight"])


def test_a_symbol_that_moved_too_far_stops_alone(make_learner: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make_learner(target_kl=0.01)
    genuine = learner.fleet.decide

    def far(*given: Any) -> Any:
        policy, values = genuine(*given)
        shift = torch.tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(24)
        monkeypatch.setattr(policy, "log_prob", lambda actions: type(policy).log_prob(policy, actions) + shift)
        return policy, values

    rollout = learner.method.collect(learner)
    monkeypatch.setattr(learner.method, "collect", lambda acting: rollout)
    learner._records, learner._report = [], lambda watcher: None
    monkeypatch.setattr(learner.fleet, "decide", far)
    before = weights(learner)["actor.first.weight"]
    learner.learn(48)
    moved = (learner.fleet.actor.first.weight != before).flatten(1).any(1)
    assert moved.tolist() == [True, False, True, True]


@pytest.fixture
def _plain_kernels() -> Iterator[None]:
    """Without oneDNN, whose bfloat16 needs instructions that not every machine allows."""
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(True)


@pytest.mark.usefixtures("_plain_kernels")
def test_bfloat16_stays_close_to_float32(make_learner: Make) -> None:
    exact, rough = make_learner(), make_learner(precision="bfloat16")
    batch = next(exact.method.batches(exact.method.collect(exact), exact))
    found = []
    for learner in (exact, rough):
        terms = learner.method.losses(batch, learner.features(batch.observation), learner).terms
        found.append(sum(terms.values()))
    torch.testing.assert_close(found[0], found[1], atol=0.02, rtol=0.02)
    assert not torch.equal(found[0], found[1])
    sum(losses.sum() for losses in found).backward()
    gradients = [learner.fleet.encoder.embed.weight.grad.flatten() for learner in (exact, rough)]
    assert torch.nn.functional.cosine_similarity(*gradients, dim=0) > 0.99


def test_options_that_do_not_fit_are_refused(make_learner: Make) -> None:
    with pytest.raises(ConfigError, match="batch_size=7 does not divide the 48 rows"):
        make_learner(batch_size=7)
    with pytest.raises(ConfigError, match="learning_rate=-1"):
        make_learner(learning_rate=-1.0)
    with pytest.raises(ConfigError, match="no agent for 'S0'"):
        make_learner(symbols=("A", "B"))
