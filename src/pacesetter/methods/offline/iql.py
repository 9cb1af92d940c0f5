"""Implicit Q-learning (Kostrikov et al. 2022): no action that the data does not show is ever asked for its value.

V is an upper expectile of Q over the actions in the data, Q bootstraps from V, and the policy is a regression on the
orders in the data, weighted by exp(β·(Q − V)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from pacesetter.errors import check_range
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.method import Featuring, Losses
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup
from pacesetter.methods.offline.critics import CriticMethod
from pacesetter.methods.offline.equations import advantage_weights, expectile_loss
from pacesetter.methods.offline.method import OfflineConfig, make_offline

__all__ = ["FleetIQL", "ImplicitQ", "make_iql"]


@dataclass(frozen=True)
class FleetIQL(OfflineConfig):
    """Options of IQL."""

    expectile: Annotated[float, "τ of the value: ½ is the mean over the actions in the data, 1 their maximum"] = 0.8
    inverse_temperature: Annotated[float, "β of the weights; 0 clones the data"] = 10.0
    tau: Annotated[float, "by which target critics follow at every gradient step"] = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(0, 1, owner="agent", expectile=self.expectile, tau=self.tau)
        check_range(0, owner="agent", inverse_temperature=self.inverse_temperature)


class ImplicitQ(CriticMethod):
    """IQL for all symbols at once; the fleet's own critic is V."""

    config: FleetIQL

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> Losses:
        value_loss, error, advantages = self._critic_losses(batch, features, acting)
        likely = self.policy(batch, features.detach()).log_prob(batch.actions)
        weights = advantage_weights(advantages, self.config.inverse_temperature)
        actor_loss = -self.per_symbol(weights * likely).mean(1)
        terms = {"value": value_loss, "critic": error, "actor": actor_loss}
        metrics = {"value_loss": value_loss, "critic_loss": error, "actor_loss": actor_loss}
        metrics["offline/bellman_error"] = error
        return Losses(terms, {name: part.detach() for name, part in metrics.items()})

    def _critic_losses(
        self, batch: Transitions, features: torch.Tensor, acting: Featuring
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(symbol,) losses of V and of both Q, and (row,) advantages."""
        assert batch.following is not None
        with torch.no_grad():
            judged = self.values_taken(self.targets, features, batch.actions).amin(0)
            wanted = self.bellman(batch, self.fleet.value(acting.features(batch.following), self.rows))
        value = self.fleet.value(features, self.rows)
        value_loss = self.per_symbol(expectile_loss(judged - value, self.config.expectile)).mean(1)
        taken = self.values_taken(self.critics, features, batch.actions)
        error = self.per_symbol((taken - wanted).square().sum(0)).mean(1)
        return value_loss, error, (judged - value).detach()

    def held_out_loss(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> torch.Tensor:
        value_loss, error, _ = self._critic_losses(batch, features, acting)
        return value_loss + error


def make_iql(setup: Setup) -> FleetTrainer:
    """IQL of a fleet."""
    return make_offline(ImplicitQ, FleetIQL, setup)
