"""What a policy may be asked for beside the market, e.g. a goal: entries of its observation that somebody chooses.

A method declares a function in `TaskSupport.conditions` that makes them of its options.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from pacesetter.learning.methods import METHODS, load

__all__ = ["Conditions", "conditions_of"]


class Conditions(Protocol):
    """The entries that a method adds to observations, and who fills them.

    observers   key of `jobs.run.observers.OBSERVERS`, where a run is to be metered in another way; None: as before
    """

    observers: str | None

    def market(self, market: Any) -> Any:
        """A fleet's market with the entries."""

    def environment(self, env: Any) -> Any:
        """A vector environment with the entries; refuses where the method has none."""

    def task(self, task: Any) -> Any:
        """The options of a task as the method needs them."""

    def asked(self, run: Path | None) -> dict[str, tuple[float, ...]]:
        """Entry -> numbers that a policy of the `run` is asked for by default; () where the account says them."""

    def names(self) -> dict[str, tuple[str, ...]]:
        """Entry -> names of its numbers."""

    def limits(self) -> dict[str, tuple[float, float]]:
        """Entry -> least and greatest number that may be asked for."""


def conditions_of(agent: Mapping[str, Any], task: str) -> Conditions | None:
    """What the method of an agent adds to the observations of a task; None for most."""
    name = str(agent.get("algorithm", ""))
    supports = (support for support in METHODS[name].supports if task in support.tasks)
    declared = next((support.conditions for support in supports), None)
    return None if declared is None else load(declared)(agent)
