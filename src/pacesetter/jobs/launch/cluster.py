"""Many machines: one configuration over groups of symbols, folds and seeds, each a run of its own, gathered in tables.

A run is a task of the launcher's pool, the longest first: on Ray an actor takes it on any machine, and that of a
machine that dies goes to another actor, from its last checkpoint. The same plan goes on with what is not finished.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from pacesetter.build import Plan, build_panel, build_parts
from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.page import Section, number, write_report
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.assignment import Assignment, RunOutcome, run_task
from pacesetter.jobs.launch.cluster_progress import Progress
from pacesetter.jobs.launch.comparison import LEVEL, mean_and_half_width
from pacesetter.jobs.launch.seeds import same_data
from pacesetter.jobs.launch.worker_pool import TrackedTask
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.jobs.run.interrupts import print_when_stopped
from pacesetter.runs import Run, config_hash

__all__ = ["ClusterPlan", "ClusterResult", "by_fold", "run_cluster"]

RUNS = ("run", "state", "steps", "score", "tries")
BY_FOLD = (
    f"Mean over the symbols of all groups; ± is half the {LEVEL:.0%} Student interval over the seeds. Each group has "
    "its own encoder, so groups are compared, not merged."
)


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
                f"{groups} groups of {len(symbols)} symbols in {folds} folds with {len(seeds)} seeds is not possible; "
                "give one or more of each, and no more groups than symbols"
            )
        if len(set(seeds)) < len(seeds):
            raise ConfigError(f"seeds {', '.join(map(str, seeds))}: one appears twice; give each once")
        # As objects: elements of an array of strings are np.str_, which would end up in configurations.
        parts = np.array_split(np.array(symbols, dtype=object), groups)
        return cls(tuple(tuple(part) for part in parts), tuple(seeds), folds)

    @classmethod
    def from_config(cls, config: Plan, groups: int, seeds: Sequence[int] = (0,), folds: int = 1) -> ClusterPlan:
        """The plan over the symbols of the task, or where it names none, of the panel; refuses one without groups."""
        config.problem.check("cluster")
        panel = build_panel(config)
        cluster = cls.of(config.task.symbols or panel.symbols, groups, seeds, folds)
        if folds > 1:  # the first is the shortest: refuses too few bars before any run is made
            build_parts(replace(config, train=replace(config.train, folds=folds, fold=0)), panel)
        return cluster

    def rows(self) -> list[dict[str, int]]:
        """Group, fold and seed of every run, in order."""
        combinations = itertools.product(range(len(self.groups)), range(self.folds), self.seeds)
        return [{"group": group, "fold": fold, "seed": seed} for group, fold, seed in combinations]

    def overrides(self, group: int, fold: int, seed: int) -> tuple[str, ...]:
        """What sets one run apart from the others."""
        names = ",".join(f"'{symbol}'" for symbol in self.groups[group])
        return f"task.symbols=[{names}]", f"train.folds={self.folds}", f"train.fold={fold}", f"seed={seed}"

    def task(self, folder: Path, overrides: Sequence[str], group: int, fold: int, seed: int) -> Assignment:
        """One run, with a folder of its own."""
        own = folder.resolve() / f"group{group:03d}-fold{fold:02d}-seed{seed}"
        return Assignment(str(own), (*overrides, *self.overrides(group, fold, seed)))


@dataclass(frozen=True)
class ClusterResult:
    """`runs` has a row for each run, `table` one for each fold; both lie in the folder of `run`."""

    run: Run
    runs: pd.DataFrame
    table: pd.DataFrame

    @property
    def failed(self) -> dict[str, str]:
        """Why, by the names of the runs that failed."""
        failed = self.runs[self.runs["state"] == "failed"]
        return dict(zip(failed["name"], failed["why"], strict=True))

    def sections(self) -> list[Section]:
        """Every run, and the scores by fold and seed, as texts."""
        runs = tuple(
            (row["name"], row["state"], number(row["steps"], ",.0f"), number(row["score"], "+.4f"), row["tries"])
            for row in self.runs.to_dict("records")
        )
        folds = tuple(
            (int(fold), *(number(score, "+.4f") for score in scores), number(half, ".4f"))
            for fold, *scores, half in self.table.to_numpy()
        )
        header = tuple(self.table.columns.str.replace("half_width", "±"))
        return [
            Section("Runs", "Best validation score of every run.", header=RUNS, rows=runs),
            Section("Score by fold and seed", BY_FOLD, header=header, rows=folds),
        ]


def run_cluster(
    cluster: ClusterPlan, overrides: Sequence[str], launcher: Launcher | None = None, console: Console | None = None
) -> ClusterResult:
    """Train all of the plan under `runs`, or what an earlier call left of it; a run that fails leaves the others be."""
    console = console or Console()
    config = resolve([*overrides, *cluster.overrides(**cluster.rows()[0])])  # refused before a machine is asked
    launcher = _launcher(launcher or Launcher(), config)
    # The seed of a run must not change synthetic data: seeds are compared on the same bars.
    overrides = [*overrides, *same_data(resolve(overrides))]
    run = _folder(config, {"overrides": overrides, "plan": asdict(cluster)})
    rows = {cluster.task(run.folder / "runs", overrides, **row): row for row in cluster.rows()}
    progress = Progress(run, list(rows), config.train.steps, console)
    settled = {task: progress.restore_finished(task) for task in rows if _is_finished(task)}
    left = [task for task in rows if task not in settled]
    console.print(f"{len(left)} of {len(rows)} runs to train → {run.folder}", soft_wrap=True)
    if left:
        # the longest first, by the steps of all its symbols, so that none begins when the others end
        left.sort(key=lambda task: len(cluster.groups[rows[task]["group"]]) * progress.steps_left(task), reverse=True)
        stopped = print_when_stopped(run, console, lambda: f"{progress}; run the same command to resume")
        with stopped, launcher.session() as pool, progress.open_table():
            settled |= {job.task: job for job in pool.settle(run_task, left, progress.watch)}
    runs = pd.DataFrame([_row(cluster, row, settled[task]) for task, row in rows.items()])
    return _store(ClusterResult(run, runs, by_fold(runs)))


def _launcher(launcher: Launcher, config: Plan) -> Launcher:
    """Runs apart from this process, which watches them; refuses a GPU's run on actors that Ray shows none."""
    if launcher.name == "ray" and config.train.device.startswith("cuda") and not launcher.gpus:
        raise ConfigError(f"train.device={config.train.device} on Ray needs launcher.gpus, e.g. 1 or 0.25")
    is_here = launcher.name == "local" and launcher.workers is None
    return replace(launcher, workers=os.cpu_count() or 1) if is_here else launcher


def _folder(config: Plan, asked: dict[str, object]) -> Run:
    """The folder of an earlier call that asked for the same, or a new one."""
    # Named by the hash of what was asked for: the same command finds its own folder and resumes there.
    earlier = sorted(Path(config.runs).glob(f"*-cluster-{config_hash(asked)[:8]}"))
    return Run.open(earlier[-1]) if earlier else Run.create(config.runs, "cluster", asked)


def _is_finished(task: Assignment) -> bool:
    return task.earlier_run is not None and bool(task.earlier_run.manifest["finished"])


# ---- what is gathered -----------------------------------------------------------------------------------------------


def _row(cluster: ClusterPlan, row: dict[str, int], job: TrackedTask[Assignment, RunOutcome]) -> dict[str, Any]:
    """One run and what it came to; one that failed has NaN for it."""
    name, symbols = Path(job.task.folder).name, len(cluster.groups[row["group"]])
    described = {"name": name, **row, "symbols": symbols, "state": job.state, "tries": job.tries, "worker": job.worker}
    result = asdict(job.result) if job.result else {}
    nothing = {"steps": np.nan, "score": np.nan, "stopped": "", "weights_hash": "", "run": ""}
    return described | nothing | result | {"why": str(job.error or "")}


def by_fold(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each fold: the score with each seed, their mean, and half its 95 % interval over the seeds.

    A seed's score is the mean over the symbols of all groups; NaN where a group's run is missing.
    """
    scores = {
        # −∞ is the score of a run without a validation; weighted by symbols, as groups may differ by one.
        key: np.average(part["score"].replace(-np.inf, np.nan), weights=part["symbols"])
        for key, part in runs.groupby(["fold", "seed"])
    }
    by_seed = pd.Series(scores).rename_axis(["fold", "seed"]).unstack("seed")
    spread = [mean_and_half_width(row) for row in by_seed.to_numpy()]
    by_seed.columns = [f"seed {seed}" for seed in by_seed.columns]
    return by_seed.assign(mean=[mean for mean, _ in spread], half_width=[half for _, half in spread]).reset_index()


def _store(result: ClusterResult) -> ClusterResult:
    result.runs.to_csv(result.run.path("runs.csv"), index=False)
    result.table.to_csv(result.run.path("table.csv"), index=False)
    write_report(result.run.path("report.html"), "cluster", result.sections())
    # An unfinished manifest lets the same command try the failed runs again.
    if not result.failed:
        result.run.finish(runs=len(result.runs))
    return result
