"""A market whose observations also say what the policy is asked for: a goal, or weights of its objectives.

It stands in place of the `FleetMarket` that it is made of: what it does not know itself, that market answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import torch

from pacesetter.learning.experience.market import FleetMarket, FleetStep

__all__ = ["ConditionedMarket"]


class ConditionedMarket(ABC):
    """Adds entries to what a market shows; a child says which, and how they change."""

    remembered: tuple[str, ...] = ()  # attributes, tensors, that a checkpoint keeps

    def __init__(self, market: FleetMarket) -> None:
        self.market = market

    def __getattr__(self, name: str) -> Any:
        if name == "market":  # not made yet, e.g. while it is copied
            raise AttributeError(name)
        return getattr(self.market, name)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Those of the market, and of the entries that are added."""
        return dict(self.market.shapes) | {name: tuple(entry.shape[1:]) for name, entry in self.entries().items()}

    # ---- what a child says ----------------------------------------------------------------------------------------

    @abstractmethod
    def entries(self) -> dict[str, torch.Tensor]:
        """(env, …) what is added to the observation of now."""

    @abstractmethod
    def begin(self, rows: torch.Tensor) -> None:
        """Begin an episode in the environments where (env,) `rows` is true."""

    @abstractmethod
    def advance(self, step: FleetStep) -> FleetStep:
        """Take note of a step; gives it with the rewards that are learned from. No episode has begun again yet."""

    def before_showing(self, observation: Mapping[str, torch.Tensor]) -> None:  # noqa: B027 - most need not look
        """See what is about to be shown, before `entries` are added to it; nothing for most."""

    @abstractmethod
    def again(self, market: FleetMarket) -> ConditionedMarket:
        """The same for another market."""

    # ---- stepping -------------------------------------------------------------------------------------------------

    def reset(self) -> dict[str, torch.Tensor]:
        """Begin an episode in every environment."""
        observation = self.market.reset()
        self.begin(torch.ones(self.market.env_count, dtype=torch.bool, device=self.market.device))
        self.before_showing(observation)
        return observation | self.entries()

    def step(self, actions: torch.Tensor) -> FleetStep:
        """Step every environment; entries at the end of an episode are those of that episode."""
        # In this order: finals show the entries of the episode that ends, then episodes begin, then theirs are shown.
        step = self.advance(self.market.step(actions))
        self.before_showing(step.finals)
        finals = step.finals | self.entries()
        self.begin(step.terminated | step.truncated)
        self.before_showing(step.observation)
        return step._replace(observation=step.observation | self.entries(), finals=finals)

    def select(self, symbols: Collection[str]) -> ConditionedMarket:
        """The same with some of its symbols alone."""
        return self.again(self.market.select(symbols))

    # ---- storing --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that changes but the random numbers, which are torch's."""
        return {"market": self.market.state_dict()} | {name: getattr(self, name).clone() for name in self.remembered}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.market.load_state_dict(stored["market"])
        for name in self.remembered:
            getattr(self, name).copy_(stored[name])
