"""Distributions against torch's and against numerical integration; masks; sizes of the heads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.agents.heads import ContinuousActor, Critic, DiscreteActor, MaskedCategorical, TanhGaussian


def test_without_a_mask_it_is_torch_categorical() -> None:
    logits, action = torch.randn(5, 7), torch.arange(5)
    ours, theirs = MaskedCategorical(logits), torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.booleans(), min_size=7, max_size=7).filter(any), st.integers(0, 99))
def test_masked_actions_have_probability_exactly_zero(allowed: list[bool], seed: int) -> None:
    torch.manual_seed(seed)
    logits = (20 * torch.randn(64, 7)).requires_grad_()
    mask = torch.tensor(allowed).expand(64, 7)
    policy = MaskedCategorical(logits, mask.float())
    assert (policy.probabilities[~mask] == 0).all()
    torch.testing.assert_close(policy.probabilities.sum(-1), torch.ones(64))
    assert mask[0][policy.sample()].all()
    assert mask[0][policy.mode()].all()
    (policy.entropy().sum() + policy.log_prob(policy.mode()).sum()).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert (logits.grad[~mask] == 0).all()


def make_squashed(mean: float, log_deviation: float) -> TanhGaussian:
    return TanhGaussian(torch.tensor([mean], dtype=torch.float64), torch.tensor([log_deviation], dtype=torch.float64))


@pytest.mark.parametrize(("mean", "log_deviation"), [(0.0, -1.0), (0.7, -0.5), (-1.5, 0.0)])
def test_density_integrates_to_one_and_gives_its_own_entropy(mean: float, log_deviation: float) -> None:
    policy = make_squashed(mean, log_deviation)
    u = np.linspace(-7, 7, 200_001)  # actions dense towards ±1
    actions = np.tanh(u)
    log_density = policy.log_prob(torch.as_tensor(actions)[:, None]).numpy()
    density = np.exp(log_density)
    assert np.trapezoid(density, actions) == pytest.approx(1.0, abs=1e-4)
    assert float(policy.entropy()) == pytest.approx(-np.trapezoid(density * log_density, actions), abs=1e-3)


def test_log_prob_equals_torch_transformed_distribution() -> None:
    mean, log_deviation = torch.randn(50, 3), torch.randn(50, 3)
    squash = torch.distributions.transforms.TanhTransform(cache_size=1)
    theirs = torch.distributions.TransformedDistribution(torch.distributions.Normal(mean, log_deviation.exp()), squash)
    action = 0.99 * torch.rand(50, 3).mul(2).sub(1)
    expected = theirs.log_prob(action).sum(-1)
    torch.testing.assert_close(TanhGaussian(mean, log_deviation).log_prob(action), expected, rtol=1e-4, atol=1e-3)


def test_samples_stay_in_the_box_and_edges_are_finite() -> None:
    policy = TanhGaussian(torch.full((1000, 1), 3.0), torch.full((1000, 1), 1.0))
    action = policy.sample()
    assert action.abs().max() <= 1
    assert policy.log_prob(action).isfinite().all()
    assert policy.log_prob(torch.ones(1000, 1)).isfinite().all()
    assert torch.equal(policy.mode(), torch.full((1000, 1), 3.0).tanh())


def test_gradients_are_right() -> None:
    mean, log_deviation = (torch.randn(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    action = torch.rand(3, 2, dtype=torch.float64).sub(0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda m, s, a: TanhGaussian(m, s).log_prob(a), (mean, log_deviation, action))
    assert torch.autograd.gradcheck(lambda m, s: TanhGaussian(m, s).entropy(), (mean, log_deviation))
    mask = torch.tensor([True, False])
    assert torch.autograd.gradcheck(lambda x: MaskedCategorical(x, mask).entropy(), (mean,))


def test_a_fresh_policy_is_nearly_uniform() -> None:
    features = torch.randn(200, 256)
    torch.testing.assert_close(
        DiscreteActor(256, 7)(features).probabilities, torch.full((200, 7), 1 / 7), atol=0.01, rtol=0
    )
    assert ContinuousActor(256)(features).mode().abs().max() < 0.1
    assert Critic(256)(features).shape == (200,)


def test_the_entropy_of_masked_actions_has_a_finite_gradient_whatever_it_is_multiplied_by() -> None:
    logits = torch.zeros(1, 3, requires_grad=True)
    policy = MaskedCategorical(logits, torch.tensor([[1.0, 1.0, 0.0]]))
    (1e3 * policy.entropy()).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    torch.testing.assert_close(policy.entropy(), torch.tensor([2.0]).log())
