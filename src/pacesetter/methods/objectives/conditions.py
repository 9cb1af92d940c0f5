"""Weights of objectives as what a policy is asked for. Nothing here imports torch: a configuration is checked without.

`agent.objectives` become components of the task's reward, so that their vector comes from the ledger to the learner.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacesetter.build.trading import Trading
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.learning.conditions import Conditions, Options
from pacesetter.learning.methods import AgentOptions
from pacesetter.rewards.component import REWARDS
from pacesetter.rewards.objectives import OBJECTIVES
from pacesetter.rewards.reward import RewardConfig
from pacesetter.rewards.scalarise import ACCRUED, PREFERENCE
from pacesetter.runs import FRONT

if TYPE_CHECKING:
    from pacesetter.build.tasks.task import Task
    from pacesetter.envs.vector import Environments
    from pacesetter.learning.experience.conditioned import ConditionedMarket
    from pacesetter.learning.experience.market import FleetMarket

__all__ = ["SCALARISATIONS", "UTILITIES", "ObjectiveConditions", "adapt_to_objectives", "first_weights"]

SCALARISATIONS = ("weighted_sum", "chebyshev", "state_dependent")
UTILITIES = ("sharpe", "growth", "sortino")  # of a whole episode; see `preference.episode_utility`


def first_weights(stated: Mapping[str, Any] | None) -> dict[str, float]:
    """Objective -> its first weight, as shares of 1; the programme's five where none are stated.

    Refuses one objective alone, an unknown one, and weights that are not above 0.
    """
    weights = dict(OBJECTIVES if stated is None else stated)
    if len(weights) < 2:
        raise ConfigError(
            f"agent.objectives={weights} is one objective or none, and there is nothing to weigh; name two or more, or "
            "take agent=sac"
        )
    for name, weight in weights.items():
        if name not in REWARDS:
            raise ConfigError(f"agent.objectives names '{name}', not a reward component{did_you_mean(name, REWARDS)}")
        is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not (is_number and math.isfinite(weight) and weight > 0):
            raise ConfigError(f"agent.objectives.{name}={weight!r} must be a weight above 0")
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


@dataclass(frozen=True, eq=False)
class ObjectiveConditions(Conditions):
    """Weights as `Conditions`. Markets share one search: validation plays by the weights that training found."""

    observe = "pacesetter.methods.objectives.validator:observe"
    page = "pacesetter.methods.objectives.page:run_sections"

    options: Mapping[str, Any]
    weights: dict[str, float]

    @property
    def is_chebyshev(self) -> bool:
        return self.options.get("scalarisation") == "chebyshev"

    def markets(self, markets: Sequence[FleetMarket]) -> list[ConditionedMarket]:
        from pacesetter.methods.objectives.market import PreferenceMarket, make_search

        search = make_search(self.options, self.weights, markets[0].device)
        return [PreferenceMarket(market, search) for market in markets]

    def environment(self, env: Environments) -> Environments:
        raise ConfigError("agent=mosac trains a fleet; take task=fleet, with one symbol by task.symbols if need be")

    def task(self, task: Options) -> Options:
        assert isinstance(task, Trading)
        if task.reward.paid != "bar":
            raise ConfigError("agent=mosac learns from objectives of every bar; take task.reward.paid=bar")
        if task.aversion is not None:
            raise ConfigError(
                f"task.aversion={task.aversion:g} changes the component pnl, and agent=mosac learns from "
                "agent.objectives as they are; leave it out, or name variance among the objectives"
            )
        # Unclipped: the learner scales every objective by its own deviation.
        return replace(task, reward=RewardConfig(components=dict(self.weights), clip=None))

    def default_request(self, run: Path | None) -> dict[str, tuple[float, ...]]:
        chosen = tuple(self.weights.values())
        if run is not None and (run / FRONT).is_file():
            stored = json.loads((run / FRONT).read_text(encoding="utf-8"))
            chosen = tuple(stored["points"][stored["chosen"]]["preference"])
        return {PREFERENCE: chosen} | ({ACCRUED: (0.0,) * len(chosen)} if self.is_chebyshev else {})

    def names(self) -> dict[str, tuple[str, ...]]:
        names = tuple(self.weights)
        return {PREFERENCE: names} | ({ACCRUED: names} if self.is_chebyshev else {})

    def limits(self) -> dict[str, tuple[float, float]]:
        return {PREFERENCE: (0.0, 1.0), ACCRUED: (-1e6, 1e6)}


def adapt_to_objectives(task: Task, agent: AgentOptions) -> Task:
    """The task whose policy is asked for weights of objectives; refuses an unknown scalarisation or utility."""
    for key, known in (("scalarisation", SCALARISATIONS), ("utility", UTILITIES)):
        if agent.options.get(key, known[0]) not in known:
            raise ConfigError(
                f"agent.{key}={agent.options[key]!r} is unknown{did_you_mean(str(agent.options[key]), known)}"
            )
    return task.with_conditions(ObjectiveConditions(agent.to_dict(), first_weights(agent.options.get("objectives"))))
