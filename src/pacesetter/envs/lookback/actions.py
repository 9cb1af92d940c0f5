"""From an action to a window: absolute or by a change, from a grid or continuous, and cut to what is feasible."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.compiled import njit
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.lookback.policy import SHORTEST

__all__ = ["Bounds", "Clamp", "Windows", "clamp_windows"]


class Clamp(IntFlag):
    """Why the window in force is not the one that was asked for."""

    NONE = 0
    BOUNDS = 1  # outside the bounds of the curriculum
    HISTORY = 2  # longer than the history before the bar
    DELTA = 4  # further from the window before than max_delta
    THIN = 8  # too little trading in it: the window before stays


NO_LIMIT = 2**40
BOUNDS, HISTORY, DELTA = int(Clamp.BOUNDS), int(Clamp.HISTORY), int(Clamp.DELTA)  # as compiled code reads them


class Bounds(NamedTuple):
    """Limits of a decision, (env,) each: `low` … `high` bars, `history` increments there are, and `before` in force."""

    low: Array
    high: Array
    history: Array
    before: Array


@dataclass(frozen=True)
class Windows:
    """The windows an agent chooses from and the ones it always sees, in bars."""

    shortest: Annotated[int, "window that can be chosen, in bars"] = 10
    longest: Annotated[int, "window that can be chosen, in bars"] = 250
    seen: Annotated[
        tuple[int, int, int],
        "the short, the middle and the long window of every observation",
    ] = (20, 60, 250)
    initial: Annotated[int | None, "in force when an episode starts; None: the middle one of `seen`"] = None
    action: Annotated[Literal["absolute", "delta"], "absolute: the window itself; delta: its change"] = "absolute"
    space: Annotated[
        Literal["discrete", "continuous"],
        "discrete: an entry of `grid` or `deltas`; continuous: −1 … 1, absolute on a logarithmic scale from "
        "shortest to longest, delta in units of `max_delta`",
    ] = "discrete"
    grid: tuple[int, ...] = (10, 20, 60, 120, 250)
    deltas: tuple[int, ...] = (-50, -10, 0, 10, 50)
    max_delta: Annotated[int | None, "largest change in one step; None: any"] = None

    def __post_init__(self) -> None:
        if not SHORTEST <= self.shortest < self.longest:
            raise ConfigError(
                f"windows.shortest={self.shortest} and longest={self.longest} must be {SHORTEST} bars or more, in order"
            )
        for name, values in (("seen", self.seen), ("grid", self.grid), ("deltas", self.deltas)):
            if not values or any(later <= earlier for earlier, later in pairwise(values)):
                raise ConfigError(f"windows.{name}={values} must be one number or more, in increasing order")
        if self.seen[0] < SHORTEST or not self.shortest <= self.grid[0] <= self.grid[-1] <= self.longest:
            raise ConfigError(
                f"windows.grid={self.grid} must be within {self.shortest} … {self.longest}, and windows.seen="
                f"{self.seen} must not begin below {SHORTEST}"
            )
        if self.max_delta is not None and self.max_delta < 1:
            raise ConfigError(f"windows.max_delta={self.max_delta} must be 1 bar or more, or None for any change")
        if self.action == "delta" and self.space == "continuous" and self.max_delta is None:
            raise ConfigError("continuous deltas are in units of windows.max_delta; give one, e.g. 50")
        if not self.shortest <= self.start <= self.longest:
            raise ConfigError(f"windows.initial={self.initial} must be within {self.shortest} … {self.longest}")

    @property
    def start(self) -> int:
        """The window in force when an episode starts."""
        return min(max(self.seen[1], self.shortest), self.longest) if self.initial is None else self.initial

    @cached_property
    def choices(self) -> Array:
        """(action,) what the discrete actions stand for: windows, or changes of the window."""
        return np.array(self.grid if self.action == "absolute" else self.deltas)

    def places(self, lookbacks: ArrayLike) -> Array:
        """Places of windows on the logarithmic scale, 0 the shortest and 1 the longest; same shape."""
        return np.asarray(np.log(np.maximum(lookbacks, 1) / self.shortest) / np.log(self.longest / self.shortest))

    def read_actions(self, actions: ArrayLike, before: Array) -> Array:
        """(env,) windows that actions ask for: (env,) places, or (env, 1) numbers in −1 … 1; refuses any other."""
        try:
            values = np.asarray(actions).reshape(len(before))
        except ValueError as problem:
            raise DataError(f"these lookback actions are not one for each of {len(before)} environments") from problem
        return self._of_places(values, before) if self.space == "discrete" else self._of_shares(values, before)

    def _of_places(self, places: Array, before: Array) -> Array:
        if places.dtype.kind not in "iu" or not _are_places(places, len(self.choices)):
            raise DataError(f"lookback action {places} is not a place from 0 to {len(self.choices) - 1}")
        meant: Array = self.choices[places]
        return meant if self.action == "absolute" else before + meant

    def _of_shares(self, shares: Array, before: Array) -> Array:
        if not np.all(np.abs(shares) <= 1.0):
            raise DataError(f"lookback action {shares[~(np.abs(shares) <= 1.0)][0]} is not a number from -1 to 1")
        if self.action == "delta":
            windows = before + np.rint(shares * float(self.max_delta or 0))
        else:
            # Geometric: from 10 to 20 bars matters as much as from 100 to 200.
            windows = np.rint(self.shortest * (self.longest / self.shortest) ** ((shares.astype(np.float64) + 1) / 2))
        return np.asarray(windows, dtype=np.int64)

    def list_windows(self, before: Array) -> Array:
        """(env, action) windows that each discrete action asks for."""
        from_here = before[:, None] if self.action == "delta" else np.zeros((len(before), 1), dtype=np.int64)
        return np.asarray(self.choices + from_here)


@njit(cache=True)
def _are_places(places: Array, count: int) -> bool:
    return bool(((places >= 0) & (places < count)).all())


def clamp_windows(asked: Array, bounds: Bounds, max_delta: int | None) -> tuple[Array, Array]:
    """The feasible windows nearest to those asked for (env, …), and why they differ as `Clamp` bits; same shape.

    Bounds come before the largest change, and history before both: a window without enough bars cannot be scored.
    """
    shape = np.shape(asked)
    windows, why = np.empty((2, len(asked), asked.size // len(asked)), dtype=np.int64)
    _clamp_windows(asked.reshape(windows.shape), *bounds, NO_LIMIT if max_delta is None else max_delta, windows, why)
    return windows.reshape(shape), why.reshape(shape)


@njit(cache=True)
def _clamp_windows(
    asked: Array, low: Array, high: Array, history: Array, before: Array, max_delta: int, windows: Array, why: Array
) -> None:
    for e in range(asked.shape[0]):
        # The largest change counts from the nearest feasible window: a stage that moved its bounds must not freeze the
        # agent outside.
        near = min(max(before[e], low[e]), high[e], history[e])
        for a in range(asked.shape[1]):
            close = min(max(asked[e, a], near - max_delta), near + max_delta)
            bounded = min(max(close, low[e]), high[e])
            windows[e, a] = min(bounded, history[e])
            flags = DELTA * (close != asked[e, a]) + BOUNDS * (bounded != close) + HISTORY * (bounded > history[e])
            why[e, a] = flags if windows[e, a] != asked[e, a] else 0  # history may undo what the bounds did
