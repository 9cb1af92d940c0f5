"""The commands for many workers: one configuration over groups, folds and seeds, and lead–lag studies side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacesetter.cli.overrides import Overrides

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command()(cluster)
    app.command()(scan)


def cluster(
    overrides: Overrides = None,
    groups: Annotated[int, typer.Option(help="Parts of nearly equal size that the symbols are split into.")] = 1,
    seeds: Annotated[str, typer.Option(help="Seeds of every group and fold, e.g. 0,1,2.")] = "0",
    folds: Annotated[int, typer.Option(help="Expanding walk-forward folds, one run each.")] = 1,
) -> None:
    """Train every group of symbols in every fold with every seed, on all cores of this machine or on Ray actors.

    launcher=ray starts Ray here, launcher.address=auto joins a cluster (examples/cluster.yaml); launcher.workers,
    launcher.cores and launcher.gpus=0.25 set how many actors there are and what each one gets. If a worker dies,
    its run resumes on another. Run again, the command resumes what is not finished.
    """
    from rich.console import Console

    from pacesetter.errors import RunError
    from pacesetter.jobs import compose
    from pacesetter.jobs.hydra.overrides import take_options
    from pacesetter.jobs.launch.cluster import ClusterPlan, run_cluster
    from pacesetter.jobs.launch.workers import Launcher
    from pacesetter.jobs.pipeline.show import section_table

    launcher, own = take_options(overrides or (), "launcher", Launcher)
    plan = ClusterPlan.from_config(compose(own), groups, _numbers(seeds), folds)
    console = Console()
    result = run_cluster(plan, own, launcher, console)
    for section in result.sections():
        console.print(section_table(section))
    console.print(f"Report: {result.run.folder / 'report.html'}", soft_wrap=True)
    if result.failed:
        reasons = "; ".join(f"{name}: {why}" for name, why in result.failed.items())
        raise RunError(
            f"{len(result.failed)} of {len(result.runs)} runs failed, run the same command to retry; {reasons}"
        )


def scan(
    overrides: Overrides = None,
    methods: Annotated[str, typer.Option(help="Estimators, e.g. ccf_peak,ccf_auc.")] = "ccf_peak,ccf_auc",
    lookbacks: Annotated[str, typer.Option(help="Windows in bars, e.g. 120,250.")] = "120,250",
    universes: Annotated[int, typer.Option(help="Parts of nearly equal size that the symbols are split into.")] = 1,
    folds: Annotated[int, typer.Option(help="Parts in a row of the second half of the bars.")] = 1,
    folder: Annotated[Path, typer.Option(help="Where rows and the report are kept.")] = Path("runs/scan"),
) -> None:
    """Run the lead–lag study of every method, lookback, universe and fold, e.g. data=sample launcher.workers=2.

    Rows are kept by configuration and bars: run again, the command adds what is missing. If a worker dies, its study
    goes to another.
    """
    from pacesetter.jobs.hydra.overrides import take_options
    from pacesetter.jobs.launch.workers import Launcher
    from pacesetter.lab.scan import ScanPlan
    from pacesetter.lab.scan import scan as run_scan

    launcher, own = take_options(overrides or (), "launcher", Launcher)
    plan = ScanPlan(tuple(methods.split(",")), tuple(_numbers(lookbacks, "--lookbacks")), universes, folds)
    run_scan(plan, own, launcher, folder)


def _numbers(text: str, option: str = "--seeds") -> list[int]:
    from pacesetter.errors import ConfigError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError as problem:
        raise ConfigError(f"{option} {text} is not a list of whole numbers; give one like 0,1,2") from problem
