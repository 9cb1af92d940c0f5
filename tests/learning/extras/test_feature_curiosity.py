"""Curiosity on given features: the models learn, the reward is in deviations, the warm-up waits, the gates tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pacesetter.errors import ConfigError
from pacesetter.learning.extras.curiosity import CuriosityConfig, CuriosityGates, make_curiosity
from pacesetter.learning.extras.extra import Surroundings
from pacesetter.learning.extras.feature_curiosity import FeatureCuriosity


def transitions(actions: int | None, rows: int = 256) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features that an action moves in a way one can learn, with noise in the first half of the rows only."""
    features = torch.randn(rows, 6)
    taken = torch.randint(actions, (rows,)) if actions else 2 * torch.rand(rows, 1) - 1
    following = 0.5 * features + (taken.float().view(rows, 1) if actions is None else taken[:, None] / actions)
    following[: rows // 2] += torch.randn(rows // 2, 6)
    return features, taken, following


@pytest.mark.parametrize("actions", [3, None])
def test_both_losses_fall_and_the_unforeseen_is_worth_more(actions: int | None) -> None:
    torch.manual_seed(0)
    curiosity = FeatureCuriosity(6, actions, CuriosityConfig(hidden=32, learning_rate=1e-2))
    for _ in range(80):
        seen = transitions(actions)
        curiosity.fit(*seen)
        reward = curiosity.intrinsic(*seen)
    assert reward[:128].mean() > reward[128:].mean() + 1
    assert reward.abs().max() <= 5
    gates = curiosity.gates()
    assert gates.passed
    assert str(gates).endswith("passed")


def test_rewards_are_standardised_by_all_errors_so_far() -> None:
    torch.manual_seed(0)
    curiosity = FeatureCuriosity(6, 3, CuriosityConfig())
    parts = [transitions(3), transitions(3)]
    errors = torch.cat([curiosity.prediction_errors(*part) for part in parts]).detach().double()
    curiosity.intrinsic(*parts[0])
    found = curiosity.intrinsic(*parts[1])
    wanted = (errors[256:] - errors.mean()) / errors.std(unbiased=False)
    torch.testing.assert_close(found.double(), wanted.clamp(-5, 5), rtol=1e-4, atol=1e-4)


def test_the_mix_begins_after_the_warm_up() -> None:
    curiosity = FeatureCuriosity(6, 3, CuriosityConfig(warmup_steps=100))
    market, own = torch.tensor([1.0]), torch.tensor([-5.0])
    assert curiosity.mix(market, own, 99).tolist() == [1.0]
    torch.testing.assert_close(curiosity.mix(market, own, 100), torch.tensor([0.4]))


def test_gates_fail_where_a_loss_rises_or_errors_are_alike() -> None:
    assert not CuriosityGates((1.0, 1.1), (1.0, 0.5), 1.0).passed
    assert not CuriosityGates((1.0, 0.5), (1.0, 0.5), 0.2).passed
    with pytest.raises(ConfigError, match="is not trained yet"):
        make_curiosity(Surroundings(6, 3), CuriosityConfig(model="features")).gates()


def test_a_fleet_with_curiosity_learns_from_mixed_rewards(make_learner: Callable[..., Any]) -> None:
    plain, curious = make_learner(), make_learner(extras={"curiosity": {"model": "features", "warmup_steps": 0}})
    learners = (plain, curious)
    rollouts = [learner.method.collect(learner) for learner in learners]
    both = zip(learners, rollouts, strict=True)
    targets = [learner.method.prepare(rollout, learner)["targets"] for learner, rollout in both]
    assert rollouts[0].features.shape[-1] == 0
    assert not torch.allclose(*targets)
    assert len(curious.extras["curiosity"].log) == 1
