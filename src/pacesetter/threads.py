"""How many threads compiled loops use: no more than are free, since two that share a core with others crawl.

Threads of a parallel loop wait for the slowest of them. Where another process holds its core, a loop over two threads
takes several times as long as one thread alone, so the choice is measured while the loop is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["FasterOf", "use_threads"]

TRIALS = 3  # calls of each by which they are compared; the quickest counts
AGAIN_AFTER = 500  # calls until they are compared again


class FasterOf:
    """Of two functions that do the same, the one that is quicker at present; called as either of them.

    Each call does the work once. The first calls take turns, then the quicker one is used until the next comparison.
    """

    def __init__(
        self,
        one: Callable[..., Any],
        many: Callable[..., Any],
        clock: Callable[[], float] = time.perf_counter,
        again_after: int = AGAIN_AFTER,
    ) -> None:
        self.functions, self.clock, self.again_after = (one, many), clock, again_after
        self.compares = 0
        self._begin()

    def _begin(self) -> None:
        self._times: tuple[list[float], list[float]] = ([], [])
        self._chosen: Callable[..., Any] | None = None
        self._left = self.again_after

    @property
    def is_parallel(self) -> bool:
        """Whether the second one is in use."""
        return self._chosen is self.functions[1]

    def __call__(self, *given: Any) -> Any:
        if self._chosen is None:
            return self._timed(given)
        self._left -= 1
        if self._left <= 0:
            chosen = self._chosen
            self._begin()
            return chosen(*given)
        return self._chosen(*given)

    def _timed(self, given: tuple[Any, ...]) -> Any:
        first, second = self._times
        own, function = (first, self.functions[0]) if len(first) <= len(second) else (second, self.functions[1])
        start = self.clock()
        result = function(*given)
        own.append(self.clock() - start)
        if len(second) == TRIALS:
            self._chosen = self.functions[min(second) < min(first)]
            self.compares += 1
        return result


def use_threads(count: int) -> None:
    """Let compiled loops of this process use `count` threads, or all that numba was started with where those are fewer.

    Workers that share a machine are given their share of its cores.
    """
    import numba  # here, as the others are used without it

    numba.set_num_threads(max(min(count, int(numba.config.NUMBA_NUM_THREADS)), 1))  # type: ignore[attr-defined]
