"""What options of every task have in common."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["TaskOptions"]


class TaskOptions:
    """Options of a task: a frozen dataclass that names its problem.

    problem   as in `task=<problem>`        symbols   that are learned from; none named means all of them
    """

    problem: ClassVar[str]
    symbols: tuple[str, ...]

    @property
    def actions(self) -> tuple[str, str] | None:
        """The key by which the kind of action is chosen, and the kind; None where every method of the task can."""
        return None
