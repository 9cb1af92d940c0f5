"""The equations of offline learning against answers that are known without them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import expectile as scipy_expectile

from pacesetter.methods.offline.equations import (
    LARGEST_WEIGHT,
    advantage_weights,
    choice_penalty,
    expectile_loss,
    sampled_penalty,
)


def test_the_gradient_of_the_penalty_is_softmax_less_one_hot():
    torch.manual_seed(0)
    values = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    actions = torch.tensor([0, 3, 6, 2, 2])
    choice_penalty(values, actions).sum().backward()
    expected = values.detach().softmax(-1) - torch.nn.functional.one_hot(actions, 7)
    assert torch.allclose(values.grad, expected, atol=1e-12)


def test_a_forbidden_action_is_no_part_of_the_penalty():
    values = torch.tensor([[1.0, 2.0, 50.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False]])
    penalty = choice_penalty(values, torch.tensor([0]), mask)
    assert penalty.item() == pytest.approx(math.log(math.e + math.e**2) - 1, abs=1e-6)
    penalty.sum().backward()
    assert values.grad[0, 2] == 0


def test_the_sampled_penalty_is_the_integral():
    """∫ exp(c·a) da over [-1, 1] is 2·sinh(c)/c, whatever the actions were drawn from."""
    torch.manual_seed(0)
    slope = 1.5
    drawn = 2 * torch.rand(1, 200_000, dtype=torch.float64) - 1
    found = sampled_penalty(slope * drawn, torch.full_like(drawn, -math.log(2)), torch.tensor([0.3]))
    assert found.item() == pytest.approx(math.log(2 * math.sinh(slope) / slope) - 0.3, abs=0.01)
    triangle = 1 - torch.rand_like(drawn).sqrt()  # density 2·(1 − a) on [0, 1]
    both = torch.where(torch.rand_like(drawn) < 0.5, triangle, -triangle)
    density = (1 - both.abs()).clamp(min=1e-9)
    found = sampled_penalty(slope * both, density.log(), torch.tensor([0.3]))
    assert found.item() == pytest.approx(math.log(2 * math.sinh(slope) / slope) - 0.3, abs=0.02)


def minimiser(targets: torch.Tensor, expectile: float) -> float:
    value = targets.mean().clone().requires_grad_()
    optimiser = torch.optim.LBFGS([value], max_iter=100, tolerance_grad=1e-12, tolerance_change=1e-14)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        found = expectile_loss(targets - value, expectile).mean()
        found.backward()
        return found

    optimiser.step(loss)
    return float(value.detach())


def test_the_half_expectile_is_the_mean_and_the_last_one_the_maximum():
    targets = torch.tensor(np.random.default_rng(0).normal(size=50))
    assert minimiser(targets, 0.5) == pytest.approx(float(targets.mean()), abs=1e-9)
    assert minimiser(targets, 0.8) == pytest.approx(scipy_expectile(targets.numpy(), 0.8), abs=1e-6)
    assert minimiser(targets, 1 - 1e-6) == pytest.approx(float(targets.max()), abs=1e-3)


def test_weights_grow_with_the_advantage_up_to_a_limit():
    found = advantage_weights(torch.tensor([-1.0, 0.0, 1.0, 50.0]), 2.0)
    assert torch.allclose(found, torch.tensor([math.exp(-2), 1.0, math.exp(2), LARGEST_WEIGHT]))
