"""Equations of evolution strategies as pure functions: utilities of scores, and the loss whose gradient is the step."""

from __future__ import annotations

import torch

__all__ = ["centred_ranks", "evolution_loss", "standard_scores"]


def centred_ranks(scores: torch.Tensor) -> torch.Tensor:
    """(…, member) ranks from −½ to ½, so that one lucky member counts no more than the best; ties share a rank.

    Fitness shaping of Salimans et al. (2017, section 2.1). Members that are all alike have 0: they say nothing.
    """
    above = (scores.unsqueeze(-1) > scores.unsqueeze(-2)).sum(-1)
    ties = (scores.unsqueeze(-1) == scores.unsqueeze(-2)).sum(-1) - 1
    return (above + 0.5 * ties) / (scores.shape[-1] - 1) - 0.5


def standard_scores(scores: torch.Tensor) -> torch.Tensor:
    """(…, member) scores less their mean, in their deviations; 0 where they do not vary."""
    centred = scores - scores.mean(-1, keepdim=True)
    deviation = scores.std(-1, keepdim=True)
    return torch.where(deviation > 0, centred / deviation.clamp(min=1e-12), 0.0)


def evolution_loss(
    parameter: torch.Tensor, noise: torch.Tensor, utilities: torch.Tensor, sigma: float, is_shared: bool
) -> torch.Tensor:
    """(symbol,) losses whose gradient by the parameter is the strategy's step with the sign turned.

    ∇ E F(θ + σε) ≈ 1/(2nσ)·Σ_i (F_i⁺ − F_i⁻)·ε_i of n mirrored pairs (Salimans et al. 2017, eq. 1 and section 2.1).

    parameter   θ: of all symbols where it `is_shared`, else (symbol, …)
    noise       ε (pair, *θ)
    utilities   F (symbol, member) of θ + σε in the first half of the members and θ − σε in the second
    """
    # Linear in the parameter: its gradient is the estimate itself, so clipping, freezing and Adam apply as to any loss.
    pairs = len(noise)
    better = utilities[:, :pairs] - utilities[:, pairs:]  # (symbol, pair)
    if is_shared:
        along = noise.flatten(1) @ parameter.flatten()  # (pair,)
        return -(better @ along) / (2 * pairs * sigma)
    along = (noise * parameter).flatten(2).sum(2)  # (pair, symbol)
    return -(better * along.T).sum(1) / (2 * pairs * sigma)
