"""Which bars of a window are new, and what is kept of those before them: in NumPy, so that a server needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import numpy as np

from pacesetter.arrays import Array

__all__ = ["Following"]

MOST_NEW = 8  # bars between two windows that are run one by one; more are run from the start, which is as exact

AnswerT = TypeVar("AnswerT")
Step = Callable[[int, Array, Array], tuple[AnswerT, Array]]


class Following:
    """Windows that follow one another, answered by running their new bars alone.

    Each is compared with the one before it, so an answer never depends on what was asked earlier: a window that does
    not follow, because bars are missing or were corrected, is run from its first bar.

    What is kept of earlier bars, (row, layer, 2, bar, width) as in `encoder.Memory`; `shape` is of one row.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self._lock = shape, Lock()
        self._window: Array | None = None  # the last, whose newest bar is not in the memory yet
        self._memory: Array = np.empty(0)
        self._ages, self._kept, self._slot = np.empty(0), np.empty(0), 0

    def __call__(self, window: Array, step: Step[AnswerT]) -> AnswerT:
        """The answer of `step` at the newest bar of a window (row, bar, feature).

        `step` maps the place of a bar in the window, the memory before it and its ages to an answer, and to the keys
        and values (row, layer, 2, width) that are kept of the bar.
        """
        with self._lock:
            last, new = window.shape[1] - 1, self._new_bars(window)
            self._window = None  # a step that fails leaves nothing half done
            if new is None:
                self._forget(len(window))
                new = last + 1
            elif new:
                self._keep()
            for bar in range(last + 1 - new, last):
                _, self._kept = step(bar, self._memory, self._ages)
                self._keep()
            answer, self._kept = step(last, self._memory, self._ages)
            self._window = window.copy()
            return answer

    def reset(self) -> None:
        """Forget all bars, as when weights have changed."""
        self._window = None

    def _new_bars(self, window: Array) -> int | None:
        """How many bars behind the last window this one ends; None where it does not follow from it."""
        if self._window is None or self._window.shape != window.shape:
            return None
        ours, theirs = _bits(self._window), _bits(window)
        for new in range(min(MOST_NEW, window.shape[1] - 1) + 1):
            # One bar first: of windows that do not match, the others need not be read.
            is_near = np.array_equal(ours[:, -1], theirs[:, -1 - new])
            if is_near and np.array_equal(ours[:, new:], theirs[:, : window.shape[1] - new]):
                return new
        return None

    def _forget(self, rows: int) -> None:
        layers, pair, bars, width = self.shape
        # Rows of a layer's keys lie together, and those of its values: a graph takes each as it lies.
        self._memory = np.zeros((layers, pair, rows, bars, width), np.float32).transpose(2, 0, 1, 3, 4)
        self._ages, self._slot = np.full((rows, bars), bars + 1, np.float32), 0

    def _keep(self) -> None:
        """Take the newest bar into the memory, in place of the oldest."""
        bars = self.shape[2]
        self._memory[:, :, :, self._slot] = self._kept
        self._ages = np.minimum(self._ages + 1, bars + 1)
        self._ages[:, self._slot] = 1
        self._slot = (self._slot + 1) % bars


def _bits(window: Array) -> Array:
    """A window's numbers as whole ones: equal where all bits are the same, NaN included."""
    return window.view(f"i{window.itemsize}")
