"""A cell of an ablation of lookback agents: windows that an agent chose, measured by the reward of the full method.

A variant may learn by another reward, e.g. a smoothed one. All are judged by the same one, on bars that none has seen,
beside the simple rules and the limits of `evaluation.lookback`.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pacesetter.build import build_fold, build_panel
from pacesetter.build.tasks.task import Stored
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.evaluation import evaluate_lookback
from pacesetter.envs.lookback.market import LookbackMarket
from pacesetter.evaluation.lookback.judgement import OPTIMUM, REGIME_ORACLE, lookback_policies
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.stages import train_quietly
from pacesetter.lab.league.cell import Cell, cell_key
from pacesetter.leadlag.lookback.policy import LookbackPolicy
from pacesetter.panel import Panel
from pacesetter.runs import write_atomic

__all__ = ["WINDOW_YARDSTICKS", "WindowCell", "WindowScore", "play_window_cell"]

BEST_CONSTANT = "best constant"
WINDOW_YARDSTICKS = (OPTIMUM, REGIME_ORACLE, "cross-validated", "thompson", "volatility", BEST_CONSTANT)


@dataclass(frozen=True)
class WindowCell(Cell):
    """A cell whose policy chooses windows; `judged` are the overrides whose reward all entrants are measured by."""

    judged: tuple[str, ...] = ()

    @property
    def task(self) -> LookbackConfig:
        """Windows and reward that the cell is judged by."""
        task: LookbackConfig = resolve([*self.market_overrides, *self.judged, f"seed={self.seed}"]).lookback
        return task


@dataclass(frozen=True)
class WindowScore:
    """What a cell came to on the test set.

    reward    mean a bar, by the reward of the full method
    share     of the gap from the best constant in hindsight to the optimum
    switches  share of the bars with another window than before        window   mean length in bars
    seconds   of training and playing
    """

    market: str
    entrant: str
    seed: int
    reward: float
    share: float
    switches: float
    window: float
    seconds: float


def play_window_cell(cell: WindowCell) -> WindowScore:
    """Play the cell, or read what an earlier call with the same configuration and data left."""
    config, start = cell.config, time.perf_counter()
    panel = build_panel(config)
    named = replace(cell, entrant=f"{cell.entrant} judged by {' '.join(cell.judged)}")
    known = Path(cell.folder) / "cells" / f"{cell_key(named, config, panel)}.json"
    if known.is_file():
        return WindowScore(**json.loads(known.read_text(encoding="utf-8")))
    first = int(build_fold(config, panel).test[0])
    worse, better = _limits(cell.market_overrides, cell.judged, cell.seed, first)
    reward, switches, window = _play_cell(cell, panel, first)
    share = (reward - worse) / (better - worse) if better > worse else float("nan")
    seconds = time.perf_counter() - start
    score = WindowScore(cell.market, cell.entrant, cell.seed, reward, share, switches, window, seconds)
    known.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(known, json.dumps(asdict(score), indent=1).encode())
    return score


def _play_cell(cell: WindowCell, panel: Panel, first: int) -> tuple[float, float, float]:
    """Mean reward, share of switches and mean window of the cell's policy."""
    if cell.overrides is not None:
        return _figures(_train_cell(cell, panel), panel, cell.task, first)
    policies = _rules(panel, cell.task, first)
    if cell.entrant in policies:
        return _figures(policies[cell.entrant], panel, cell.task, first)
    if cell.entrant != BEST_CONSTANT:  # a market that does not tell its regimes, or a reward without an optimum
        return float("nan"), float("nan"), float("nan")
    constants = [policy for name, policy in policies.items() if name.startswith("constant ")]
    return max(_figures(policy, panel, cell.task, first) for policy in constants)


def _train_cell(cell: WindowCell, panel: Panel) -> LookbackPolicy:
    config = replace(cell.config, runs=str(Path(cell.folder) / "runs"))
    run = train_quietly(config)
    policy = config.problem.policy(Stored(run, config, panel))
    assert isinstance(policy, LookbackPolicy)
    return policy


def _rules(panel: Panel, task: LookbackConfig, first: int) -> dict[str, LookbackPolicy]:
    return lookback_policies(panel, task, first, LookbackMarket(panel, task.windows, task.view).last)


def _figures(policy: LookbackPolicy, panel: Panel, task: LookbackConfig, first: int) -> tuple[float, float, float]:
    played: Any = evaluate_lookback({"policy": policy}, panel, task, start=first).table().iloc[0]
    return float(played["reward"]), float(played["switches"]), float(played["mean_lookback"])


@lru_cache(maxsize=2)
def _limits(market: tuple[str, ...], judged: tuple[str, ...], seed: int, first: int) -> tuple[float, float]:
    """Mean rewards of the best constant in hindsight and of the optimum; cells of one market follow each other."""
    config = resolve([*market, *judged, f"seed={seed}"])
    panel, task = build_panel(config), config.lookback
    policies = _rules(panel, task, first)
    kept = {name: policy for name, policy in policies.items() if name.startswith("constant ") or name == OPTIMUM}
    evaluation = evaluate_lookback(kept, panel, task, start=first)
    means = dict(zip(evaluation.names, np.mean(evaluation.rewards, axis=0).tolist(), strict=True))
    optimum = means.pop(OPTIMUM)
    return max(means.values()), optimum
