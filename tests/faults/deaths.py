"""Lives that end early: killed by themselves at a sync to disk, at a rename, or after some time, and begun again.

`outlive` is for a process of its own: it lives once in peace, by which everything is imported and compiled, and forks.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

__all__ = ["END", "FORKS", "Death", "Life", "die_at", "outlive", "outlive_apart"]

END = "end.json"  # in the folder of a life, what it came to; written last
KINDS = ("fsync", "replace")
# Settings of a process that forks: with threads of OpenMP it must not, and numba's own pool begins again in a child.
FORKS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
FORKS |= {"NUMBA_THREADING_LAYER": "workqueue"}

Death = tuple[str, float]
Live = Callable[[Path], None]  # begins in a folder or resumes there, and writes END


class Life(NamedTuple):
    """What a life in peace consists of."""

    fsync: int
    replace: int
    seconds: float


def die_at(kind: str, count: float) -> None:
    """Kill this process at its `count`-th sync to disk or rename, or after so many seconds."""
    if kind == "seconds":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, count)  # whose signal nobody handles: the process ends at once
        return
    original, left = getattr(os, kind), [count]

    def counted(*given: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*given)

    setattr(os, kind, counted)


def draw_death(chance: random.Random, life: Life) -> Death:
    """Of one of the three kinds, anywhere in a life."""
    kind = chance.choice((*KINDS, "seconds"))
    if kind == "seconds":
        return kind, chance.uniform(0.001, life.seconds)
    return kind, chance.randint(1, getattr(life, kind))


def live_in_peace(live: Live, folder: Path) -> Life:
    """Live twice: the first time imports, compiles and is counted, the second one is timed."""
    counters = {kind: mock.Mock(side_effect=getattr(os, kind)) for kind in KINDS}
    for name in ("counted", "timed"):
        (folder / name).mkdir(parents=True)
    with mock.patch.multiple(os, **counters):
        live(folder / "counted")
    begun = time.monotonic()
    live(folder / "timed")
    return Life(*(counters[kind].call_count for kind in KINDS), time.monotonic() - begun)


def live_in_child(live: Live, folder: Path, death: Death | None) -> int:
    """The exit code of a forked process that lives until its death; minus the signal where one ended it."""
    child = os.fork()
    if child == 0:
        try:
            if death is not None:
                die_at(*death)
            live(folder)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outlive(live: Live, folder: Path, kills: int, seed: str) -> tuple[int, int, str]:
    """Kill so often, over as many runs as that takes, each of which must end as the one in peace.

    Gives the number of kills and of runs, and what they all came to.
    """
    chance, died, runs = random.Random(seed), 0, 0
    life = live_in_peace(live, folder / "whole")
    expected, again = ((folder / "whole" / name / END).read_text() for name in ("counted", "timed"))
    assert again == expected, "it does not repeat"
    while died < kills:
        runs += 1
        where = folder / str(runs)
        where.mkdir()
        while not (where / END).exists():
            death = draw_death(chance, life) if died < kills else None
            code = live_in_child(live, where, death)
            assert code in (0, -signal.SIGKILL, -signal.SIGALRM), f"run {runs} ended with {code} for {death}"
            died += code != 0
        assert (where / END).read_text() == expected, f"run {runs} ended elsewhere"
        shutil.rmtree(where)
    return died, runs, expected


def outlive_apart(live: Live, folder: Path, kills: int, seed: str) -> tuple[int, int, str]:
    """`outlive` in a new process, since this one may have threads; `live` must be known to pickle."""
    context = multiprocessing.get_context("spawn")
    with mock.patch.dict(os.environ, FORKS), ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(outlive, live, folder, kills, seed).result()
