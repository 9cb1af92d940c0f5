"""Goals of an episode: what to reach, and what a bar is paid for being near it. NumPy and torch alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.rewards.elementwise import maximum, where

__all__ = ["ACHIEVED", "DESIRED", "Goals", "Kind"]

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"  # entries (1,) of an observation, named as in Gymnasium-Robotics
Kind = Literal["return", "exposure"]


@dataclass(frozen=True)
class Goals:
    """What episodes aim for, as shares of equity.

    kind        return: that of equity since the episode began, which the market decides as much as the agent;
                exposure: the position held, which is in the agent's power
    goal        that validation, backtests and requests without one of their own aim for
    cap         training episodes draw theirs uniformly from 0 to it; a goal beyond it was never practised
    tolerance   what is within this distance of the goal has reached it
    scale       the reward falls in a line from 1 at the goal to 0 at this distance
    """

    goal: float = 0.02
    cap: float = 0.04
    tolerance: float = 0.001
    scale: float = 0.05
    kind: Kind = "return"

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            known = did_you_mean(str(self.kind), get_args(Kind))
            raise ConfigError(f"agent.hindsight.kind={self.kind!r} is unknown{known}")
        for name, value in (("cap", self.cap), ("tolerance", self.tolerance), ("scale", self.scale)):
            if not 0 < value < 1:
                raise ConfigError(f"agent.hindsight.{name}={value} must be above 0 and below 1")
        self.check(self.goal, "agent.hindsight.goal")

    def check(self, goal: float, key: str = "goal") -> None:
        """Refuse a goal that no training episode has."""
        if not 0 <= goal <= self.cap:
            raise ConfigError(f"{key}={goal} is beyond the cap; give 0 to {self.cap}, or a larger agent.hindsight.cap")

    def reward(self, achieved: Any, desired: Any) -> Any:
        """1 within the tolerance, else 1 − |achieved − desired| / scale, at least 0."""
        distance = abs(achieved - desired)
        return where(distance <= self.tolerance, 1.0, maximum(1.0 - distance / self.scale, 0.0))

    def is_reached(self, achieved: Any, desired: Any) -> Any:
        """True where what is achieved is within the tolerance of the goal."""
        return abs(achieved - desired) <= self.tolerance
