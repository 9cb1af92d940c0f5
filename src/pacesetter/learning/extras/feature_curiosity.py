"""Curiosity on the agents' own features, without an encoder of its own.

A forward model predicts the features of the next bar from features and action, an inverse model the action from both.
Neither shapes the features; `curiosity.py` has the complete form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.errors import ConfigError
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.curiosity import CuriosityConfig, CuriosityGates
from pacesetter.learning.extras.extra import Extra

__all__ = ["FeatureCuriosity"]

LARGEST = 5.0  # deviations of an intrinsic reward
ENDS = 10  # of the updates at the start and at the end are compared by the gates


class Moments(nn.Module):
    """Running mean and variance of every error so far (Chan, Golub, LeVeque 1979)."""

    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("count", "mean", "variance"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def observe(self, errors: torch.Tensor) -> None:
        """Merge (row,) errors in."""
        self.count.add_(len(errors))
        share, shift = len(errors) / self.count, errors.mean() - self.mean
        # Population variances merge exactly with weights n_a/n and n_b/n.
        spread = errors.var(unbiased=False) - self.variance
        self.variance.add_(share * spread + share * (1 - share) * shift**2)
        self.mean.add_(share * shift)


class LossLog:
    """(2,) losses of each update, stored as one tensor."""

    def __init__(self) -> None:
        self.rows: list[torch.Tensor] = []

    def __len__(self) -> int:
        return len(self.rows)

    def state_dict(self) -> dict[str, Any]:
        """All of them, (update, 2)."""
        return {"rows": torch.stack(self.rows) if self.rows else None}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        self.rows = [] if stored["rows"] is None else list(stored["rows"])


class FeatureCuriosity(Extra):
    """Both models over features (row, width); actions are discrete (row,), or (row, 1) when `actions` is None."""

    declared = ("optimiser", "log")

    def __init__(self, width: int, actions: int | None, config: CuriosityConfig) -> None:
        self.actions, self.config, self.rollout_rows = actions, config, config.rollout_rows
        size = actions or 1
        hidden = config.hidden or 128
        self.forward_model = _layers(width + size, hidden, width)
        self.inverse_model = _layers(2 * width, hidden, size)
        self.errors = Moments()
        self.own = nn.ModuleDict(
            {"forward_model": self.forward_model, "inverse_model": self.inverse_model, "errors": self.errors}
        )
        self.optimiser: torch.optim.Optimizer = torch.optim.Adam(self.own.parameters(), config.learning_rate or 1e-3)
        self.log = LossLog()
        self.variation = torch.tensor(torch.nan)

    # ---- as an extra ----------------------------------------------------------------------------------------------

    def reward(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int) -> torch.Tensor:
        """The market's rewards with the intrinsic ones; during the warm-up the market's alone."""
        assert batch.rewards is not None
        intrinsic = self.intrinsic(features, batch.actions, following)
        if batch.follows is not None:
            intrinsic = torch.where(batch.follows, intrinsic, 0.0)
        return self.mix(batch.rewards, intrinsic, steps)

    def learn(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor) -> None:
        """One step of both models on the rows of a batch."""
        self.fit(features, batch.actions, following)

    # ---- its models -----------------------------------------------------------------------------------------------

    def mix(self, rewards: torch.Tensor, intrinsic: torch.Tensor, steps: int) -> torch.Tensor:
        """(1 − share)·reward + share·intrinsic from `warmup_steps` on."""
        if steps < self.config.warmup_steps:
            return rewards
        return (1 - self.config.share) * rewards + self.config.share * intrinsic

    @torch.no_grad()
    def intrinsic(self, features: torch.Tensor, actions: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """(row,) forward errors in deviations of all errors so far, these included, cut to ±5."""
        errors = self.prediction_errors(features, actions, following)
        self.errors.observe(errors.double())
        self.variation = errors.std() / errors.mean()
        scaled = (errors - self.errors.mean) / self.errors.variance.sqrt().clamp(min=1e-8)
        return scaled.clamp(-LARGEST, LARGEST).to(features.dtype)

    @torch.enable_grad()
    def fit(self, features: torch.Tensor, actions: torch.Tensor, following: torch.Tensor) -> None:
        """One step of both models on (row, width) features, which are taken as given."""
        # As given: neither model shapes the encoder here.
        features, following = features.detach(), following.detach()
        predicted = self.inverse_model(torch.cat([features, following], dim=-1))
        wanted = actions.long() if self.actions else actions
        inverse = F.cross_entropy(predicted, wanted) if self.actions else F.mse_loss(predicted, wanted)
        forward = self.prediction_errors(features, actions, following).mean()
        self.optimiser.zero_grad()
        (forward + inverse).backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.log.rows.append(torch.stack([forward, inverse]).detach())

    def prediction_errors(self, features: torch.Tensor, actions: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """(row,) half the mean squared error of the forward model."""
        chosen = F.one_hot(actions.long(), self.actions).to(features.dtype) if self.actions else actions
        predicted: torch.Tensor = self.forward_model(torch.cat([features, chosen], dim=-1))
        return 0.5 * (predicted - following).square().mean(-1)

    def gates(self) -> CuriosityGates:
        """The gates so far; refuses before any update."""
        if not len(self.log):
            raise ConfigError("curiosity is not trained yet; ask for its gates after a round")
        losses = torch.stack(self.log.rows).cpu()
        ends = min(ENDS, len(losses))
        first, last = losses[:ends].mean(0).tolist(), losses[-ends:].mean(0).tolist()
        return CuriosityGates((first[0], last[0]), (first[1], last[1]), float(self.variation))


def _layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
