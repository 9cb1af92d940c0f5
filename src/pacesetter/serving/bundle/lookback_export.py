"""A trained lookback agent as files of a bundle, compared with the agent number by number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.build import build_task, load_agent, load_lookback, stored_config
from pacesetter.envs.lookback.batch import LookbackBatch, LookbackConfig
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.leadlag.lookback.policy import roll
from pacesetter.panel import Panel
from pacesetter.policies.modules import serve_algorithm
from pacesetter.serving.bundle.export import export_onnx
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.bundle.parity import ROWS, check_parity, random_observations
from pacesetter.serving.trader.lookback import LookbackSpec, unmasked

__all__ = ["lookback_files"]

Array = NDArray[Any]


def lookback_files(folder: str | Path, panel: Panel, observations: int) -> dict[str, bytes]:
    """`lookback.onnx` and `lookback.json` of the run in `folder`, whose agent chose windows for traders of `panel`.

    Refuses an agent with a memory, and a graph that differs from the agent on any of `observations` observations.
    """
    config = stored_config(folder)
    task: LookbackConfig = build_task(config)
    algorithm = load_agent(folder, LookbackVectorEnv(panel, 1, task)).algorithm
    module, spec = serve_algorithm(algorithm, {}, "continuous")
    graph = export_onnx(module, spec)
    real = (unmasked(seen, spec) for seen in _real(panel, task, observations // 2))
    check_parity(module, Model(graph), chain(random_observations(spec, observations // 2), real))
    options = {name: value for name, value in config.task.items() if name != "problem"}
    # The schedule is stored where it changes: thousands of bars come to a few lines.
    told = LookbackSpec(options, _changes(roll(load_lookback(folder, panel), panel), panel), panel.index[-1].value)
    return {"lookback.onnx": graph, "lookback.json": json.dumps(asdict(told), indent=2).encode() + b"\n"}


def _changes(schedule: Array, panel: Panel) -> tuple[tuple[int, int], ...]:
    """(moment, window) of the first bar and of each bar that has another window than the bar before."""
    bars = np.flatnonzero(np.diff(schedule, prepend=-1))
    return tuple(zip(panel.index.asi8[bars].tolist(), schedule[bars].tolist(), strict=True))


def _real(panel: Panel, task: LookbackConfig, count: int) -> Iterator[dict[str, Array]]:
    """What the environment shows at random bars with random windows in force."""
    generator, batch = np.random.default_rng(0), LookbackBatch(panel, task, ROWS)
    market = batch.markets[0]
    for _ in range(0, count, ROWS):
        bars = generator.integers(market.first, len(panel), ROWS)
        batch.place(market, bars, generator.integers(task.windows.shortest, task.windows.longest + 1, ROWS))
        yield batch.observe()
