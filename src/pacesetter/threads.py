"""How many threads compiled loops use: no more than are free, since two that share a core with others crawl.

Threads of a parallel loop wait for the slowest of them. Where another process holds its core, a loop over two threads
takes several times as long as one thread alone, so the choice is measured while the loop is used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pacesetter.compiled import load_numba

__all__ = ["FasterOf", "compiled_threads", "cores_are_taken", "use_threads"]

TRIALS = 8  # calls of each by which they are compared
LEAST_TRIALS = 3  # after which a comparison ends where the second one is far behind
FAR_BEHIND = 1.5  # times the first one's seconds
GAIN = 0.9  # of the first one's seconds that the second may take at most: less is not worth a wait for other threads
WATCHED = 32  # calls of the second one, after which it is held against the first again
AGAIN_AFTER = 500  # calls until they are compared again
MOST_BACK_OFF = 8  # times as many, while one thread keeps winning
LOAD = Path("/proc/loadavg")
ROOM = 0.25  # of a core that others leave free, and that is not worth a thread


def cores_are_taken(own: int) -> bool:
    """Whether other processes keep every core busy, in the last minute or now, `own` threads not counted."""
    return _count_running() - own > (os.cpu_count() or 1) - ROOM


def _count_running(path: Path = LOAD) -> float:
    """Threads that run or wait for a core: the mean of the last minute, or those of now where they are more."""
    try:
        minute, _, _, now, _ = path.read_text(encoding="ascii").split()  # e.g. 0.20 0.18 0.12 1/80 11206
        return max(float(minute), float(now.partition("/")[0]))
    except (OSError, ValueError):
        # Not Linux; and Windows does not tell.
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


class FasterOf:
    """Of two functions that do the same, the one that is quicker at present; called as either of them.

    Each call does the work once. Where all cores are taken, the first one is used. Otherwise they take turns, and the
    second one must win by its sum, in which a rare long wait counts, and by its median, which one short wait of the
    first one cannot decide. It is then watched, and dropped as soon as it is slower than the first one was.

    is_taken   whether other processes have the cores, given how many threads are ours: `cores_are_taken`
    """

    def __init__(
        self,
        one: Callable[..., object],
        many: Callable[..., object],
        clock: Callable[[], float] = time.perf_counter,
        again_after: int = AGAIN_AFTER,
        is_taken: Callable[[int], bool] = cores_are_taken,
    ) -> None:
        self.functions, self.clock, self.again_after, self.is_taken = (one, many), clock, again_after, is_taken
        self.compares, self._back_off = 0, 1
        self._mean_of_one, self._seconds = 0.0, list[float]()  # of a call of the first one; latest of the second one
        self._chosen: Callable[..., object] | None = None
        self._begin()

    @property
    def is_parallel(self) -> bool:
        """Whether the second one is in use."""
        return self._chosen is self.functions[1]

    def __call__(self, *given: object) -> Any:
        self._left -= self._chosen is not None  # a comparison is brought to its end
        if self._left == 0:
            self._begin()
        if self._chosen is None:
            return self._try_turn(given)
        return self._watch_second(given) if self.is_parallel else self._chosen(*given)

    def _begin(self) -> None:
        """Compare again with the next call, unless others have the cores."""
        is_taken = self.is_taken(1 + self.is_parallel)
        self._times: tuple[list[float], list[float]] = ([], [])
        self._chosen, self._left = (self.functions[0] if is_taken else None), self.again_after

    def _try_turn(self, given: tuple[object, ...]) -> Any:
        """A call of the one whose turn it is."""
        first, second = self._times
        is_first = len(first) <= len(second)
        result = self._time_call(self.functions[0 if is_first else 1], given, first if is_first else second)
        is_over = len(second) == TRIALS
        if len(first) == len(second) >= LEAST_TRIALS:
            is_over = is_over or sum(second) > FAR_BEHIND * sum(first)
        if is_over:
            self._choose()
        return result

    def _choose(self) -> None:
        first, second = self._times
        is_quicker = all(of(second) < GAIN * of(first) for of in (sum, median))
        self._back_off = 1 if is_quicker else min(2 * self._back_off, MOST_BACK_OFF)
        self._chosen, self._left = self.functions[is_quicker], self.again_after * self._back_off
        self.compares += 1
        self._mean_of_one, self._seconds = sum(first) / len(first), []

    def _watch_second(self, given: tuple[object, ...]) -> Any:
        """A call of the second one, which is dropped where the latest ones took longer than the first one did."""
        result = self._time_call(self.functions[1], given, self._seconds)
        if len(self._seconds) == WATCHED:
            if sum(self._seconds) > WATCHED * self._mean_of_one:
                self._chosen, self._left = self.functions[0], self.again_after
            self._seconds = []
        return result

    def _time_call(self, function: Callable[..., object], given: tuple[object, ...], times: list[float]) -> Any:
        start = self.clock()
        result = function(*given)
        times.append(self.clock() - start)
        return result


def compiled_threads() -> int:
    """How many threads compiled loops of this process use."""
    return int(load_numba().get_num_threads())


def use_threads(count: int) -> None:
    """Let compiled loops of this process use `count` threads, or all that numba was started with where those are fewer.

    Workers that share a machine are given their share of its cores.
    """
    numba = load_numba()
    numba.set_num_threads(max(min(count, int(numba.config.NUMBA_NUM_THREADS)), 1))
