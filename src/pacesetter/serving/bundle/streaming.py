"""A policy with a stream encoder, served bar by bar: one token a symbol instead of a window of them.

The graph takes the newest bar with keys and values of the bars before it, and gives those of the newest to be kept.
Callers hand over windows as to any other policy, and only bars that are new are run: see `Following`.
Served without torch; `export.StreamedPolicy` is what such a graph is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pacesetter.agents.stream.following import Following
from pacesetter.arrays import Array
from pacesetter.policies.spec import AGES, KEPT, MEMORY, WINDOW, PolicySpec

__all__ = ["BarByBar"]

Run = Callable[[Mapping[str, Array]], dict[str, Array]]


class BarByBar:
    """Windows answered by a graph that takes one bar at a time; `run` maps its inputs to its outputs."""

    def __init__(self, run: Run, spec: PolicySpec) -> None:
        self.run, self.spec, self.following = run, spec, Following(spec.memory)

    def __call__(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Answers for entries (row, …) with whole windows (row, bar, feature)."""

        def step(bar: int, memory: Array, ages: Array) -> tuple[dict[str, Array], Array]:
            newest = np.ascontiguousarray(feed[WINDOW][:, bar])
            answer = self.run({**feed, WINDOW: newest, **self._parts(memory), AGES: ages})
            return answer, answer[KEPT]

        return self.following(feed[WINDOW], step)

    def _parts(self, memory: Array) -> dict[str, Array]:
        """The memory (row, layer, 2, bar, width) as the graph takes it."""
        if not self.spec.is_apart:
            return {MEMORY: np.ascontiguousarray(memory)}
        layers, pair = self.spec.memory[:2]
        parts = (memory[:, layer, part] for layer in range(layers) for part in range(pair))  # nothing is copied
        return dict(zip(self.spec.memory_parts, parts, strict=True))
