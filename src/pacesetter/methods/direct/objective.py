"""What net returns of accounts are worth: the objectives of direct reinforcement."""

from __future__ import annotations

import math

import torch

__all__ = ["cushion_growth", "objective", "segment_scores"]

LEAST_LEFT = 1e-3  # share of a cushion at which an account has as good as touched its limit


def objective(returns: torch.Tensor, name: str, risk_aversion: float) -> torch.Tensor:
    """What net returns (segment, bar) of accounts are worth, per bar."""
    if name == "growth":
        return torch.log1p(returns).mean()
    if name == "mean_variance":
        return returns.mean() - 0.5 * risk_aversion * returns.var()
    # Pooled over segments: a ratio per segment of some forty bars would be noise. 1e-12: accounts may all be in cash.
    return returns.mean() / (returns.std() + 1e-12)


def cushion_growth(returns: torch.Tensor, peaks: torch.Tensor, limit: float) -> torch.Tensor:
    """(segment,) growth per bar of accounts that end at a drawdown `limit`, from the highest equity `peaks` before.

    With W equity, M its highest value and α = 1 − limit, it is that of (1 − α) · log(W − αM) + α · log M. New heights
    raise the limit with them, and the second term pays for it: what is left grows as log equity does without a limit,
    so that its best policy is Grossman's and Zhou's (1993), a multiple of the cushion W − αM. An account that keeps
    less than `LEAST_LEFT` of its cushion has ended.
    """
    kept = 1 - limit
    wealth = torch.cumprod(1 + returns, 1)
    highest = torch.maximum(peaks[:, None], torch.cummax(wealth, 1).values)
    share, first = (wealth - kept * highest) / highest, 1 / peaks - kept
    lowest, raised = share.amin(1), torch.log(highest[:, -1] / peaks)
    lived = limit * torch.log(share[:, -1].clamp_min(1e-12) / first) + raised
    # Below it, the more was lost the worse: with a gradient that leads back.
    ended = limit * (math.log(LEAST_LEFT) + (lowest / first - LEAST_LEFT))
    return torch.where(lowest > LEAST_LEFT * first, lived, ended) / returns.shape[1]


def segment_scores(
    returns: torch.Tensor, name: str, risk_aversion: float, around: torch.Tensor | None = None
) -> torch.Tensor:
    """(segment,) shares of the objective of returns (segment, bar); of a ratio by its influence function.

    around   returns whose mean and deviation it is taken at; these themselves where left out
    """
    if name == "growth":
        return torch.log1p(returns).mean(1)
    around = returns if around is None else around
    mean, deviation = around.mean(), around.std() + 1e-12
    if name == "mean_variance":
        return (returns - 0.5 * risk_aversion * (returns - mean).square()).mean(1)
    z, ratio = (returns - mean) / deviation, mean / deviation
    return ratio + (z - 0.5 * ratio * (z.square() - 1)).mean(1)
