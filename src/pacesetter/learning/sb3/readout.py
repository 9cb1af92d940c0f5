"""What a policy's networks say of full observations, with gradients: for explaining a policy, not for trading by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.sac.policies import Actor as SACActor
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.encoders import EncodedClasses, Encoder
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.sb3.algorithms import ActorCritic, AlgorithmAgent, EncoderExtractor
from pacesetter.learning.sb3.own import AnyAlgorithm

__all__ = ["Readout", "readout"]

Function = Callable[[Tensors], torch.Tensor]


@dataclass(frozen=True)
class Readout:
    """A policy as functions of a full observation (batch, …).

    actions   (batch, output): probabilities of discrete actions, `options` for each choice; or the deterministic action
    values    (batch,) what the critic expects; None where there is no critic, or it did not learn
    options   0 for continuous actions
    shapes    entry -> its shape without the batch, as `actions` takes it
    inputs    the entries as the encoder takes them
    tables    windows of observations that hold places; None where these hold windows
    """

    encoder: Encoder
    shapes: Shapes
    actions: Function
    values: Function | None
    options: int
    inputs: Callable[[dict[str, torch.Tensor]], Tensors]
    tables: Tables | None = None

    def tensors(self, observations: Mapping[str, Array]) -> dict[str, torch.Tensor]:
        """The entries of a batch that the policy reads, masks too, with windows gathered; refuses an absent one."""
        device = self.encoder.start.device
        given = {name: torch.tensor(entry, dtype=torch.float32, device=device) for name, entry in observations.items()}
        full = given if self.tables is None else self.tables(given)
        for name in self.shapes:
            if name not in full:
                raise ConfigError(f"the observations lack '{name}', which the policy reads; give complete observations")
        return {name: full[name] for name in (*self.shapes, ACTION_MASK) if name in full}

    def centre(self) -> dict[str, torch.Tensor]:
        """The mean observation as the normaliser has counted it, entry by entry without a batch axis; no masks."""
        sizes = self.encoder.layout.sizes
        parts = torch.split(self.encoder.normaliser.centre, list(sizes.values()))
        return {name: _spread(part, self.shapes[name]) for name, part in zip(sizes, parts, strict=True)}


def _spread(part: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """(feature,), or bars and features in a row, over all assets or bars."""
    return (part.view(shape[1:]) if len(shape) == 3 else part).expand(shape)


def readout(agent: object) -> Readout:
    """The functions of a symbol agent, a Stable-Baselines3 algorithm or its agent, or a classifier."""
    if isinstance(agent, SymbolAgent):
        return _of_symbol_agent(agent)
    if isinstance(agent, EncodedClasses):
        return Readout(
            agent.encoder, agent.shapes, lambda entries: agent(entries).softmax(-1), None, agent.classes, dict
        )
    algorithm = agent.algorithm if isinstance(agent, AlgorithmAgent) else agent
    if not isinstance(algorithm, AnyAlgorithm):
        raise ConfigError(
            f"{type(agent).__name__} has no network that can be read; give a symbol agent or an algorithm"
        )
    return _of_algorithm(algorithm)


def _of_symbol_agent(agent: SymbolAgent) -> Readout:
    values: Function | None = (lambda entries: agent(entries)[1]) if agent.has_state_value else None
    return Readout(agent.encoder, agent.shapes, lambda entries: agent(entries)[0], values, agent.choices, dict)


def _of_classes(agent: EncodedClasses) -> Readout:
    return Readout(agent.encoder, agent.shapes, lambda entries: agent(entries).softmax(-1), None, agent.classes, dict)


def _of_algorithm(algorithm: AnyAlgorithm) -> Readout:
    policy, space = algorithm.policy, algorithm.action_space
    if isinstance(policy, ActorCritic):
        extractor, (actions, values) = policy.features_extractor, _on_policy(policy)
    else:
        assert isinstance(policy, (SACPolicy, TD3Policy))
        extractor, (actions, values) = policy.actor.features_extractor, _off_policy(policy)
    assert isinstance(extractor, EncoderExtractor)
    options = 0
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        options = int(space.n if isinstance(space, spaces.Discrete) else space.nvec[0])
    return Readout(extractor.encoder, extractor.shapes, actions, values, options, extractor.complete, extractor.tables)


def _on_policy(policy: ActorCritic) -> tuple[Function, Function]:
    """Of PPO and its kind; a recurrent policy speaks as at the first bar of an episode."""

    def latent(observation: Tensors, memory: nn.Module | None) -> torch.Tensor:
        features = policy.features_extractor(observation)
        # A sequence of one bar without a state: an empty memory.
        return features if memory is None else memory(features[None])[0][0]  # type: ignore[no-any-return]

    def actions(observation: Tensors) -> torch.Tensor:
        hidden = policy.mlp_extractor.forward_actor(
            latent(observation, policy.lstm_actor if isinstance(policy, RecurrentActorCriticPolicy) else None)
        )
        distribution = policy._get_action_dist_from_latent(hidden)
        if ACTION_MASK in observation and isinstance(distribution, MaskableDistribution):
            distribution.apply_masking(observation[ACTION_MASK])
        return _outputs(distribution)

    def values(observation: Tensors) -> torch.Tensor:
        hidden = policy.mlp_extractor.forward_critic(
            latent(observation, policy.lstm_critic if isinstance(policy, RecurrentActorCriticPolicy) else None)
        )
        return policy.value_net(hidden).squeeze(-1)  # type: ignore[no-any-return]

    return actions, values


def _outputs(distribution: Any) -> torch.Tensor:
    """Probabilities (batch, choice · option), or the mean of a Gaussian (batch, number)."""
    distributions = getattr(distribution, "distributions", None) or distribution.distribution
    parts = distributions if isinstance(distributions, list) else [distributions]
    if isinstance(parts[0], torch.distributions.Categorical):
        return torch.cat([part.probs for part in parts], dim=-1)
    return distribution.mode()  # type: ignore[no-any-return]


def _off_policy(policy: SACPolicy | TD3Policy) -> tuple[Function, Function]:
    """Of SAC and TD3: the actor's deterministic action, and the lower critic's value of it."""
    actor, critic, space = policy.actor, policy.critic, policy.action_space
    assert isinstance(space, spaces.Box)
    low, high = (torch.as_tensor(bound, device=policy.device) for bound in (space.low, space.high))

    def squash_action(observation: Tensors) -> torch.Tensor:
        features = actor.features_extractor(observation)
        if isinstance(actor, SACActor):
            return torch.tanh(actor.mu(actor.latent_pi(features)))
        return actor.mu(features)  # type: ignore[no-any-return]

    def actions(observation: Tensors) -> torch.Tensor:
        return low + 0.5 * (squash_action(observation) + 1) * (high - low)

    def values(observation: Tensors) -> torch.Tensor:
        pair = torch.cat([critic.features_extractor(observation), squash_action(observation)], dim=-1)
        # The critic takes actions in [-1, 1], before they are stretched over the box.
        return torch.cat([network(pair) for network in critic.q_networks], dim=-1).amin(-1)

    return actions, values
