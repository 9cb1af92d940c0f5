"""Behaviour cloning: the policy under which the orders in the data are most likely."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.method import Featuring, Losses
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup
from pacesetter.methods.offline.method import OfflineConfig, OfflineMethod, make_offline

__all__ = ["Cloning", "FleetBC", "make_bc"]


@dataclass(frozen=True)
class FleetBC(OfflineConfig):
    """Options of cloning; by default only the expert regime is learned from, whose orders are the teacher's."""

    regimes: tuple[str, ...] = ("expert",)


class Cloning(OfflineMethod):
    """Minimises −log π(a|s) of the data, for all symbols at once; its critic does not learn."""

    config: FleetBC
    has_state_value = False

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> Losses:
        loss = self._loss(batch, features)
        return Losses({"policy": loss}, {"policy_loss": loss.detach()})

    def held_out_loss(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> torch.Tensor:
        return self._loss(batch, features)

    def _loss(self, batch: Transitions, features: torch.Tensor) -> torch.Tensor:
        return -self.per_symbol(self.policy(batch, features).log_prob(batch.actions)).mean(1)


def make_bc(setup: Setup) -> FleetTrainer:
    """Cloning of a fleet."""
    return make_offline(Cloning, FleetBC, setup)
