"""Curiosity: intrinsic reward = forward-model error on the encoder's features (ICM, Pathak et al. 2017).

A forward model predicts the next features from features and action, and its error is the intrinsic reward; an inverse
model tells the action from both features, which shows whether features hold what actions change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.errors import ConfigError

__all__ = ["Curiosity", "CuriosityConfig", "CuriosityGates"]

LARGEST = 5.0  # deviations of an intrinsic reward
ENDS = 10  # of the updates at the start and at the end are compared by the gates
LEAST_VARIATION = 0.3


@dataclass(frozen=True)
class CuriosityConfig:
    """Options of curiosity.

    share          of the intrinsic reward in the sum; the rest is the market's
    warmup_steps   environment steps of each symbol before it counts; the models learn from the first
    """

    share: float = 0.1
    warmup_steps: int = 1_000
    hidden: int = 128
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ConfigError(f"curiosity.share={self.share} must be 0 or more and below 1")


@dataclass(frozen=True)
class CuriosityGates:
    """Mean losses of the first and of the last updates, and deviation / mean of the latest errors."""

    forward: tuple[float, float]
    inverse: tuple[float, float]
    variation: float

    @property
    def passed(self) -> bool:
        """Whether both losses fell, and errors differ enough to say where to look."""
        has_fallen = all(last < first for first, last in (self.forward, self.inverse))
        return has_fallen and self.variation > LEAST_VARIATION

    def __str__(self) -> str:
        parts = [f"{name} loss {first:.3g} → {last:.3g}" for name, (first, last) in self._losses.items()]
        verdict = "passed" if self.passed else "failed"
        return f"curiosity: {', '.join(parts)}, variation {self.variation:.2f} (above {LEAST_VARIATION}): {verdict}"

    @property
    def _losses(self) -> dict[str, tuple[float, float]]:
        return {"forward": self.forward, "inverse": self.inverse}


class Curiosity(nn.Module):
    """Both models over features (row, width); actions are discrete (row,), or (row, 1) when `actions` is None."""

    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, width: int, actions: int | None, config: CuriosityConfig) -> None:
        super().__init__()
        self.actions, self.config = actions, config
        size = actions or 1
        self.forward_model = _layers(width + size, config.hidden, width)
        self.inverse_model = _layers(2 * width, config.hidden, size)
        for name in ("count", "mean", "variance"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))
        self.optimiser = torch.optim.Adam(self.parameters(), config.learning_rate)
        self.log: list[torch.Tensor] = []  # (2,) losses of each update
        self.variation = torch.tensor(torch.nan)

    def mix(self, rewards: torch.Tensor, intrinsic: torch.Tensor, steps: int) -> torch.Tensor:
        """The market's rewards with the intrinsic ones; during the warm-up the market's alone."""
        if steps < self.config.warmup_steps:
            return rewards
        return (1 - self.config.share) * rewards + self.config.share * intrinsic

    @torch.no_grad()
    def reward(self, features: torch.Tensor, actions: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """(row,) forward errors in deviations of those seen so far, these included, cut to ±5."""
        errors = self._errors(features, actions, following)
        self._merge(errors.double())
        self.variation = errors.std() / errors.mean()
        scaled = (errors - self.mean) / self.variance.sqrt().clamp(min=1e-8)
        return scaled.clamp(-LARGEST, LARGEST).to(features.dtype)

    @torch.enable_grad()
    def learn(self, features: torch.Tensor, actions: torch.Tensor, following: torch.Tensor) -> None:
        """One step of both models on (row, width) features, which are taken as given."""
        features, following = features.detach(), following.detach()
        told = self.inverse_model(torch.cat([features, following], dim=-1))
        wanted = actions.long() if self.actions else actions
        inverse = F.cross_entropy(told, wanted) if self.actions else F.mse_loss(told, wanted)
        forward = self._errors(features, actions, following).mean()
        self.optimiser.zero_grad()
        (forward + inverse).backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.log.append(torch.stack([forward, inverse]).detach())

    def gates(self) -> CuriosityGates:
        """The gates so far; refuses before any update."""
        if not self.log:
            raise ConfigError("curiosity is not trained yet; read its gates after a rollout")
        losses = torch.stack(self.log).cpu()
        ends = min(ENDS, len(losses))
        first, last = losses[:ends].mean(0).tolist(), losses[-ends:].mean(0).tolist()
        return CuriosityGates((first[0], last[0]), (first[1], last[1]), float(self.variation))

    def _errors(self, features: torch.Tensor, actions: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """(row,) halved mean squares of what was not predicted."""
        chosen = F.one_hot(actions.long(), self.actions).to(features.dtype) if self.actions else actions
        predicted: torch.Tensor = self.forward_model(torch.cat([features, chosen], dim=-1))
        return 0.5 * (predicted - following).square().mean(-1)

    def _merge(self, errors: torch.Tensor) -> None:
        self.count.add_(len(errors))
        share, shift = len(errors) / self.count, errors.mean() - self.mean
        spread = errors.var(unbiased=False) - self.variance
        self.variance.add_(share * spread + share * (1 - share) * shift**2)
        self.mean.add_(share * shift)

    # ---- storing --------------------------------------------------------------------------------------------------

    def learned(self) -> dict[str, Any]:
        """All that decides how it goes on."""
        log = torch.stack(self.log) if self.log else None
        return {"models": self.state_dict(), "optimiser": self.optimiser.state_dict(), "log": log}

    def load_learned(self, stored: dict[str, Any]) -> None:
        """Restore what `learned` gave."""
        self.load_state_dict(stored["models"])
        self.optimiser.load_state_dict(stored["optimiser"])
        self.log = [] if stored["log"] is None else list(stored["log"].to(self.mean.device))


def _layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
