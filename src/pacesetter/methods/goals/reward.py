"""Goals of an episode: a return of equity to reach, and what a bar is paid for being near it. NumPy and torch alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pacesetter.errors import ConfigError
from pacesetter.rewards.elementwise import maximum, where

__all__ = ["ACHIEVED", "DESIRED", "Goals"]

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"  # entries (1,) of an observation, named as in Gymnasium-Robotics


@dataclass(frozen=True)
class Goals:
    """Which returns episodes aim for, as shares of equity since the episode began.

    goal        that validation, backtests and requests without one of their own aim for
    cap         training episodes draw theirs uniformly from 0 to it; a goal beyond it was never practised
    tolerance   a return within this distance of the goal has reached it
    scale       the reward falls in a line from 1 at the goal to 0 at this distance
    """

    goal: float = 0.02
    cap: float = 0.04
    tolerance: float = 0.001
    scale: float = 0.05

    def __post_init__(self) -> None:
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
        """True where the return is within the tolerance of the goal."""
        return abs(achieved - desired) <= self.tolerance
