"""Rollouts of a policy in all environments, and the values of what it saw when time was up: of PPO and of IMPALA."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.heads import Distribution
from pacesetter.learning.experience.rollout import Rollout, by_symbol, select

if TYPE_CHECKING:
    from pacesetter.learning.fleet.method import Agents, Featuring, Stepping

__all__ = ["play_rollout", "values_at_ends"]

ActingT = TypeVar("ActingT", bound="Stepping")


@torch.no_grad()
def play_rollout(
    fleet: Agents,
    rows: torch.Tensor | None,
    acting: ActingT,
    steps: int,
    consider: Callable[[Distribution, ActingT], None],
) -> Rollout:
    """So many steps of all environments; `consider` is called before each with the policy that has just chosen."""
    played = []
    for _ in range(steps):
        observation = acting.observation
        features = acting.features(observation)
        policy, values = fleet.decide(features, observation.get(ACTION_MASK), rows)
        actions = policy.sample()
        log_probs, entropies = policy.log_prob(actions), policy.entropy()
        # Before the step: what it tries is tried in the state that the policy has just seen.
        consider(policy, acting)
        step = acting.step_environments(actions, log_probs)
        if not acting.extras:
            # Only extras read them: features of a whole rollout would outweigh all else that is kept.
            features = features[:, :0]
        acted = (observation, actions, log_probs, values, entropies, features)
        outcome = (step.rewards, step.returns, step.terminated, step.truncated, step.finals, step.objectives)
        played.append(Rollout(*acted, *outcome))
    return Rollout.stack(played)


@torch.no_grad()
def values_at_ends(
    rollout: Rollout, fleet: Agents, rows: torch.Tensor | None, acting: Featuring, symbols: int
) -> torch.Tensor:
    """(step, env) values of the observations at which time was up; 0 elsewhere.

    Symbols have different numbers of them: those that were up come first, as many at a time as environments.
    """
    is_up = by_symbol(rollout.truncated, symbols)  # (symbol, step · env)
    finals = {name: by_symbol(entry, symbols) for name, entry in rollout.finals.items()}
    # Stable: equal keys keep their order on every device, so that CPU and GPU put the same rows together.
    first_up = is_up.byte().argsort(dim=1, descending=True, stable=True)
    values = torch.zeros(is_up.shape, device=is_up.device)
    envs_each = rollout.truncated.shape[1] // symbols
    for start in range(0, int(is_up.sum(1).max()), envs_each):
        chosen = first_up[:, start : start + envs_each]  # (symbol, envs_each)
        final = fleet.value(acting.features(select(finals, chosen)), rows)
        values.scatter_(1, chosen, final.view_as(chosen))
    steps = (symbols, len(rollout.truncated), -1)
    return torch.where(is_up, values, 0.0).view(steps).transpose(0, 1).flatten(1)
