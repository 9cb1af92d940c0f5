"""`pacesetter train`: one run, one for each seed, or many by a launcher: a search, a sweep, a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from pacesetter.errors import ConfigError, RunError, did_you_mean
from pacesetter.jobs.hydra.overrides import take_options
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.workers import Launcher

__all__ = ["launch_training", "whole_numbers"]

LAUNCHES = ("tune", "sweep", "cluster")


def launch_training(
    overrides: Sequence[str],
    resume: Path | None = None,
    launch: str | None = None,
    *,
    groups: int = 1,
    seeds: str = "0",
    folds: int = 1,
) -> None:
    """Train once, or as `launch` says; groups, seeds and folds are those of a cluster."""
    if launch is not None and launch not in LAUNCHES:
        raise ConfigError(f"--launch {launch} is unknown{did_you_mean(launch, LAUNCHES)}")
    if launch != "cluster" and (groups, seeds, folds) != (1, "0", 1):
        raise ConfigError("--groups, --seeds and --folds are those of --launch cluster; give it, or leave them out")
    if launch == "tune":
        from pacesetter.jobs.launch.search import tune

        tune(overrides, resume=resume)
    elif launch == "sweep":
        from pacesetter.jobs.launch.sweep import sweep

        sweep(overrides, resume=resume)
    elif launch == "cluster":
        if resume is not None:
            raise ConfigError("a cluster is resumed by the same command; leave --resume out")
        _train_cluster(overrides, groups, whole_numbers(seeds, "--seeds"), folds)
    else:
        _train_here(overrides, resume)


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
