"""A market whose observations also say what the policy is asked for: a goal, or weights of its objectives.

It stands in place of the `FleetMarket` that it is made of, and answers by that what it does not change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from pacesetter.envs.batch.batch import Batch
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.experience.market import FleetMarket, FleetStep
from pacesetter.market.orders import Around

if TYPE_CHECKING:
    from pacesetter.envs.curriculum import Course

__all__ = ["ConditionedMarket", "SymbolMarket", "symbol_market"]


class ConditionedMarket(ABC):
    """Adds entries to what a market shows; a child says which, and how they change."""

    def __init__(self, market: FleetMarket) -> None:
        self.market = market

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

    def entries_of(self, observation: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """(env, …) what is asked for by default where others step the batch; a child reads there what it can."""
        return self.entries()

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

    def counterfactual(self) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """As the market's; a child whose entries an order changes says how."""
        return self.market.counterfactual()

    def figures_to_log(self) -> dict[str, torch.Tensor]:
        """(symbol,) figures for those of each round; none of most."""
        return {}

    # ---- as the market has it -------------------------------------------------------------------------------------

    @property
    def batch(self) -> Batch:
        return self.market.batch

    @property
    def course(self) -> Course | None:
        return self.market.course

    @property
    def device(self) -> torch.device:
        return self.market.device

    @property
    def symbols(self) -> tuple[str, ...]:
        return self.market.symbols

    @property
    def actions(self) -> int | None:
        return self.market.actions

    @property
    def envs_each(self) -> int:
        return self.market.envs_each

    @property
    def env_count(self) -> int:
        return self.market.env_count

    @property
    def is_fixed(self) -> bool:
        return self.market.is_fixed

    @property
    def tables(self) -> Tables:
        return self.market.tables

    @property
    def pool(self) -> torch.Tensor:
        return self.market.pool

    @property
    def waiting(self) -> torch.Tensor:
        return self.market.waiting

    @property
    def around(self) -> Around | None:
        return self.market.around

    def targets(self, actions: torch.Tensor) -> torch.Tensor:
        return self.market.targets(actions)

    def blocks_of(self, symbols: Collection[str]) -> list[int]:
        return self.market.blocks_of(symbols)

    # ---- storing --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, object]:
        """All that changes but the random numbers, which are torch's."""
        return {"market": self.market.state_dict()} | {name: rows.clone() for name, rows in self.remembered.items()}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.market.load_state_dict(stored["market"])
        for name, rows in self.remembered.items():
            rows.copy_(stored[name])

    @property
    @abstractmethod
    def remembered(self) -> dict[str, torch.Tensor]:
        """What changes from step to step, beside the market, which a checkpoint keeps."""


SymbolMarket: TypeAlias = FleetMarket | ConditionedMarket  # as many environments of each symbol, to be stepped


def symbol_market(environments: object) -> SymbolMarket:
    """The environments as a market of symbols, which those of a fleet's task are."""
    assert isinstance(environments, SymbolMarket), f"{type(environments).__name__} is not a market of symbols"
    return environments
