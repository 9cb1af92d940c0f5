"""Actions of a Stable-Baselines3 policy at a temperature: its distribution, spread wider or narrower, is sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.sac.policies import SACPolicy

from pacesetter.agents.agent import ACTION_MASK, Observation
from pacesetter.arrays import Array
from pacesetter.learning.sb3.algorithms import AlgorithmAgent

__all__ = ["sample_at"]


@torch.no_grad()
def sample_at(agent: AlgorithmAgent, observation: Observation, temperature: float) -> Array:
    """(env, …) actions drawn with densities to the power 1 / temperature.

    A policy whose distribution is not at hand, recurrent or deterministic, is sampled as it is.
    """
    policy, known = agent.algorithm.policy, agent.algorithm.observation_space
    assert isinstance(known, spaces.Dict)
    tensors, _ = policy.obs_to_tensor({name: entry for name, entry in observation.items() if name in known.spaces})
    if isinstance(policy, ActorCriticPolicy) and not isinstance(policy, RecurrentActorCriticPolicy):
        drawn = _draw_tempered(_distributions(policy, tensors, observation, agent.masked), temperature)
        return agent.stretch(_clip_actions(policy, drawn))
    if isinstance(policy, SACPolicy):
        mean, log_deviation, _ = policy.actor.get_action_dist_params(tensors)
        # A density to the power 1/T is a Gaussian of variance T·σ².
        scale = log_deviation.exp() * math.sqrt(temperature)
        squashed = torch.tanh(mean + scale * torch.randn_like(mean)).cpu().numpy()
        return agent.stretch(np.asarray(policy.unscale_action(squashed)))
    return agent.act(observation, deterministic=False)


def _distributions(
    policy: ActorCriticPolicy, tensors: PyTorchObs, observation: Observation, is_masked: bool
) -> list[torch.distributions.Distribution]:
    options = {"action_masks": observation[ACTION_MASK]} if is_masked and ACTION_MASK in observation else {}
    get: Callable[..., Any] = policy.get_distribution  # a maskable one's takes masks too
    distribution = get(tensors, **options)
    parts = getattr(distribution, "distributions", None) or distribution.distribution
    return list(parts) if isinstance(parts, (list, tuple)) else [parts]


def _draw_tempered(parts: list[torch.distributions.Distribution], temperature: float) -> torch.Tensor:
    first = parts[0]
    choices = [part for part in parts if isinstance(part, torch.distributions.Categorical)]
    if choices:
        hot: list[Any] = [torch.distributions.Categorical(logits=part.logits / temperature) for part in choices]
        drawn: list[torch.Tensor] = [part.sample() for part in hot]
        return drawn[0] if len(drawn) == 1 else torch.stack(drawn, dim=1)
    return torch.normal(first.mean, first.stddev * math.sqrt(temperature))


def _clip_actions(policy: ActorCriticPolicy, actions: torch.Tensor) -> Array:
    result, space = np.asarray(actions.cpu().numpy()), policy.action_space
    return np.clip(result, space.low, space.high) if isinstance(space, spaces.Box) else result
