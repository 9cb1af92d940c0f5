"""Lead–lag features of served bars: a lookback policy chooses the window of each new bar, and it is remembered.

A lookback agent travels in the bundle as `lookback.onnx`, with `lookback.json`: what it looks at, and the windows that
were in force over the bars of training, where it is not asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.build.sections import LeadLagFeatures
from pacesetter.envs.lookback.batch import LookbackConfig, lookback_config
from pacesetter.envs.lookback.evaluation import AgentLookback
from pacesetter.features import FEATURES
from pacesetter.leadlag.lookback.policy import SHORTEST, LookbackPolicy, StoredLookback
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.panel import Panel
from pacesetter.policies.windows import allow_all_actions
from pacesetter.serving.bundle.model import Model

__all__ = ["LeadLagRows", "LookbackSpec", "ServedLookback", "lookback_memory"]

HIDDEN, CELL = "memory_hidden", "memory_cell"  # entries of a recurrent graph, which gives them back as …_after


@dataclass(frozen=True)
class LookbackSpec:
    """What a bundle stores about its lookback agent.

    task       options of its environment
    changes    (nanoseconds since 1970, window in force from then on), over the bars of training
    until      nanoseconds since 1970 of the last bar that they hold for
    memory     of a recurrent agent behind that bar, (layer, unit) by name
    """

    task: dict[str, Any]
    changes: tuple[tuple[int, int], ...]
    until: int
    memory: dict[str, Any] = field(default_factory=dict)


def lookback_memory(task: LookbackConfig) -> int:
    """Bars of history that fix what the agent sees at the last of them."""
    context = [FEATURES[name].memory_bars for name in task.view.features]
    longest = max(task.windows.longest, task.windows.seen[-1]) + 1
    record = longest + max(task.view.records) + task.view.horizon_bars + 1 if task.view.records else 0
    return max(longest, record, *context)


class ServedLookback(LookbackPolicy):
    """A bundled agent as a `LookbackPolicy`: as in training on training's bars, then by its own choice.

    Where history is too short for what it looks at, the window is the one that its episodes begin with. It is asked
    once for each new bar; `confidence` is of its last choice, None where the schedule of training stood in.
    """

    def __init__(self, spec: LookbackSpec, model: Model) -> None:
        self.task, self.model, self._until = lookback_config(**spec.task), model, spec.until
        self._moments, self._windows = np.array(spec.changes, dtype=np.int64).reshape(-1, 2).T
        self._agent = AgentLookback(self._act, self.task, block_bars=1)
        self._memory = {name: np.array([rows], np.float32) for name, rows in spec.memory.items()}
        self.confidence: float | None = None
        self._memory_bars = lookback_memory(self.task)

    @property
    def longest(self) -> int:
        return self.task.windows.longest

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        moment = panel.index[t].value
        # On training's bars its own choices would be in-sample, and other than those the trader learned with.
        if self._moments[0] <= moment <= self._until:
            self.confidence = None
            return int(self._windows[self._moments.searchsorted(moment, side="right") - 1])
        if t + 1 < self._memory_bars:
            self.confidence = None
            return self.task.windows.start
        return self._agent.choose(panel, t, previous)

    def _act(self, observation: Mapping[str, Array]) -> Array:
        """Actions of a batch of observations (row, …); a recurrent agent's memory is that of the bar before."""
        answer = self.model(allow_all_actions({**observation, **self._memory}, self.model.spec))
        self._memory = {name: answer[f"{name}_after"] for name in (HIDDEN, CELL) if f"{name}_after" in answer}
        self.confidence = float(answer["confidence"].ravel()[-1])
        return answer["probabilities"].argmax(axis=-1) if "probabilities" in answer else answer["orders"]


class LeadLagRows:
    """The lead–lag features of the newest bars; the windows of the bars before are those that were in force then."""

    def __init__(self, asked: LeadLagFeatures, policy: LookbackPolicy) -> None:
        self._asked, self._policy = asked, policy
        self._schedule = np.zeros(0, dtype=np.int64)  # of the latest bars

    def choose(self, panel: Panel, fresh: int) -> None:
        """Choose a window for each of the `fresh` last bars of the panel, and remember it."""
        for t in range(len(panel) - fresh, len(panel)):
            previous = int(self._schedule[-1]) if len(self._schedule) else 0
            window = max(self._policy.choose(panel, t, previous), SHORTEST)
            self._schedule = np.append(self._schedule, window)[-len(panel) :]

    def newest_rows(self, panel: Panel, count: int) -> dict[str, Array]:
        """Name -> (count, symbol) of the newest bars, whose windows are chosen."""
        shown = count + (self._asked.standardise_bars or 1) - 1  # and the values that they are standardised by
        scored = shown + self._asked.gap_bars
        longest = int(self._schedule[-scored:].max())
        own = self._asked.expected_lookback or 0
        # As few bars as give the same numbers: a decision must not take longer as history grows.
        part = panel.rows(max(len(panel) - max(scored + longest, shown + own), 0), None)
        windows = StoredLookback(np.minimum(self._schedule[-len(part) :], longest))
        features = leadlag_features(self._asked.method, windows, newest_bars=count, **self._asked.options)
        return {feature.name: feature.compute(part)[-count:] for feature in features}
