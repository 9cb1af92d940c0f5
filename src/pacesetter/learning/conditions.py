"""What a policy may be asked for beside the market, e.g. a goal: entries of its observation that somebody chooses.

What a method makes of a task (`TaskSupport.adapt`) may be the same task with conditions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    from pacesetter.envs.task_options import TaskOptions
    from pacesetter.envs.vector import Environments
    from pacesetter.learning.experience.conditioned import ConditionedMarket
    from pacesetter.learning.experience.market import FleetMarket

__all__ = ["Conditions"]

Options = TypeVar("Options", bound="TaskOptions")


class Conditions(ABC):
    """The entries that a method adds to observations, and who fills them.

    observe, page   as of a `Task`, where a run is to be metered or shown in another way; "": as before
    """

    observe: ClassVar[str] = ""
    page: ClassVar[str] = ""

    @abstractmethod
    def markets(self, markets: Sequence[FleetMarket]) -> list[ConditionedMarket]:
        """Markets of a fleet with the entries; those given together share what is learned of them."""

    @abstractmethod
    def environment(self, env: Environments) -> Environments:
        """A vector environment with the entries; refuses where the method has none."""

    def task(self, task: Options) -> Options:
        """The options of a task as the method needs them."""
        return task

    @abstractmethod
    def default_request(self, run: Path | None) -> dict[str, tuple[float, ...]]:
        """Entry -> numbers that a policy of the `run` is asked for by default; () where the account says them."""

    @abstractmethod
    def names(self) -> dict[str, tuple[str, ...]]:
        """Entry -> names of its numbers."""

    @abstractmethod
    def limits(self) -> dict[str, tuple[float, float]]:
        """Entry -> least and greatest number that may be asked for."""
