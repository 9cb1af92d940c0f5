"""Distillation: a small fleet answers as a large one does, on the states that both of them visit.

With a temperature T (Hinton et al. 2015) both answer by softmax(logits / T), and the loss is T²·KL. Orders that the
teacher hardly ever sends then count too: as T grows, the gradient by a student's logit of N becomes the difference of
the two logits, each less its mean over orders, divided by N. T² keeps its size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Distribution, MaskedCategorical, TanhGaussian
from pacesetter.errors import ConfigError, check_range
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.method import Featuring, Losses
from pacesetter.methods.offline.method import OfflineConfig, OfflineMethod
from pacesetter.methods.offline.rows import StoredRows

__all__ = ["Distillation", "FleetDistillation", "check_temperature", "divergence", "softened_divergence"]

LEAST_LOG = -1e4  # of a masked action
WARMEST = 100.0  # beyond it T²·KL is mostly rounding: a KL of 1e-6 in float32


def check_temperature(temperature: float, actions: int | None) -> None:
    """Refuse a temperature that is out of range, or of `actions` that are not discrete."""
    check_range(1, WARMEST, temperature=temperature)
    # Of a Gaussian the log-density is a parabola at any temperature: no order is hidden that softening would show.
    if temperature != 1 and actions is None:
        raise ConfigError(
            f"temperature={temperature:g} needs discrete orders, and those of this fleet are continuous; "
            "leave it at 1, or train the teacher with task.action=discrete"
        )


def softened_divergence(teacher: Distribution, student: Distribution, temperature: float) -> torch.Tensor:
    """(row,) T²·KL(teacher ‖ student) with the logits of both divided by T; at 1 it is `divergence`."""
    if temperature == 1:
        return divergence(teacher, student)
    return temperature**2 * divergence(teacher.with_temperature(temperature), student.with_temperature(temperature))


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
    """Options of a distillation.

    temperature   by which the logits of teacher and student are divided while it learns; discrete orders only
    """

    learning_rate: float = 3e-3
    encoder_learning_rate: float = 3e-3
    temperature: float = 1.0


class Distillation(OfflineMethod):
    """Minimises KL(teacher ‖ student) at stored rows, for all symbols at once; the student's critic does not learn.

    Held-out rows are judged by the plain KL at any temperature, so that figures can be compared.
    """

    config: FleetDistillation
    has_state_value = False

    def __init__(self, fleet: Fleet, rows: StoredRows, config: FleetDistillation, teacher: Fleet) -> None:
        check_temperature(config.temperature, rows.actions)
        super().__init__(fleet, rows, config)
        self.teacher = teacher.to(rows.device).requires_grad_(False)
        self.teacher_rows = torch.tensor(teacher.places(rows.symbols), device=rows.device)

    @torch.no_grad()
    def ask_teacher(self, batch: Transitions) -> Distribution:
        """What the teacher would do at the rows of a batch."""
        compact = {name: entry for name, entry in batch.observation.items() if name != ACTION_MASK}
        features = self.teacher.encoder(self.market.tables(compact))
        return self.teacher.decide(features, batch.observation.get(ACTION_MASK), self.teacher_rows)[0]

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> Losses:
        loss = self._loss(batch, features, self.config.temperature)
        return Losses({"policy": loss}, {"policy_loss": loss.detach()})

    def held_out_loss(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> torch.Tensor:
        return self._loss(batch, features)

    def _loss(self, batch: Transitions, features: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
        """(symbol,) mean over the rows of a batch."""
        return self.per_symbol(
            softened_divergence(self.ask_teacher(batch), self.policy(batch, features), temperature)
        ).mean(1)
