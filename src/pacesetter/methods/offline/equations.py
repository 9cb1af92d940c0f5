"""Equations of offline learning as pure functions, rows on the first axis."""

from __future__ import annotations

import torch

__all__ = ["LARGEST_WEIGHT", "advantage_weights", "choice_penalty", "expectile_loss", "sampled_penalty"]

LARGEST_WEIGHT = 100.0  # of a row in advantage-weighted regression


def expectile_loss(errors: torch.Tensor, expectile: float) -> torch.Tensor:
    """(…,) |τ − 1(u < 0)|·u² of errors u = target − value (Kostrikov et al. 2022, eq. 5).

    The value that minimises its mean is the τ-expectile of the targets: their mean for ½, near their maximum for τ → 1.
    """
    weight = torch.where(errors < 0, 1 - expectile, expectile)
    return weight * errors.square()


def choice_penalty(values: torch.Tensor, actions: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """(row,) log Σ_a exp Q(s, a) − Q(s, a_data) of (row, action) values (Kumar et al. 2020, eq. 4).

    Its gradient by Q is softmax(Q) − one-hot(a_data); actions that the mask (row, action) forbids do not count.
    """
    allowed = values if mask is None else values.masked_fill(~(mask > 0.5), torch.finfo(values.dtype).min)
    return torch.logsumexp(allowed, -1) - values.gather(-1, actions.long()[:, None]).squeeze(-1)


def sampled_penalty(values: torch.Tensor, log_densities: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
    """(row,) log ∫ exp Q(s, a) da − Q(s, a_data), the integral by importance sampling (Kumar et al. 2020, app. F).

    values          (row, sample) of drawn actions       log_densities   (row, sample) with which they were drawn
    taken           (row,) of the action in the data
    """
    samples = torch.tensor(float(values.shape[-1]))
    return torch.logsumexp(values - log_densities, -1) - samples.log() - taken


def advantage_weights(advantages: torch.Tensor, inverse_temperature: float) -> torch.Tensor:
    """(…,) exp(β·A), at most 100 (Kostrikov et al. 2022, eq. 7)."""
    return (inverse_temperature * advantages).exp().clamp(max=LARGEST_WEIGHT)
