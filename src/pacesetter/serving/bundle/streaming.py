"""A policy with a stream encoder, served bar by bar: one token a symbol instead of a window of them.

The graph takes the newest bar with keys and values of the bars before it, and gives those of the newest to be kept.
Callers hand over windows as to any other policy. `BarByBar` compares each with the one before and runs only the bars
that are new, so an answer never depends on what was asked before: a window that does not follow is run from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pacesetter.agents.layout import Tensors
from pacesetter.agents.stream import STREAM, Memory, StreamEncoder
from pacesetter.policies.spec import AGES, KEPT, MEMORY, WINDOW, PolicySpec

__all__ = ["BarByBar", "StreamedPolicy", "streamed"]

Array = NDArray[Any]
Run = Callable[[Mapping[str, Array]], dict[str, Array]]
MOST_NEW = 8  # bars between two windows that are run one by one; more are run from the start, which is as exact


class StreamedPolicy(nn.Module):
    """A policy's module that takes the newest bar (row, feature) and a memory, and gives what is to be kept, too."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.encoder = next(part for part in module.modules() if isinstance(part, StreamEncoder))

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        memory = Memory(observation[MEMORY], observation[AGES].long())
        encoded, kept = self.encoder.append(observation[WINDOW], memory)
        rest = {name: entry for name, entry in observation.items() if name not in (WINDOW, MEMORY, AGES)}
        return (*self.module({**rest, STREAM: encoded}), kept)


def streamed(module: nn.Module) -> StreamedPolicy:
    """The module for one bar at a time."""
    return StreamedPolicy(module)


class BarByBar:
    """Windows answered by a graph that takes one bar at a time; `run` maps its inputs to its outputs."""

    def __init__(self, run: Run, spec: PolicySpec) -> None:
        self.run, self.spec, self._lock = run, spec, Lock()
        self._window: Array | None = None  # the last, whose newest bar is not in the memory yet
        self._memory, self._ages, self._kept, self._slot = np.empty(0), np.empty(0), np.empty(0), 0

    def __call__(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Answers for entries (row, …) with whole windows (row, bar, feature)."""
        with self._lock:
            window = feed[WINDOW]
            new = self._new_bars(window)
            if new is None:
                self._forget(len(window))
                new = window.shape[1]
            elif new:
                self._keep()
            for bar in range(window.shape[1] - new, window.shape[1] - 1):
                self._kept = self._at(feed, bar)[KEPT]
                self._keep()
            answer = self._at(feed, window.shape[1] - 1)
            self._kept, self._window = answer[KEPT], window.copy()
            return answer

    def _new_bars(self, window: Array) -> int | None:
        """How many bars behind the last window this one ends; None where it does not follow from it."""
        if self._window is None or self._window.shape != window.shape:
            return None
        for new in range(min(MOST_NEW, window.shape[1] - 1) + 1):
            if np.array_equal(self._window[:, new:], window[:, : window.shape[1] - new], equal_nan=True):
                return new
        return None

    def _at(self, feed: Mapping[str, Array], bar: int) -> dict[str, Array]:
        newest = np.ascontiguousarray(feed[WINDOW][:, bar])
        return self.run({**feed, WINDOW: newest, MEMORY: self._memory, AGES: self._ages})

    def _forget(self, rows: int) -> None:
        bars = self.spec.memory[2]
        self._memory = np.zeros((rows, *self.spec.memory), np.float32)
        self._ages, self._slot = np.full((rows, bars), bars + 1, np.float32), 0

    def _keep(self) -> None:
        """Take the newest bar into the memory, in place of the oldest."""
        bars = self.spec.memory[2]
        self._memory[:, :, :, self._slot] = self._kept
        self._ages = np.minimum(self._ages + 1, bars + 1)
        self._ages[:, self._slot] = 1
        self._slot = (self._slot + 1) % bars
