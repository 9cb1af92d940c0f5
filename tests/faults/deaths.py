"""How a process under test ends: killed by itself, at a sync to disk, at a rename, or after some seconds."""

from __future__ import annotations

import os
import random
import signal
from typing import Any

__all__ = ["DEATHS", "Death", "die_at", "draw_death"]

Death = tuple[str, float]
DEATHS = (0, -signal.SIGKILL, -signal.SIGALRM)  # exit codes: none, or one of these deaths


def die_at(kind: str, count: float) -> None:
    """Kill this process at its `count`-th sync to disk or rename, or after so many seconds."""
    if kind == "seconds":
        signal.setitimer(signal.ITIMER_REAL, count)  # whose signal nobody handles: the process ends at once
        return
    original, left = getattr(os, kind), [count]

    def counted(*given: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*given)

    setattr(os, kind, counted)


def draw_death(chance: random.Random, writes: int, seconds: float) -> Death:
    """One of the three kinds, within so many syncs or renames, or so many seconds."""
    return chance.choice(
        [
            ("fsync", chance.randint(1, 2 * writes)),
            ("replace", chance.randint(1, writes)),
            ("seconds", chance.uniform(0.001, seconds)),
        ]
    )
