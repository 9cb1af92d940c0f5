"""Goals of an agent and options of its hindsight replay, `agent.hindsight` (Andrychowicz et al. 2017).

Nothing here imports torch: a configuration is checked without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pacesetter.errors import check_range
from pacesetter.learning.conditions import Conditions
from pacesetter.methods.goals.reward import ACHIEVED, DESIRED, Goals
from pacesetter.registry import configure

if TYPE_CHECKING:
    from pacesetter.build.tasks.task import Task

__all__ = ["ACHIEVED", "DESIRED", "GoalConditions", "HindsightConfig", "adapt_to_goals", "read_hindsight"]


@dataclass(frozen=True)
class HindsightConfig(Goals):
    """Goals, and how the replay relabels rows with returns that were reached.

    k          relabelled rows for each row as it was: a share k/(k + 1) of what is drawn; 0 relabels nothing
    strategy   where the new goal is from: a later bar of the same episode, any bar of it, or any bar of the replay
    """

    k: int = 4
    strategy: Literal["future", "episode", "random"] = "future"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(0, owner="agent.hindsight", k=self.k)

    @property
    def ratio(self) -> float:
        """Share of rows that are relabelled."""
        return self.k / (self.k + 1)


def read_hindsight(agent: Mapping[str, Any]) -> HindsightConfig | None:
    """The options among those of an agent; None where it has no goals."""
    stated = agent.get("hindsight")
    if stated is None or isinstance(stated, HindsightConfig):
        return stated
    return configure(HindsightConfig, stated, "agent.hindsight")


@dataclass(frozen=True)
class GoalConditions(Conditions):
    """Goals as `Conditions`: the desired return is asked for, the achieved one is the account's."""

    options: HindsightConfig

    def markets(self, markets: Sequence[Any]) -> list[Any]:
        from pacesetter.methods.goals.market import GoalMarket

        return [GoalMarket(market, self.options) for market in markets]

    def environment(self, env: Any) -> Any:
        from pacesetter.methods.goals.environment import GoalVectorEnv

        return GoalVectorEnv(env, self.options)

    def asked(self, run: Path | None) -> dict[str, tuple[float, ...]]:
        return {ACHIEVED: (), DESIRED: (self.options.goal,)}

    def names(self) -> dict[str, tuple[str, ...]]:
        return {ACHIEVED: ("achieved",), DESIRED: ("goal",)}

    def limits(self) -> dict[str, tuple[float, float]]:
        return {ACHIEVED: (-1.0, 10.0), DESIRED: (0.0, self.options.cap)}


def adapt_to_goals(task: Task, agent: Mapping[str, Any]) -> Task:
    """The task of an agent that is asked for goals; as it is where it has none."""
    options = read_hindsight(agent)
    return task if options is None else task.conditioned(GoalConditions(options))
