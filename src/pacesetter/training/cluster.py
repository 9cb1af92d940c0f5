"""Many machines: one configuration over groups of symbols, folds and seeds, each a run of its own, gathered in a table.

A run is a task of the launcher: on Ray it goes to any machine with a free core, and that of a machine that dies runs
again elsewhere, from its last checkpoint. The same plan in the same folder goes on with what is not finished.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pacesetter.errors import ConfigError
from pacesetter.training.configuration import compose
from pacesetter.training.launch import Launcher
from pacesetter.training.task import Task, run_task

__all__ = ["ClusterPlan", "run_cluster"]


@dataclass(frozen=True)
class ClusterPlan:
    """What is run: every group of symbols in every fold with every seed."""

    groups: tuple[tuple[str, ...], ...]
    seeds: tuple[int, ...] = (0,)
    folds: int = 1

    @classmethod
    def of(cls, symbols: Sequence[str], groups: int, seeds: Sequence[int] = (0,), folds: int = 1) -> ClusterPlan:
        """The symbols in their order, in groups of nearly equal size; refuses more groups than symbols."""
        if not 1 <= groups <= len(symbols) or folds < 1 or not seeds:
            raise ConfigError(
                f"{groups} groups of {len(symbols)} symbols in {folds} folds with {len(seeds)} seeds cannot be; "
                "give one or more of each, and no more groups than symbols"
            )
        parts = np.array_split(np.array(symbols, dtype=object), groups)
        return cls(tuple(tuple(part) for part in parts), tuple(seeds), folds)

    def rows(self) -> list[dict[str, int]]:
        """Group, fold and seed of every run, in order."""
        found = itertools.product(range(len(self.groups)), range(self.folds), self.seeds)
        return [{"group": group, "fold": fold, "seed": seed} for group, fold, seed in found]

    def overrides(self, group: int, fold: int, seed: int) -> tuple[str, ...]:
        """What sets one run apart from the others."""
        names = ",".join(f"'{symbol}'" for symbol in self.groups[group])
        return f"task.symbols=[{names}]", f"train.folds={self.folds}", f"train.fold={fold}", f"seed={seed}"

    def task(self, folder: Path, overrides: Sequence[str], group: int, fold: int, seed: int) -> Task:
        """One run, with a folder of its own."""
        own = folder.resolve() / f"group{group:03d}-fold{fold:02d}-seed{seed}"
        return Task(str(own), (*overrides, *self.overrides(group, fold, seed)))


def run_cluster(
    plan: ClusterPlan, overrides: Sequence[str], folder: str | Path, launcher: Launcher | None = None
) -> pd.DataFrame:
    """Train all of the plan; a row for each run, with group, fold, seed, steps, score, how it stopped and its folder.

    The table is kept as `runs.csv` in the folder, which all machines share.
    """
    target, rows = Path(folder), plan.rows()
    compose([*overrides, *plan.overrides(**rows[0])])  # a mistake is refused before a machine is asked
    outcomes = (launcher or Launcher()).run(run_task, [plan.task(target, overrides, **row) for row in rows])
    found = pd.DataFrame([row | asdict(outcome) for row, outcome in zip(rows, outcomes, strict=True)])
    found.to_csv(target / "runs.csv", index=False)
    return found
