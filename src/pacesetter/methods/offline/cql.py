"""Conservative Q-learning (Kumar et al. 2020): values of actions that the data does not show are pushed down.

A soft actor–critic, discrete or continuous, whose critics also descend log Σ exp Q(s, a) − Q(s, a_data). The encoder
learns from the critics; the actor takes its features as given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.errors import check_range
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.method import Featuring, Losses
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup
from pacesetter.methods.offline.critics import CriticMethod
from pacesetter.methods.offline.equations import choice_penalty, sampled_penalty
from pacesetter.methods.offline.method import OfflineConfig, make_offline

__all__ = ["ConservativeQ", "FleetCQL", "make_cql"]


@dataclass(frozen=True)
class FleetCQL(OfflineConfig):
    """Options of CQL."""

    penalty: Annotated[float, "weight of the conservative term"] = 0.2
    temperature: Annotated[
        float,
        "of the actor, in deviations of the discounted return: the policy tends to softmax(Q / temperature)",
    ] = 0.02
    tau: Annotated[float, "by which target critics follow at every gradient step"] = 0.02
    samples: Annotated[int, "random and own actions each by which the continuous penalty is estimated"] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(0, owner="agent", penalty=self.penalty, temperature=self.temperature)
        check_range(1, owner="agent", samples=self.samples)
        check_range(0, 1, owner="agent", tau=self.tau)


class ConservativeQ(CriticMethod):
    """CQL for all symbols at once."""

    config: FleetCQL
    has_state_value = False

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> Losses:
        """Critics to their targets and down where the data is silent; actors up the critics."""
        error, penalty = self._critic_losses(batch, features, acting)
        self.critics.requires_grad_(False)  # the actor's loss moves the actor alone
        gained = self.soft_value(self.critics, batch.observation, features.detach(), self.config.temperature)
        self.critics.requires_grad_(True)
        actor_loss = -self.per_symbol(gained).mean(1)
        terms = {"critic": error, "penalty": self.config.penalty * penalty, "actor": actor_loss}
        metrics = {"critic_loss": error, "actor_loss": actor_loss, "penalty": penalty, "offline/bellman_error": error}
        return Losses(terms, {name: part.detach() for name, part in metrics.items()})

    def _critic_losses(
        self, batch: Transitions, features: torch.Tensor, acting: Featuring
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(symbol,) Bellman errors and conservative penalties, of both critics together."""
        assert batch.following is not None
        with torch.no_grad():
            later = acting.features(batch.following)
            wanted = self.bellman(batch, self.soft_value(self.targets, batch.following, later, 0.0))
        taken = self.values_taken(self.critics, features, batch.actions)
        error = self.per_symbol((taken - wanted).square().sum(0)).mean(1)
        return error, self.per_symbol(self._penalties(batch, features, taken)).mean(1)

    def _penalties(self, batch: Transitions, features: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
        """(row,) of both critics together."""
        if self.market.actions is not None:
            mask = batch.observation.get(ACTION_MASK)
            values = self.critics(features, self.rows)
            return torch.stack([choice_penalty(each, batch.actions, mask) for each in values]).sum(0)
        count = self.config.samples
        wide = features.repeat_interleave(count, dim=0)
        with torch.no_grad():
            policy, _ = self.fleet.decide(wide, rows=self.rows)
            own = policy.sample()
            densities = policy.log_prob(own)
        drawn = 2 * torch.rand_like(own) - 1
        values = torch.cat(
            [self.critics(wide, actions, self.rows).view(2, -1, count) for actions in (own, drawn)], dim=-1
        )
        known = torch.cat([densities.view(-1, count), torch.full_like(densities, -math.log(2)).view(-1, count)], -1)
        return torch.stack([sampled_penalty(each, known, one) for each, one in zip(values, taken, strict=True)]).sum(0)

    def held_out_loss(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> torch.Tensor:
        error, penalty = self._critic_losses(batch, features, acting)
        return error + self.config.penalty * penalty


def make_cql(setup: Setup) -> FleetTrainer:
    """CQL of a fleet."""
    return make_offline(ConservativeQ, FleetCQL, setup)
