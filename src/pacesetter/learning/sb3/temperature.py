"""Actions of a Stable-Baselines3 policy at a temperature: its distribution, spread wider or narrower, is sampled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticPolicy

from pacesetter.agents.agent import ACTION_MASK, Observation
from pacesetter.arrays import Array
from pacesetter.learning.sb3.algorithms import AlgorithmAgent

__all__ = ["sample_at"]


@torch.no_grad()
def sample_at(agent: AlgorithmAgent, observation: Observation, temperature: float) -> Array:
    """(env, …) actions drawn with densities to the power 1 / temperature.

    A policy whose distribution is not at hand, recurrent or deterministic, is sampled as it is.
    """
    policy: Any = agent.algorithm.policy
    known: Any = agent.algorithm.observation_space
    tensors, _ = policy.obs_to_tensor({name: entry for name, entry in observation.items() if name in known.spaces})
    if isinstance(policy, ActorCriticPolicy) and not hasattr(policy, "lstm_actor"):
        drawn = _draw_tempered(_distributions(policy, tensors, observation, agent.masked), temperature)
        return agent.stretch(_clip_actions(policy, drawn))
    if hasattr(getattr(policy, "actor", None), "get_action_dist_params"):
        mean, log_deviation, _ = policy.actor.get_action_dist_params(tensors)
        # A density to the power 1/T is a Gaussian of variance T·σ².
        scale = log_deviation.exp() * math.sqrt(temperature)
        squashed = torch.tanh(mean + scale * torch.randn_like(mean)).cpu().numpy()
        return agent.stretch(np.asarray(policy.unscale_action(squashed)))
    return agent.act(observation, deterministic=False)


def _distributions(policy: Any, tensors: Any, observation: Observation, is_masked: bool) -> list[Any]:
    options = {"action_masks": observation[ACTION_MASK]} if is_masked and ACTION_MASK in observation else {}
    distribution = policy.get_distribution(tensors, **options)
    parts = getattr(distribution, "distributions", None) or distribution.distribution
    return list(parts) if isinstance(parts, (list, tuple)) else [parts]


def _draw_tempered(parts: list[Any], temperature: float) -> torch.Tensor:
    first = parts[0]
    if isinstance(first, torch.distributions.Categorical):
        hot: list[Any] = [torch.distributions.Categorical(logits=part.logits / temperature) for part in parts]
        drawn: list[torch.Tensor] = [part.sample() for part in hot]
        return drawn[0] if len(drawn) == 1 else torch.stack(drawn, dim=1)
    return torch.normal(first.mean, first.stddev * math.sqrt(temperature))


def _clip_actions(policy: Any, actions: torch.Tensor) -> Array:
    result, space = actions.cpu().numpy(), policy.action_space
    return np.clip(result, space.low, space.high) if hasattr(space, "low") else result
