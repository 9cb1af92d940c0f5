"""The strategy's step against quadratics, where it is known exactly."""

from __future__ import annotations

import torch

from pacesetter.methods.evolution.equations import centred_ranks, evolution_loss, standard_scores

SIGMA = 0.3


def scores_of(parameter: torch.Tensor, noise: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """(symbol, member) of F = −|θ − c|², with the mirrored members behind the others."""
    members = torch.cat([parameter + SIGMA * noise, parameter - SIGMA * noise])
    return -(members - centre).square().flatten(2).sum(2).T


def descended(parameter: torch.Tensor, noise: torch.Tensor, scores: torch.Tensor, is_shared: bool) -> torch.Tensor:
    """What the loss descends along, with the sign of an ascent."""
    parameter = parameter.clone().requires_grad_()
    evolution_loss(parameter, noise, scores, SIGMA, is_shared).sum().backward()  # type: ignore[no-untyped-call]
    assert parameter.grad is not None
    return -parameter.grad


def test_mirrored_pairs_project_the_gradient_of_a_quadratic_exactly() -> None:
    """(F⁺ − F⁻)/2σ is ε·∇F without any remainder, so that the step is the mean of ε εᵀ ∇F."""
    generator = torch.Generator().manual_seed(1)
    parameter, centre = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    noise = torch.randn(7, 3, 4, generator=generator, dtype=torch.float64)
    gradient = -2 * (parameter - centre)
    projected = torch.einsum("psi,psj,sj->si", noise, noise, gradient) / len(noise)
    step = descended(parameter, noise, scores_of(parameter, noise, centre), is_shared=False)
    torch.testing.assert_close(step, projected)


def test_orthogonal_noise_gives_the_smoothed_gradient_itself() -> None:
    """Rows of √n times an orthogonal matrix have mean ε εᵀ = I, and the smoothed quadratic has the same gradient."""
    parameter, centre = torch.tensor([[1.0, -2.0, 0.5, 3.0]]).double(), torch.tensor([[0.0, 1.0, 1.0, -1.0]]).double()
    q, _ = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(2)).double())
    noise = 2.0 * q[:, None]
    step = descended(parameter, noise, scores_of(parameter, noise, centre), is_shared=False)
    torch.testing.assert_close(step, -2 * (parameter - centre))


def test_the_mean_over_many_draws_is_the_smoothed_gradient() -> None:
    generator = torch.Generator().manual_seed(3)
    parameter, centre = torch.randn(2, 1, 3, generator=generator, dtype=torch.float64)
    noise = torch.randn(200_000, 1, 3, generator=generator, dtype=torch.float64)
    step = descended(parameter, noise, scores_of(parameter, noise, centre), is_shared=False)
    torch.testing.assert_close(step, -2 * (parameter - centre), rtol=0.03, atol=0.03)


def test_a_shared_parameter_moves_by_the_sum_over_symbols() -> None:
    generator = torch.Generator().manual_seed(4)
    parameter = torch.randn(5, generator=generator)
    noise, utilities = torch.randn(6, 5, generator=generator), torch.randn(3, 12, generator=generator)
    both = descended(parameter, noise, utilities, is_shared=True)
    each = [descended(parameter, noise, utilities[[symbol]], is_shared=True) for symbol in range(3)]
    torch.testing.assert_close(both, torch.stack(each).sum(0))


def test_ranks_are_centred_and_ties_share_theirs() -> None:
    scores = torch.tensor([[3.0, 1.0, 2.0, 100.0, 1.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
    expected = torch.tensor([[0.25, -0.375, 0.0, 0.5, -0.375], [0.0] * 5])
    torch.testing.assert_close(centred_ranks(scores), expected)
    assert torch.equal(standard_scores(scores)[1], torch.zeros(5))
    torch.testing.assert_close(standard_scores(scores).std(1), torch.tensor([1.0, 0.0]))
