"""A trained lookback agent as files of a bundle, compared with the agent number by number."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacesetter.arrays import Array
from pacesetter.build import Plan, load_lookback, stored_plan
from pacesetter.build.plan import plain_task
from pacesetter.build.tasks.task import Stored
from pacesetter.leadlag.lookback.policy import roll
from pacesetter.panel import Panel
from pacesetter.policies.spec import PolicySpec
from pacesetter.serving.bundle.export import export_onnx
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.bundle.parity import Parity, check_parity, random_observations
from pacesetter.serving.trader.lookback import CELL, HIDDEN, LookbackSpec

__all__ = ["LookbackGraph", "lookback_files", "lookback_graph", "lookback_spec"]


class LookbackGraph(NamedTuple):
    """An exported lookback agent: its graph, how far it is from the agent, and what it looks at."""

    graph: bytes
    spec: PolicySpec
    parity: Parity
    description: bytes


def lookback_files(folder: str | Path, panel: Panel, observations: int) -> dict[str, bytes]:
    """`lookback.onnx` and `lookback.json` of the run in `folder`, whose agent chose windows for traders of `panel`.

    Refuses a graph that differs from the agent on any of `observations` observations.
    """
    made = lookback_graph(Path(folder), stored_plan(folder), panel, observations)
    return {"lookback.onnx": made.graph, "lookback.json": made.description}


def lookback_graph(folder: Path, config: Plan, panel: Panel, observations: int) -> LookbackGraph:
    """The best agent of a run as a graph, with the windows that were in force over the bars of the panel."""
    exported = config.problem.export(Stored(folder, config, panel), observations // 2)
    graph = export_onnx(exported.module, exported.spec)
    batches = chain(random_observations(exported.spec, observations // 2), exported.real)
    parity = check_parity(exported.module, Model(graph), batches)
    spec = json.dumps(asdict(lookback_spec(folder, config, panel)), indent=2).encode() + b"\n"
    return LookbackGraph(graph, exported.spec, parity, spec)


def lookback_spec(folder: Path, config: Plan, panel: Panel) -> LookbackSpec:
    """What a bundle tells of an agent: its options, and the windows in force over the bars of a panel."""
    options = {name: value for name, value in plain_task(config.task).items() if name != "problem"}
    # The schedule is stored where it changes: thousands of bars come to a few lines.
    policy = load_lookback(folder, panel)
    changes = _changes(roll(policy, panel), panel)
    return LookbackSpec(options, changes, panel.index[-1].value, _memory(policy.policy))


def _changes(schedule: Array, panel: Panel) -> tuple[tuple[int, int], ...]:
    """(moment, window) of the first bar and of each bar that has another window than the bar before."""
    bars = np.flatnonzero(np.diff(schedule, prepend=-1))
    return tuple(zip(panel.index.asi8[bars].tolist(), schedule[bars].tolist(), strict=True))


def _memory(policy: Any) -> dict[str, list[object]]:
    """What a recurrent agent remembers behind the last bar, (layer, unit) by name; nothing of others."""
    if policy.memory is None or policy.memory.remember()[0] is None:
        return {}
    hidden, cell = policy.memory.remember()[0]
    return {HIDDEN: np.asarray(hidden)[:, 0].tolist(), CELL: np.asarray(cell)[:, 0].tolist()}
