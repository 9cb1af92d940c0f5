"""Equations of options as pure functions: targets of semi-Markov decisions, and option-critic.

Q(s, o) is the value of being in s with option o about to give its order, V(s) = Σ_o π(o|s)·Q(s, o), β(s, o) the
probability that o ends on arrival in s, and on arrival

    U(s, o) = (1 − β)·Q(s, o) + β·(V(s) − c)            c is the deliberation cost of ending (Harb et al. 2018)
"""

from __future__ import annotations

import torch

__all__ = ["arrival_values", "option_advantages", "smdp_targets", "termination_loss"]


def smdp_targets(
    rewards: torch.Tensor, discounts: torch.Tensor, values: torch.Tensor, is_open: torch.Tensor
) -> torch.Tensor:
    """(row,) R + γ^d·max_o Q(s', o) over the options that may begin in s' (Sutton, Precup, Singh 1999, eq. 21).

    rewards     (row,) Σ_{i<d} γ^i·r_i of an option that lasted d bars
    discounts   (row,) γ^d, 0 after a termination           values, is_open   (row, option) of s'
    """
    # Finite, not −∞: after a termination the discount is 0, and 0 · ∞ would be NaN.
    lowest = torch.finfo(values.dtype).min
    return rewards + discounts * values.masked_fill(~is_open, lowest).amax(-1)


def arrival_values(
    values: torch.Tensor, probabilities: torch.Tensor, endings: torch.Tensor, option: torch.Tensor, cost: float
) -> torch.Tensor:
    """(…,) U(s, o) on arrival with `option` (…,); values and probabilities of the selector (…, option)."""
    own = values.gather(-1, option.unsqueeze(-1)).squeeze(-1)
    mean = (probabilities * values).sum(-1)
    return (1 - endings) * own + endings * (mean - cost)


def option_advantages(
    rewards: torch.Tensor,
    values: torch.Tensor,
    arrivals: torch.Tensor,
    began: torch.Tensor,
    ended: torch.Tensor,
    gamma: float,
    decay: float,
    cost: float,
) -> torch.Tensor:
    """(step, env) advantages G_t − Q(s_t, o_t) of the order given in s_t by the option in force.

    G_t = r_t + γ·((1 − λ)·U_tp1 + λ·(G_tp1 − c·[an option began in s_tp1])): as generalised advantages, which they are
    with one option and no cost.

    values     (step, env) Q(s_t, o_t)         arrivals   (step, env) U(s_tp1, o_t): 0 after a termination, and of the
               final observation after a truncation
    began      (step, env) whether o_t began in s_t      ended   where an episode ends with the step     decay   λ
    """
    advantages = torch.empty_like(rewards)
    following = arrivals[-1]  # what the path itself earns from the next state on: at the end of a rollout, U
    for t in reversed(range(len(rewards))):
        # Behind an end the next row is another episode: what arrived is all that is known.
        following = torch.where(ended[t], arrivals[t], following)
        returns = rewards[t] + gamma * ((1 - decay) * arrivals[t] + decay * following)
        advantages[t] = returns - values[t]
        # Charged to the option before, which ended here.
        following = returns - cost * began[t].to(returns)
    return advantages


def termination_loss(
    endings: torch.Tensor, values: torch.Tensor, probabilities: torch.Tensor, option: torch.Tensor, cost: float
) -> torch.Tensor:
    """(row,) β(s, o)·(Q(s, o) − V(s) + c), descended in β alone (Bacon, Harb, Precup 2017, theorem 2).

    endings   (row,) of the `option` (row,) that arrived in s     values, probabilities   (row, option), as they are
    """
    # Only β is moved: the gradient of the termination theorem holds advantages fixed.
    with torch.no_grad():
        own = values.gather(-1, option.unsqueeze(-1)).squeeze(-1)
        advantage = own - (probabilities * values).sum(-1) + cost
    return endings * advantage
