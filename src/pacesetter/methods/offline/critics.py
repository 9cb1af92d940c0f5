"""Twin critics of an offline method: a value for each discrete action, or of a number in [-1, 1]."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import MaskedCategorical
from pacesetter.learning.equations import soft_update
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.sac import LEAST_LOG, TwinChoices, TwinCritics
from pacesetter.methods.offline.method import OfflineMethod
from pacesetter.methods.offline.rows import StoredRows

__all__ = ["CriticMethod"]


class CriticMethod(OfflineMethod):
    """An offline method with twin critics and target networks that follow them."""

    config: Any

    def __init__(self, fleet: Fleet, rows: StoredRows, config: Any) -> None:
        super().__init__(fleet, rows, config)
        torch.manual_seed(config.seed)
        symbols = len(fleet.symbols)
        self.critics: TwinChoices | TwinCritics = (
            TwinCritics(fleet.config.width, fleet.hidden, symbols)
            if rows.actions is None
            else TwinChoices(fleet.config.width, fleet.hidden, symbols, rows.actions)
        )
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.own["critics"], self.own["targets"] = self.critics, self.targets

    def after_step(self) -> None:
        """Let the target critics follow the critics."""
        soft_update(self.targets, self.critics, self.config.tau)

    def values_taken(self, critics: nn.Module, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """(2, row) values of the actions in the data."""
        if self.market.actions is None:
            values: torch.Tensor = critics(features, actions, self.rows)
            return values
        chosen = actions[None, :, None].expand(2, -1, 1)
        return critics(features, self.rows).gather(-1, chosen).squeeze(-1)  # type: ignore[no-any-return]

    def soft_value(
        self, critics: nn.Module, observation: dict[str, torch.Tensor], features: torch.Tensor, temperature: float
    ) -> torch.Tensor:
        """(row,) E_π[min Q(s, a) − temperature·log π(a|s)], exact for discrete actions, of one draw otherwise."""
        policy, _ = self.fleet.decide(features, observation.get(ACTION_MASK), self.rows)
        if isinstance(policy, MaskedCategorical):
            logs = policy.log_probabilities.clamp(min=LEAST_LOG)
            values = critics(features, self.rows).amin(0)
            return (policy.probabilities * (values - temperature * logs)).sum(-1)  # type: ignore[no-any-return]
        actions = policy.sample()
        values = critics(features, actions, self.rows).amin(0)
        return values - temperature * policy.log_prob(actions)  # type: ignore[no-any-return]

    def bellman(self, batch: Transitions, following_values: torch.Tensor) -> torch.Tensor:
        """(row,) targets r + γ·V(s'), the latter 0 after a termination."""
        assert batch.rewards is not None
        assert batch.terminated is not None
        later = torch.where(batch.terminated, 0.0, following_values)
        wanted: torch.Tensor = batch.rewards + self.config.gamma * later
        return wanted
