"""The protocol that every decision maker implements, and a record of its decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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


@runtime_checkable
class Agent(Protocol):
    """Maps an observation to an action; a batch of observations to a batch of actions."""

    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """The action, drawn at random unless `deterministic`."""
        ...


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
