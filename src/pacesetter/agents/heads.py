"""Heads: features → a distribution over actions, or a value. Discrete with a mask, continuous squashed into [-1, 1]."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.agents.initialise import initialise_head

__all__ = [
    "ContinuousActor",
    "Critic",
    "DiscreteActor",
    "Distribution",
    "Head",
    "MaskedCategorical",
    "TanhGaussian",
    "head_layers",
    "make_actor",
    "silence_head",
]

ACTOR_GAIN = 0.01  # the first policy is close to uniform whatever the encoder says (Andrychowicz et al. 2021)
_LOG_DEVIATION = (-5.0, 2.0)
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
_EDGE = 1e-6  # an action at ±1 has no finite pre-image in float32


class Distribution(ABC):
    """Actions at random: (batch, …) with (batch,) log-probabilities and entropies in nats."""

    @abstractmethod
    def sample(self) -> torch.Tensor: ...

    @abstractmethod
    def mode(self) -> torch.Tensor: ...

    @abstractmethod
    def log_prob(self, action: torch.Tensor) -> torch.Tensor: ...

    @abstractmethod
    def entropy(self) -> torch.Tensor: ...

    def with_temperature(self, temperature: float) -> Distribution:
        """The same with its density to the power 1 / temperature: above 1 it is spread wider, below 1 narrower."""
        raise TypeError(f"a {type(self).__name__} has no temperature")


class MaskedCategorical(Distribution):
    """One of n actions; those masked out have probability exactly 0. A row that allows nothing is spread evenly."""

    def __init__(self, logits: torch.Tensor, mask: torch.Tensor | None = None) -> None:
        if mask is not None:
            # the lowest finite number, not −∞: 0 · log 0 must be 0 in the entropy, also in its gradient
            logits = logits.masked_fill(~(mask > 0.5), torch.finfo(logits.dtype).min)
        self.log_probabilities = logits.log_softmax(-1)

    @property
    def probabilities(self) -> torch.Tensor:
        """(batch, action)."""
        return self.log_probabilities.exp()

    def sample(self) -> torch.Tensor:
        if not self.log_probabilities.is_cuda:
            return torch.multinomial(self.probabilities, 1).squeeze(-1)
        waiting = torch.empty_like(self.log_probabilities).exponential_()  # as multinomial, which waits for the GPU
        return (self.probabilities / waiting).argmax(-1)

    def mode(self) -> torch.Tensor:
        return self.log_probabilities.argmax(-1)

    def log_prob(self, action: torch.Tensor) -> torch.Tensor:
        return self.log_probabilities.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> torch.Tensor:
        # clamped, so that a masked action's lowest number never meets a large gradient: inf · 0 would be NaN
        return -(self.probabilities * self.log_probabilities.clamp(min=-1e4)).sum(-1)

    def with_temperature(self, temperature: float) -> Distribution:
        return MaskedCategorical(self.log_probabilities.clamp(min=-1e30) / temperature)


class TanhGaussian(Distribution):
    """a = tanh(u), u ~ N(mean, deviation²), independent over the last axis.

    log p(a) = Σ log N(u) − log(1 − tanh²u), the last term as 2(log 2 − u − softplus(−2u)), which stays finite.
    """

    def __init__(self, mean: torch.Tensor, log_deviation: torch.Tensor) -> None:
        self.mean, self.log_deviation = mean, log_deviation

    def sample(self) -> torch.Tensor:
        """Actions with a gradient to mean and deviation."""
        # Reparametrised: the noise does not depend on the parameters, so SAC can differentiate through the draw.
        return torch.tanh(self.mean + self.log_deviation.exp() * torch.randn_like(self.mean))

    def mode(self) -> torch.Tensor:
        """tanh(mean): the median of the squashed distribution."""
        return torch.tanh(self.mean)

    def log_prob(self, action: torch.Tensor) -> torch.Tensor:
        # The density is that of u = atanh(a) divided by the slope of tanh there.
        u = torch.atanh(action.clamp(-1 + _EDGE, 1 - _EDGE))
        z = (u - self.mean) * torch.exp(-self.log_deviation)
        return (-0.5 * z**2 - self.log_deviation - HALF_LOG_2_PI - _log_slope(u)).sum(-1)

    def entropy(self) -> torch.Tensor:
        """Entropy of u plus E[log(1 − tanh²u)], the mean by Gauss–Hermite quadrature."""
        # There is no closed form; quadrature is differentiable and free of sampling noise.
        nodes, weights = (torch.as_tensor(part).to(self.mean) for part in _hermite())
        u = self.mean[..., None] + self.log_deviation.exp()[..., None] * nodes
        return (0.5 + HALF_LOG_2_PI + self.log_deviation + (_log_slope(u) * weights).sum(-1)).sum(-1)

    def with_temperature(self, temperature: float) -> Distribution:
        """The same with its variance before the squashing multiplied."""
        return TanhGaussian(self.mean, self.log_deviation + 0.5 * math.log(temperature))


def _log_slope(u: torch.Tensor) -> torch.Tensor:
    """log d tanh(u) / du."""
    # log(1 − tanh²u) directly is log 0 from about |u| = 9 on in float32.
    return 2 * (math.log(2) - u - F.softplus(-2 * u))


@cache
def _hermite(nodes: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights that average a function over N(0, 1)."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    # hermegauss weights integrate exp(−x²/2); divided by their sum they average.
    return x, w / w.sum()


def head_layers(width: int, hidden: int, outputs: int, gain: float) -> nn.Sequential:
    """(…, width) → (…, outputs) through one hidden layer, freshly initialised with `gain` in the last one."""
    head = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    initialise_head(head, gain)
    return head


@torch.no_grad()
def silence_head(layers: nn.Sequential) -> None:
    """Set the last linear layer to zero: whatever comes in, 0 comes out, and gradients still reach it."""
    last = next(layer for layer in reversed(layers) if isinstance(layer, nn.Linear))
    last.weight.zero_()
    last.bias.zero_()


class Head(nn.Module):
    """Layers that belong to one agent; a fleet stacks those of all of its agents."""

    layers: nn.Sequential


class DiscreteActor(Head):
    """(batch, width) features and a (batch, action) mask → MaskedCategorical."""

    def __init__(self, width: int, actions: int, hidden: int = 128) -> None:
        super().__init__()
        self.layers = head_layers(width, hidden, actions, ACTOR_GAIN)

    def forward(self, features: torch.Tensor, mask: torch.Tensor | None = None) -> MaskedCategorical:
        return MaskedCategorical(self.layers(features), mask)


class ContinuousActor(Head):
    """(batch, width) features → TanhGaussian of (batch, size); the deviation depends on the state too."""

    def __init__(self, width: int, size: int = 1, hidden: int = 128) -> None:
        super().__init__()
        self.layers = head_layers(width, hidden, 2 * size, ACTOR_GAIN)

    def forward(self, features: torch.Tensor, mask: torch.Tensor | None = None) -> TanhGaussian:
        """`mask` is for discrete actions; a continuous order is never masked."""
        mean, log_deviation = self.layers(features).chunk(2, dim=-1)
        # Bounded, or the density of a nearly certain action overflows.
        return TanhGaussian(mean, log_deviation.clamp(*_LOG_DEVIATION))


def make_actor(width: int, actions: int | None, hidden: int = 128) -> DiscreteActor | ContinuousActor:
    """The actor for `actions` discrete actions, or with None for one order in [-1, 1]."""
    return ContinuousActor(width, hidden=hidden) if actions is None else DiscreteActor(width, actions, hidden)


class Critic(Head):
    """(batch, width) features → (batch,) value."""

    def __init__(self, width: int, hidden: int = 128) -> None:
        super().__init__()
        # Gain 1: the actor's small gain is there for a near-uniform policy, which a value does not need.
        self.layers = head_layers(width, hidden, 1, 1.0)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.layers(features).squeeze(-1)  # type: ignore[no-any-return]
