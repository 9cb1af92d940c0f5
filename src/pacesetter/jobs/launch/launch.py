"""`pacesetter train`: one run, one that begins with another, one for each seed, a search, a sweep or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from pacesetter.errors import ConfigError, RunError, did_you_mean
from pacesetter.jobs.hydra.overrides import take_options
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.workers import Launcher

__all__ = ["Launch", "launch_training", "whole_numbers"]

LAUNCHES = ("tune", "sweep", "cluster")


@dataclass(frozen=True)
class Launch:
    """How a training starts.

    resume   run, search or sweep to resume         begin           run to go on learning from
    name     tune, sweep or cluster; None: one run   is_continuous   with continuous orders from there on
    groups, seeds, folds   those of a cluster
    """

    resume: Path | None = None
    begin: Path | None = None
    is_continuous: bool = False
    name: str | None = None
    groups: int = 1
    seeds: str = "0"
    folds: int = 1

    def __post_init__(self) -> None:
        if self.name is not None and self.name not in LAUNCHES:
            raise ConfigError(f"--launch {self.name} is unknown{did_you_mean(self.name, LAUNCHES)}")
        if self.name != "cluster" and (self.groups, self.seeds, self.folds) != (1, "0", 1):
            raise ConfigError("--groups, --seeds and --folds are those of --launch cluster; give it, or leave them out")
        if self.name == "cluster" and self.resume is not None:
            raise ConfigError("a cluster is resumed by the same command; leave --resume out")
        if self.begin is not None and (self.resume is not None or self.name is not None):
            raise ConfigError("--from begins one run of its own; leave --resume and --launch out")
        if self.is_continuous and self.begin is None:
            raise ConfigError("--continuous changes the orders of a trained run; give it by --from RUN")


def launch_training(overrides: Sequence[str], asked: Launch) -> bool:
    """Train once, or as asked; False where continuous orders failed a check."""
    if asked.begin is not None:
        return _train_from(asked.begin, overrides, asked.is_continuous)
    if asked.name == "tune":
        from pacesetter.jobs.launch.search import tune

        tune(overrides, resume=asked.resume)
    elif asked.name == "sweep":
        from pacesetter.jobs.launch.sweep import sweep

        sweep(overrides, resume=asked.resume)
    elif asked.name == "cluster":
        _train_cluster(overrides, asked.groups, whole_numbers(asked.seeds, "--seeds"), asked.folds)
    else:
        _train_here(overrides, asked.resume)
    return True


def _train_from(run: Path, overrides: Sequence[str], is_continuous: bool) -> bool:
    if is_continuous:
        from pacesetter.jobs.launch.migrate import migrate_run

        return migrate_run(run, overrides).passed
    from pacesetter.methods.offline.fine_tuning import fine_tune

    console = Console()
    console.print(f"→ {fine_tune(run, overrides, console).folder}", soft_wrap=True, highlight=False, markup=False)
    return True


def _train_here(overrides: Sequence[str], resume: Path | None) -> None:
    from pacesetter.jobs.launch.seeds import train_seeds
    from pacesetter.jobs.run.interrupts import exit_on_sigterm
    from pacesetter.jobs.run.train import train

    given = [f"train.{text}" if text.startswith("seeds=") else text for text in overrides]
    _, own = take_options(given, "launcher", Launcher)
    config = resolve(own) if own or resume is None else None
    if resume is None and config is not None and config.train.seeds > 1:
        train_seeds(given, config)
        return
    if len(own) < len(given):
        raise ConfigError("launcher=… launches several runs, and this is one; give seeds=5, or leave it out")
    if train(config, resume=resume).stopped == "signal":
        exit_on_sigterm()


def _train_cluster(overrides: Sequence[str], groups: int, seeds: list[int], folds: int) -> None:
    from pacesetter.jobs.launch.cluster import ClusterPlan, run_cluster

    launcher, own = take_options(overrides, "launcher", Launcher)
    cluster = ClusterPlan.from_config(resolve(own), groups, seeds, folds)
    console = Console()
    result = run_cluster(cluster, own, launcher, console)
    for section in result.sections():
        console.print(section.table.cut())
    console.print(f"Report: {result.run.folder / 'report.html'}", soft_wrap=True)
    if result.failed:
        reasons = "; ".join(f"{name}: {why}" for name, why in result.failed.items())
        raise RunError(
            f"{len(result.failed)} of {len(result.runs)} runs failed, run the same command to retry; {reasons}"
        )


def whole_numbers(text: str, option: str) -> list[int]:
    """The numbers of an option such as 0,1,2; refuses another text by the option's name."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as problem:
        raise ConfigError(f"{option} {text} is not a list of whole numbers; give one like 0,1,2") from problem
