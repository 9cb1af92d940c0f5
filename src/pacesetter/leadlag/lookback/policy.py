"""How far back to look: the protocol where the lookback problem and the trading problem meet, and its schedule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel

__all__ = [
    "ConstantLookback",
    "FittedLookback",
    "LookbackPolicy",
    "StoredLookback",
    "load_schedule",
    "roll",
    "save_schedule",
]

SHORTEST = 2  # increments: the least that has a lead and a lag


class LookbackPolicy(ABC):
    """Chooses the window, in increments, that looks back from bar t.

    longest      the most it ever asks for
    has_memory   whether a choice depends on those before it beyond the window in force
    """

    if TYPE_CHECKING:  # to be read: a policy has them as fields, or works them out

        @property
        def longest(self) -> int: ...
        @property
        def has_memory(self) -> bool: ...

    else:
        has_memory = False

    @abstractmethod
    def choose(self, panel: Panel, t: int, previous: int) -> int:
        """The lookback at bar `t` from bars ≤ t, given the one in force before (0 at first)."""

    def release(self) -> None:  # noqa: B027 - most keep none
        """Give back the memory of its tables."""


@dataclass(frozen=True)
class ConstantLookback(LookbackPolicy):
    """The same window at every bar."""

    bars: int = 60

    def __post_init__(self) -> None:
        if self.bars < SHORTEST:
            raise ConfigError(f"lookback {self.bars} is too short; use at least {SHORTEST} bars")

    @property
    def longest(self) -> int:
        return self.bars

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        return self.bars


@dataclass(frozen=True, eq=False)
class FittedLookback(LookbackPolicy):
    """What a trained `policy` chooses after `fitted_until`; on the bars that it learned from `before` chooses."""

    policy: LookbackPolicy
    fitted_until: pd.Timestamp
    before: ConstantLookback

    @property
    def longest(self) -> int:
        return max(self.policy.longest, self.before.longest)

    @property
    def has_memory(self) -> bool:
        return self.policy.has_memory

    def release(self) -> None:
        self.policy.release()

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        # On its own training bars the policy's choices would be in-sample.
        chosen = self.policy if panel.index[t] > self.fitted_until else self.before
        return chosen.choose(panel, t, previous)


@dataclass(frozen=True, eq=False)
class StoredLookback(LookbackPolicy):
    """A schedule (time,) that was rolled before, as a policy."""

    schedule: Array

    @property
    def longest(self) -> int:
        return int(self.schedule.max(initial=SHORTEST))

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        if t >= len(self.schedule):
            raise DataError(
                f"the stored schedule ends at bar {len(self.schedule) - 1}; roll the policy again for bar {t}"
            )
        return int(self.schedule[t])


def roll(policy: LookbackPolicy, panel: Panel, known: Array | None = None) -> Array:
    """(time,) int lookbacks, one decision per bar in order, each cut to what history allows.

    Bar t has t increments before it: the choice is clipped into 2 … t, and 0 says that no window exists yet. `known`
    are the lookbacks of the first bars, where the policy chose on them before.
    """
    schedule = np.zeros(len(panel), dtype=np.int64)
    first = SHORTEST if known is None else max(len(known), SHORTEST)
    if known is not None:
        schedule[: len(known)] = known
    previous = int(schedule[first - 1])
    for t in range(first, len(panel)):
        previous = min(max(int(policy.choose(panel, t, previous)), SHORTEST), t)
        schedule[t] = previous
    return schedule


def save_schedule(path: str | Path, schedule: Array, panel: Panel) -> Path:
    """Write a schedule with the fingerprint of its panel as an `.npz` file without pickles."""
    path = Path(path).with_suffix(".npz")
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, schedule=np.asarray(schedule, np.int64), fingerprint=np.array(panel.fingerprint))
    return path


def load_schedule(path: str | Path, panel: Panel) -> Array:
    """The stored (time,) schedule; refuses a damaged file and one that was rolled on another panel."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            schedule: Array = stored["schedule"]
            fingerprint = str(stored["fingerprint"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as problem:
        raise DataError(
            f"{path} is not a stored schedule ({type(problem).__name__}); roll the policy again"
        ) from problem
    if fingerprint != panel.fingerprint:
        raise DataError(f"{path} was rolled on other bars than {panel!r}; roll the policy again")
    return schedule
