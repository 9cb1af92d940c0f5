"""Distillation: a small fleet answers as a large one does, on the states that both of them visit."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Distribution, MaskedCategorical, TanhGaussian
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.method import Acting, Losses
from pacesetter.learning.offline.method import OfflineConfig, OfflineMethod
from pacesetter.learning.offline.rows import StoredRows

__all__ = ["Distillation", "FleetDistillation", "divergence"]

LEAST_LOG = -1e4  # of a masked action


def divergence(teacher: Distribution, student: Distribution) -> torch.Tensor:
    """(row,) KL(teacher ‖ student) in nats; a squashing that both share does not change it."""
    if isinstance(teacher, MaskedCategorical) and isinstance(student, MaskedCategorical):
        gap = teacher.log_probabilities.clamp(min=LEAST_LOG) - student.log_probabilities.clamp(min=LEAST_LOG)
        return (teacher.probabilities * gap).sum(-1)
    if isinstance(teacher, TanhGaussian) and isinstance(student, TanhGaussian):
        log_ratio = student.log_deviation - teacher.log_deviation
        spread = (2 * teacher.log_deviation).exp() + (teacher.mean - student.mean).square()
        return (log_ratio + spread / (2 * (2 * student.log_deviation).exp()) - 0.5).sum(-1)
    raise ConfigError("teacher and student must have actions of one kind")


@dataclass(frozen=True)
class FleetDistillation(OfflineConfig):
    """Options of a distillation."""

    learning_rate: float = 3e-3
    encoder_learning_rate: float = 3e-3


class Distillation(OfflineMethod):
    """Minimises KL(teacher ‖ student) at stored rows, for all symbols at once; the student's critic does not learn."""

    config: FleetDistillation
    has_state_value = False

    def __init__(self, fleet: Fleet, rows: StoredRows, config: FleetDistillation, teacher: Fleet) -> None:
        super().__init__(fleet, rows, config)
        self.teacher = teacher.to(rows.device).requires_grad_(False)
        self.teacher_rows = torch.tensor(teacher.places(rows.symbols), device=rows.device)

    @torch.no_grad()
    def taught(self, batch: Transitions) -> Distribution:
        """What the teacher would do at the rows of a batch."""
        compact = {name: entry for name, entry in batch.observation.items() if name != ACTION_MASK}
        features = self.teacher.encoder(self.market.tables(compact))
        return self.teacher.decide(features, batch.observation.get(ACTION_MASK), self.teacher_rows)[0]

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        loss = self._loss(batch, features)
        return Losses({"policy": loss}, {"policy_loss": loss.detach()})

    def held_out_loss(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> torch.Tensor:
        return self._loss(batch, features)

    def _loss(self, batch: Transitions, features: torch.Tensor) -> torch.Tensor:
        return self.per_symbol(divergence(self.taught(batch), self.policy(batch, features))).mean(1)
