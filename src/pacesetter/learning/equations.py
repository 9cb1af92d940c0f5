"""Equations of reinforcement learning as pure functions: no network, no environment, one equation each.

Time is the first axis, (step, env); what the paper calls t+1 is `_tp1` here. `ended` is True where an episode ends with
the step, by time or by ruin, so that nothing is carried over it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

__all__ = [
    "ExpectedAdvantages",
    "VTrace",
    "clipped_surrogate",
    "expected_advantages",
    "expected_surrogate",
    "gae",
    "n_step_returns",
    "returns_to_go",
    "shaping",
    "soft_update",
    "vtrace",
]

LARGEST_LOG_RATIO = 20.0  # e²⁰ is far outside any clip range, and far below what float32 holds


def gae(
    rewards: torch.Tensor, values: torch.Tensor, next_values: torch.Tensor, ended: torch.Tensor, decay: float
) -> torch.Tensor:
    """(step, env) generalised advantages (Schulman et al. 2016, eq. 16): A_t = δ_t + γλ·A_tp1 within an episode.

    δ_t = r_t + v'_t − v_t, where `next_values` v'_t are γ·V(x_tp1) already: 0 after a termination, and of the final
    observation after a truncation. `decay` is γλ.
    """
    deltas = rewards + next_values - values
    advantages = torch.empty_like(deltas)
    a_tp1 = torch.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        # torch.where, not a product with the mask: what follows an end may be NaN, and 0 · NaN is NaN.
        a_tp1 = deltas[t] + decay * torch.where(ended[t], 0.0, a_tp1)
        advantages[t] = a_tp1
    return advantages


class ExpectedAdvantages(NamedTuple):
    """What PPO learns from when the result of every action is known.

    advantages   (step, env, action) Q(x, a) − Σ_b π(b)·Q(x, b), which need no sampled action
    remainders   (step, env) what only the sampled path tells of the action taken
    targets      (step, env) of the values
    """

    advantages: torch.Tensor
    remainders: torch.Tensor
    targets: torch.Tensor


def expected_advantages(
    action_values: torch.Tensor,
    probabilities: torch.Tensor,
    values: torch.Tensor,
    bonus: torch.Tensor,
    ended: torch.Tensor,
    decay: float,
) -> ExpectedAdvantages:
    """All-action advantages (Sutton et al. 2001; Ciosek, Whiteson 2020) with the rest of GAE by the sampled path.

    `action_values` are Q(x_t, a) = r_a + γ·V(x'_a) of every action (step, env, action), `probabilities` those of the
    policy that acted, `bonus` (step, env) rewards that are known of the action taken alone, and `decay` is γλ.
    GAE's δ_t is replaced by its mean over actions: A_t = Σ_a π(a)·Q(x_t, a) + b_t − V(x_t) + γλ·A_tp1, the target is
    V(x_t) + A_t, and b_t + γλ·A_tp1 is left to the action that was taken.
    """
    means = (probabilities * action_values).sum(-1)
    # Next values of 0: γ·V(x') is inside Q(x, a) already.
    totals = gae(means + bonus, values, torch.zeros_like(values), ended, decay)
    # Behind the rollout nothing is known but V, which Q of the last step holds.
    following = torch.cat([totals[1:], torch.zeros_like(totals[:1])])
    remainders = bonus + decay * torch.where(ended, 0.0, following)
    return ExpectedAdvantages(action_values - means.unsqueeze(-1), remainders, totals + values)


def clipped_surrogate(log_ratios: torch.Tensor, advantages: torch.Tensor, clip: float) -> torch.Tensor:
    """min(ρ·A, clip(ρ, 1 ± ε)·A) of ratios ρ = π/π_old (Schulman et al. 2017, eq. 7), in any shape."""
    # A ratio that overflows makes all gradients NaN, also where the clipped side is taken: 0 · ∞.
    ratios = log_ratios.clamp(max=LARGEST_LOG_RATIO).exp()
    # The minimum is a lower bound: clipping takes the gain of going too far away, never the way back.
    return torch.minimum(ratios * advantages, ratios.clamp(1 - clip, 1 + clip) * advantages)


def expected_surrogate(
    log_probs: torch.Tensor, old_log_probs: torch.Tensor, advantages: torch.Tensor, clip: float
) -> torch.Tensor:
    """(…,) the mean of `clipped_surrogate` over actions (…, action) of the old policy: no action is sampled.

    Without clipping it is Σ_a π(a)·A(a); with it, its gradient is the mean of PPO's own at every policy, not only at
    the old one. An action that the old policy never takes counts nothing.
    """
    surrogate = clipped_surrogate(log_probs - old_log_probs, advantages, clip)
    return (old_log_probs.exp() * surrogate).sum(-1)


def n_step_returns(
    rewards: torch.Tensor, next_values: torch.Tensor, ended: torch.Tensor, gamma: float, n: int
) -> torch.Tensor:
    """(step, env) returns G_t = Σ_{i<m} γ^i·r_{t+i} + γ^{m−1}·v'_{t+m−1} (Sutton, Barto 2018, eq. 7.1).

    m is n, or fewer where the episode or the rollout ends first. `next_values` v' are γ·V(x_tp1) as in `gae`.
    """
    returns = torch.empty_like(rewards)
    for t in range(len(rewards)):
        is_over = torch.zeros_like(ended[t])
        total, weight = torch.zeros_like(rewards[t]), 1.0
        for i in range(t, min(t + n, len(rewards))):
            # Bootstrapped once, at the last reward that counts; a termination has v' = 0 there.
            is_last = (ended[i] | (i == min(t + n, len(rewards)) - 1)) & ~is_over
            gained = rewards[i] + torch.where(is_last, next_values[i], 0.0)
            total = total + torch.where(is_over, 0.0, weight * gained)
            is_over = is_over | ended[i]
            weight *= gamma
        returns[t] = total
    return returns


def returns_to_go(rewards: torch.Tensor, next_values: torch.Tensor, ended: torch.Tensor, gamma: float) -> torch.Tensor:
    """(step, env) R_t = r_t + γ·R_tp1 within an episode; where it or the rollout ends, R_t = r_t + v'_t as in `gae`."""
    returns = torch.empty_like(rewards)
    # True for the step visited first, the rollout's last one, which bootstraps though no episode ends.
    is_last = torch.ones_like(ended[0])
    for t in reversed(range(len(rewards))):
        following = next_values[t] if t + 1 == len(rewards) else gamma * returns[t + 1]
        returns[t] = rewards[t] + torch.where(ended[t] | is_last, next_values[t], following)
        is_last = torch.zeros_like(is_last)
    return returns


class VTrace(NamedTuple):
    """`values` v_s (step, env), the critic's targets; `advantages` ρ_s(r_s + γ·v_{s+1} − V(x_s)), the actor's."""

    values: torch.Tensor
    advantages: torch.Tensor


def vtrace(
    log_ratios: torch.Tensor,
    rewards: torch.Tensor,
    values: torch.Tensor,
    next_values: torch.Tensor,
    ended: torch.Tensor,
    gamma: float,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> VTrace:
    """V-trace targets (Espeholt et al. 2018, eq. 1): v_s = V(x_s) + Σ_t γ^{t−s}(Π_{i<t} c_i)·δ_t within an episode.

    ρ_t = min(ρ̄, π/μ) and c_t = min(c̄, π/μ) of the `log_ratios` log π − log μ; δ_t = ρ_t(r_t + v'_t − V(x_t)), where
    `next_values` v'_t are γ·V(x_tp1) as in `gae`. All inputs are (step, env).
    """
    ratios = log_ratios.exp()
    # ρ̄ decides what is converged to, c̄ only how fast corrections travel back (section 4.1 of the paper).
    rho, c = ratios.clamp(max=rho_bar), ratios.clamp(max=c_bar)
    deltas = rho * (rewards + next_values - values)
    corrections = torch.empty_like(deltas)  # v_s − V(x_s), by the recursion of the paper's remark 1
    tail = torch.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        tail = deltas[t] + gamma * c[t] * torch.where(ended[t], 0.0, tail)
        corrections[t] = tail
    # γ·v_{s+1} is γ·V(x_{s+1}) with its own correction, which ends with the episode and with the rollout
    after = torch.cat([corrections[1:], torch.zeros_like(corrections[:1])])
    targets_tp1 = next_values + gamma * torch.where(ended, 0.0, after)
    return VTrace(values + corrections, rho * (rewards + targets_tp1 - values))


def shaping(
    potentials: torch.Tensor, next_potentials: torch.Tensor, terminated: torch.Tensor, gamma: float
) -> torch.Tensor:
    """(row,) F = γ·Φ'(s') − Φ(s) (Ng, Harada, Russell 1999), which leaves the optimal policies as they are.

    Φ of a terminal state is 0; a truncated episode keeps γ·Φ'(s'). A weight that changes over time belongs inside both
    potentials, w·Φ(s) and w'·Φ'(s') (Devlin, Kudenko 2012).
    """
    return gamma * torch.where(terminated, 0.0, next_potentials) - potentials


@torch.no_grad()
def soft_update(targets: nn.Module, sources: nn.Module, tau: float) -> None:
    """θ' ← θ' + τ(θ − θ') (Lillicrap et al. 2016, algorithm 1)."""
    for target, source in zip(targets.parameters(), sources.parameters(), strict=True):
        # lerp instead of two products: exact where both are equal.
        target.lerp_(source, tau)
