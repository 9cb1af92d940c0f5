"""Schedules: how a weight changes with the number of steps."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from pacesetter.errors import ConfigError, did_you_mean

__all__ = ["Schedule"]

Kind = Literal["piecewise", "linear", "exponential", "cosine"]


@dataclass(frozen=True)
class Schedule:
    """A weight through (step, weight) points; before the first point and after the last it stays as it is there.

    kind      piecewise: each weight until the next point's step; linear: straight lines between points;
              exponential: a constant ratio per step between points, whose weights must have one sign;
              cosine: half a wave from point to point, level at both
    points    steps in increasing order; one point makes a constant
    """

    kind: Kind
    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigError(f"schedule kind '{self.kind}' is unknown{did_you_mean(str(self.kind), get_args(Kind))}")
        steps = [step for step, _ in self.points]
        weights = [weight for _, weight in self.points]
        if not steps or any(later <= earlier for earlier, later in pairwise(steps)):
            raise ConfigError(f"schedule points {self.points} need at least one step, in increasing order")
        if not all(map(math.isfinite, weights)):
            raise ConfigError(f"schedule points {self.points} have a weight that is not finite; give numbers")
        if self.kind == "exponential" and any(weight * weights[0] <= 0 for weight in weights):
            raise ConfigError(f"exponential schedule points {self.points} need weights of one sign and not 0")

    def at(self, step: int) -> float:
        """The weight at `step`."""
        # The point at or before `step` is place − 1; 0 and len(points) are outside, where the weight is held.
        place = bisect_right([start for start, _ in self.points], step)
        if place in (0, len(self.points)) or self.kind == "piecewise":
            return self.points[max(place - 1, 0)][1]
        (start, first), (end, last) = self.points[place - 1 : place + 1]
        done = (step - start) / (end - start)
        if self.kind == "linear":
            return first + done * (last - first)
        if self.kind == "cosine":
            return last + (first - last) * (1 + math.cos(math.pi * done)) / 2
        return first * math.pow(last / first, done)
