"""`pacesetter train --launch sweep`: every variant trained with every seed, and compared with the first."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
from rich.console import Console

from pacesetter.cells import Table
from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.jobs.hydra.overrides import choices, split_varied, stored_overrides, take_options
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.assignment import Assignment, RunOutcome, run_task
from pacesetter.jobs.launch.comparison import LEVEL, cells, compare, picture
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.jobs.run.interrupts import print_when_stopped
from pacesetter.runs import Run

__all__ = ["Sweep", "SweepPlan", "SweepResult", "sweep"]

PER_RUN = ("variant", "seed", "score", "steps", "stopped", "run")
ABOUT = (
    f"Best validation score; ± is half the {LEVEL:.0%} Student interval over seeds. Differences are from the first "
    "variant, paired by seed; p of the paired t test, then with Holm's correction."
)


@dataclass(frozen=True)
class Sweep:
    """How variants are made of the keys with several values.

    design  grid: every combination; ablation: the first value of every key, and each other value by itself
    """

    design: Literal["grid", "ablation"] = "grid"


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep runs: the overrides all runs share, those of each variant, and those of each seed."""

    fixed: tuple[str, ...]
    variants: tuple[tuple[str, ...], ...]
    seeds: tuple[str, ...]

    @classmethod
    def of(cls, overrides: Sequence[str], design: str = "grid") -> SweepPlan:
        """The plan of overrides such as `agent=ppo,a2c seed=0,1,2`."""
        fixed, varied = split_varied(overrides)
        lists = {override.key_or_group: choices(override) for override in varied}
        # The last one counts, as in Hydra.
        given = [text for text in fixed if text.startswith("seed=")]
        seeds = lists.pop("seed", given[-1:] or ["seed=0"])
        combine = itertools.product if design == "grid" else _one_at_a_time
        return cls(tuple(fixed), tuple(combine(*lists.values())), tuple(seeds))

    def pairs(self) -> list[tuple[int, int]]:
        """(variant, seed) of every run, in order."""
        return list(itertools.product(range(len(self.variants)), range(len(self.seeds))))

    def task(self, folder: Path, variant: int, seed: int) -> Assignment:
        """One run, with a folder of its own."""
        own = folder.resolve() / f"{variant:03d}-{seed:03d}"
        return Assignment(str(own), (*self.fixed, *self.variants[variant], self.seeds[seed]))

    def row(self, variant: int, seed: int, outcome: RunOutcome) -> dict[str, object]:
        """One run and what it came to."""
        name = " ".join(self.variants[variant]) or "as given"
        return {"variant": name, "seed": int(self.seeds[seed].partition("=")[2])} | dataclasses.asdict(outcome)


def _one_at_a_time(*lists: Sequence[str]) -> list[tuple[str, ...]]:
    baseline = tuple(values[0] for values in lists)
    others = [(place, value) for place, values in enumerate(lists) for value in values[1:]]
    return [baseline, *((*baseline[:place], value, *baseline[place + 1 :]) for place, value in others)]


@dataclass(frozen=True)
class SweepResult:
    """`runs` has a row for each run, `table` one for each variant; both lie in the folder of `run`, with a report."""

    run: Run
    runs: pd.DataFrame
    table: pd.DataFrame


def sweep(overrides: Sequence[str], *, resume: str | Path | None = None, console: Console | None = None) -> SweepResult:
    """Train and compare what the overrides say; `resume` goes on with the sweep in that folder."""
    console = console or Console()
    overrides = [*(stored_overrides(resume) if resume else ()), *overrides]
    launcher, rest = take_options(overrides, "launcher", Launcher)
    design, rest = take_options(rest, "sweep", Sweep)
    pairing = SweepPlan.of(rest, design.design)
    if len(pairing.pairs()) < 2:
        raise ConfigError("nothing to compare; give several values for a key, e.g. agent=ppo,a2c or seed=range(0,5)")
    configs = [resolve([*pairing.fixed, *variant]) for variant in pairing.variants]  # all checked before one is trained
    run = Run.open(resume) if resume else Run.create(configs[0].runs, "sweep", {"overrides": overrides})
    console.print(f"{len(pairing.variants)} variants × {len(pairing.seeds)} seeds → {run.folder}", soft_wrap=True)
    with print_when_stopped(
        run, console, lambda: f"resume with: pacesetter train --launch sweep --resume {run.folder}"
    ):
        outcomes = launcher.run(run_task, [pairing.task(run.folder / "runs", *pair) for pair in pairing.pairs()])
    rows = [pairing.row(*pair, outcome) for pair, outcome in zip(pairing.pairs(), outcomes, strict=True)]
    runs = pd.DataFrame(rows)
    result = SweepResult(run, runs, compare(runs))
    _store(result)
    _show(result, console)
    return result


def _store(result: SweepResult) -> None:
    result.runs.to_csv(result.run.path("runs.csv"), index=False)
    result.table.to_csv(result.run.path("table.csv"), index=False)
    header, rows = cells(result.table)
    all_runs = tuple(result.runs[list(PER_RUN)].itertuples(index=False, name=None))
    sections = [
        Section("Variants", ABOUT, figures=(picture(result.runs, result.table),), header=header, rows=rows),
        Section("Runs", "Every run.", header=PER_RUN, rows=all_runs),
    ]
    write_report(result.run.path("report.html"), "sweep", sections)
    result.run.finish(runs=len(result.runs))


def _show(result: SweepResult, console: Console) -> None:
    console.print(Table(*cells(result.table), "Variants"))
    console.print(f"Report: {result.run.folder / 'report.html'}", soft_wrap=True)
