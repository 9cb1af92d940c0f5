"""A policy with a stream encoder, served bar by bar: one token a symbol instead of a window of them.

The graph takes the newest bar with keys and values of the bars before it, and gives those of the newest to be kept.
Callers hand over windows as to any other policy, and only bars that are new are run: see `agents.stream.Following`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pacesetter.agents.layout import Tensors
from pacesetter.agents.stream import STREAM, Following, Memory, StreamEncoder
from pacesetter.policies.spec import AGES, KEPT, MEMORY, WINDOW, PolicySpec

__all__ = ["BarByBar", "StreamedPolicy", "streamed"]

Array = NDArray[Any]
Run = Callable[[Mapping[str, Array]], dict[str, Array]]


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
        self.run, self.following = run, Following(spec.memory)

    def __call__(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Answers for entries (row, …) with whole windows (row, bar, feature)."""

        def step(bar: int, memory: Array, ages: Array) -> tuple[dict[str, Array], Array]:
            newest = np.ascontiguousarray(feed[WINDOW][:, bar])
            answer = self.run({**feed, WINDOW: newest, MEMORY: memory, AGES: ages})
            return answer, answer[KEPT]

        return self.following(feed[WINDOW], step)
