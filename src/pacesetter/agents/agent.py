"""The base of every decision maker, and a record of its decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import DataError

__all__ = [
    "ACTION_MASK",
    "CONFIDENCE",
    "METHOD_NETWORKS",
    "PROPOSALS",
    "UNIVERSE",
    "Agent",
    "Demonstrations",
    "Observation",
    "demonstrate",
]

Observation = Mapping[str, Array]  # named arrays of one environment, or of a batch of them
METHOD_NETWORKS = ("linear_cross", "shared", "team", "team_cross")  # of agent=direct, which has no encoder
ACTION_MASK = "action_mask"  # the entry (action,) that is true where a discrete action is allowed
# what agents say of each symbol where a fleet shares an account, and which symbols are present
PROPOSALS, CONFIDENCE, UNIVERSE = "proposals", "confidence", "universe_mask"


class Agent(ABC):
    """Maps an observation to an action; a batch of observations to a batch of actions.

    masked       whether it reads the entry `action_mask`
    takes_rows   whether one of the whole market answers for several markets or accounts at once
    has_memory   whether what it did before changes what it does; `reset` lets it forget
    reads_ahead  whether `read_market` answers for many bars at once; `act` then takes the row of its bar, not a window
    window_features   all that it reads of a market: these features of the window; None: more, or it does not say
    """

    if TYPE_CHECKING:  # to be read: an agent has them as attributes, or works them out

        @property
        def masked(self) -> bool: ...
        @property
        def takes_rows(self) -> bool: ...
        @property
        def has_memory(self) -> bool: ...
        @property
        def reads_ahead(self) -> bool: ...
        @property
        def window_features(self) -> tuple[str, ...] | None: ...

    else:
        masked = takes_rows = has_memory = reads_ahead = False
        window_features = None

    @abstractmethod
    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """The action, drawn at random unless `deterministic`."""

    def read_market(self, market: Observation) -> dict[str, Array]:
        """Entries (bar, …) of what consecutive bars say whatever the account, each from its own window alone.

        market   window and context (bar, …) of a whole market, each bar the one after the bar before
        """
        raise NotImplementedError(f"{type(self).__name__} reads bar by bar")

    def on_features(self, names: tuple[str, ...]) -> Agent:
        """The same agent for windows of these features alone, `window_features` among them."""
        raise NotImplementedError(f"{type(self).__name__} reads all features")

    def reset(self) -> None:  # noqa: B027 - most remember nothing
        """Forget the episode so far."""


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """What an agent saw, entry by entry (step, …), and what it did, (step, …)."""

    observations: dict[str, Array]
    actions: Array

    def __len__(self) -> int:
        return len(self.actions)


def demonstrate(agent: Agent, observations: Iterable[Observation]) -> Demonstrations:
    """The deterministic actions of `agent` on a stream of single observations; refuses an empty stream."""
    rows = [dict(observation) for observation in observations]
    if not rows:
        raise DataError("the stream of observations is empty; give at least one")
    actions = np.stack([agent.act(observation, deterministic=True) for observation in rows])
    return Demonstrations({name: np.stack([entry[name] for entry in rows]) for name in rows[0]}, actions)
