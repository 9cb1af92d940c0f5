"""A Stable-Baselines3 policy as a fleet of one, which offline methods, their evaluation and recordings take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import TypeAlias

import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy

from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import MaskedCategorical
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.window_market import WINDOWS

__all__ = ["OfflineAgents", "PolicyAgents"]


class PolicyAgents:
    """Actor and critic of a policy for discrete actions; refuses a recurrent or continuous one.

    Every action is allowed, as for PPO: the environment limits a window that is not feasible.
    """

    symbols = (WINDOWS,)

    def __init__(self, policy: BasePolicy) -> None:
        is_recurrent = isinstance(policy, RecurrentActorCriticPolicy)
        if (
            is_recurrent
            or not isinstance(policy, ActorCriticPolicy)
            or not isinstance(policy.action_space, spaces.Discrete)
        ):
            raise ConfigError(
                "episodes are recorded of, and learned by, agents without a memory that choose from a grid; use "
                "task.windows.space=discrete and agent=ppo or full_information"
            )
        self.policy, self.actions = policy, int(policy.action_space.n)
        self.config = SimpleNamespace(width=int(policy.features_dim))
        self.hidden = int(policy.mlp_extractor.latent_dim_vf)  # of the critics of an offline method

    def places(self, symbols: Iterable[str]) -> list[int]:
        """Of the one agent that there is."""
        return [self.symbols.index(symbol) for symbol in symbols]

    def encoder(self, observation: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """(row, width) features."""
        features = self.policy.extract_features(dict(observation))
        assert isinstance(features, torch.Tensor)  # actor and critic share their encoder
        return features

    def decide(
        self, features: torch.Tensor, mask: torch.Tensor | None = None, rows: torch.Tensor | None = None
    ) -> tuple[MaskedCategorical, torch.Tensor]:
        """The policy at features, and its value."""
        latent = self.policy.mlp_extractor.forward_actor(features)
        return MaskedCategorical(self.policy.action_net(latent), mask), self.value(features)

    def value(self, features: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """(row,) values."""
        values: torch.Tensor = self.policy.value_net(self.policy.mlp_extractor.forward_critic(features))
        return values.flatten()

    def evaluate(
        self, observation: Mapping[str, torch.Tensor], rows: torch.Tensor | None = None
    ) -> tuple[MaskedCategorical, torch.Tensor]:
        """The policy at observations, and its value."""
        return self.decide(self.encoder(observation))


OfflineAgents: TypeAlias = Fleet | PolicyAgents
