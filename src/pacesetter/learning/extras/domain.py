"""Domain adaptation by gradient reversal (Ganin, Lempitsky 2015): features from which the domain cannot be told.

A discriminator learns to tell symbols of the target domain from the others by the encoder's features; the encoder gets
its gradient with the sign turned round, times λ, which rises from 0 to `strength` over `ramp_steps`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import Extra, Surroundings

__all__ = ["Domain", "DomainConfig", "reverse_gradient"]

STEEPNESS = 10.0  # of the ramp, as published


class _Reversal(torch.autograd.Function):
    """The identity, whose gradient is multiplied by −weight."""

    @staticmethod
    def forward(ctx: Any, features: torch.Tensor, weight: float) -> torch.Tensor:
        ctx.weight = weight
        # A view, not the same tensor: autograd needs an output of its own to attach the reversal to.
        return features.view_as(features)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return -ctx.weight * gradients[0], None


def reverse_gradient(features: torch.Tensor, weight: float) -> torch.Tensor:
    """The features as they are; what flows back through them is turned round and scaled."""
    reversed_: torch.Tensor = _Reversal.apply(features, weight)  # type: ignore[no-untyped-call]
    return reversed_


@dataclass(frozen=True)
class DomainConfig:
    """Options of the domain extra.

    target       symbols of the target domain, e.g. those of another exchange; all others are the source
    strength     largest λ                        ramp_steps   steps of each symbol until it is nearly reached
    learns_each  steps of the discriminator before each step of the encoder
    """

    target: tuple[str, ...] = ()
    strength: float = 1.0
    ramp_steps: int = 10_000
    hidden: int = 64
    learning_rate: float = 5e-3
    learns_each: int = 4

    def __post_init__(self) -> None:
        owner = "agent.extras.domain"
        check_range(0, owner=owner, strength=self.strength)
        check_range(1, owner=owner, ramp_steps=self.ramp_steps, hidden=self.hidden, learns_each=self.learns_each)
        if not self.learning_rate > 0:
            raise ConfigError(f"{owner}.learning_rate={self.learning_rate} must be above 0")
        if not self.target:
            raise ConfigError(f"{owner}.target names the symbols of the target domain; give at least one")


class Domain(Extra):
    """A discriminator that trains itself, and a loss by which the encoder confuses it."""

    declared: tuple[str, ...] = ("optimiser", "steps")
    teaches_encoder_alone = True

    def __init__(self, around: Surroundings, config: DomainConfig) -> None:
        self.config, self.steps, self.symbols = config, 0, around.symbols
        self.is_target = self._labels(around).to(around.device)
        layers = nn.Sequential(nn.Linear(around.width, config.hidden), nn.ReLU(), nn.Linear(config.hidden, 1))
        self.own = nn.ModuleDict({"discriminator": layers})
        self.own.to(around.device)
        self.optimiser: torch.optim.Optimizer = torch.optim.Adam(self.own.parameters(), config.learning_rate)
        self._loss = torch.tensor(0.0)

    def _labels(self, around: Surroundings) -> torch.Tensor:
        """(symbol of the market,) 1 where it is of the target domain; refuses unknown symbols, and one domain alone."""
        assert around.batch is not None
        names = list(dict.fromkeys(name for (name,) in around.batch.bank.symbols))
        for name in self.config.target:
            if name not in names:
                raise ConfigError(f"agent.extras.domain.target: unknown symbol '{name}'{did_you_mean(name, names)}")
        labels = torch.tensor([name in self.config.target for name in names]).float()
        if labels.all():
            raise ConfigError("agent.extras.domain.target names every symbol, which leaves no source domain")
        return labels

    @property
    def weight(self) -> float:
        """λ = strength · (2 / (1 + exp(−10·p)) − 1), p the share of `ramp_steps` that were made."""
        share = min(self.steps / self.config.ramp_steps, 1.0)
        return self.config.strength * (2 / (1 + math.exp(-STEEPNESS * share)) - 1)

    def reward(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int) -> None:
        """Rewards stay as they are; the ramp hears of the steps."""
        self.steps = steps

    def losses(self, batch: Transitions, features: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """(symbol,) cross-entropy that the encoder ascends; the discriminator descends it first.

        It learns here and not by `learn`: once a rollout is too seldom. An encoder that ascends the loss of a
        discriminator that stands still moves each domain to where the other one was, and they are told apart as before.
        """
        self._descend(batch, features.detach())  # detached: its own steps must not teach the encoder to help it
        # The discriminator's gradients of this loss are unused: its optimiser clears them before its own step.
        entropies = self._entropies(batch, reverse_gradient(features, self.weight))
        return {"domain": entropies.view(len(self.is_target), -1).mean(1)}

    def _descend(self, batch: Transitions, features: torch.Tensor) -> None:
        """Steps of the discriminator on the features as they are."""
        for _ in range(self.config.learns_each):
            loss = self._entropies(batch, features).mean()
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
        self._loss = loss.detach()

    def figures_to_log(self) -> dict[str, torch.Tensor]:
        """The discriminator's cross-entropy, log 2 where it can tell nothing, and λ."""
        return {"domain/cross_entropy": self._loss, "domain/weight": torch.tensor(self.weight)}

    def _entropies(self, batch: Transitions, features: torch.Tensor) -> torch.Tensor:
        """(row,) weighed so that both domains count alike."""
        labels = self.is_target[batch.symbol]
        logits = self.own["discriminator"](features).squeeze(-1)
        share = self.is_target.mean()
        # Otherwise the discriminator would win by always naming the larger domain.
        weights = torch.where(labels > 0, 0.5 / share, 0.5 / (1 - share))
        return F.binary_cross_entropy_with_logits(logits, labels, weights, reduction="none")
