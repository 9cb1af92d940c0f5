"""Goals as what a policy is asked for, and the task of an agent that has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pacesetter.build.tasks.task import Task
from pacesetter.errors import ConfigError
from pacesetter.learning.conditions import Conditions
from pacesetter.learning.methods import AgentOptions
from pacesetter.methods.goals.goals import ACHIEVED, DESIRED, HindsightConfig, read_hindsight

if TYPE_CHECKING:
    from pacesetter.envs.vector import Environments
    from pacesetter.learning.experience.conditioned import ConditionedMarket
    from pacesetter.learning.experience.market import FleetMarket

__all__ = ["GoalConditions", "adapt_to_goals"]


@dataclass(frozen=True)
class GoalConditions(Conditions):
    """Goals as `Conditions`: the desired return is asked for, the achieved one is the account's.

    An achieved exposure is the position, which every observation holds.
    """

    options: HindsightConfig

    def markets(self, markets: Sequence[FleetMarket]) -> list[ConditionedMarket]:
        from pacesetter.methods.goals.market import GoalMarket

        return [GoalMarket(market, self.options) for market in markets]

    def environment(self, env: Environments) -> Environments:
        if self.options.kind != "return":
            raise ConfigError(f"agent.hindsight.kind={self.options.kind} is of fleets; take task=fleet, or kind=return")
        from pacesetter.methods.goals.environment import GoalVectorEnv

        return GoalVectorEnv(env, self.options)

    def default_request(self, run: Path | None) -> dict[str, tuple[float, ...]]:
        achieved: dict[str, tuple[float, ...]] = {ACHIEVED: ()} if self.options.kind == "return" else {}
        return achieved | {DESIRED: (self.options.goal,)}

    def names(self) -> dict[str, tuple[str, ...]]:
        achieved: dict[str, tuple[str, ...]] = {ACHIEVED: ("achieved",)} if self.options.kind == "return" else {}
        return achieved | {DESIRED: ("goal",)}

    def limits(self) -> dict[str, tuple[float, float]]:
        achieved = {ACHIEVED: (-1.0, 10.0)} if self.options.kind == "return" else {}
        return achieved | {DESIRED: (0.0, self.options.cap)}


def adapt_to_goals(task: Task, agent: AgentOptions) -> Task:
    """The task of an agent that is asked for goals; as it is where it has none."""
    options = read_hindsight(agent.options)
    return task if options is None else task.with_conditions(GoalConditions(options))
