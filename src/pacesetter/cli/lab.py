"""`pacesetter lab …`: what compares, measures and proves: leagues, scans, drills, self-tests, programmes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacesetter.cli import programme, reproduce
from pacesetter.cli.overrides import Overrides

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group `lab` to the application."""
    lab = typer.Typer(help="Leagues, ablations, published results, self-tests, drills, scans, profiles, programmes.")
    for command in (league, ablate, adapt, networks, profile, scan, drill):
        lab.command()(command)
    reproduce.register(lab)
    programme.register(lab)
    app.add_typer(lab, name="lab", no_args_is_help=True)


def league(overrides: Overrides = None) -> None:
    """Compare methods with oracle, lasso, ridge and hold on markets with a known truth; `league quick` for a laptop."""
    from pacesetter.errors import ConfigError, did_you_mean
    from pacesetter.lab.league.league import league as play

    sizes = ("quick", "full")
    for text in overrides or ():
        if "=" not in text and text not in sizes:
            raise ConfigError(f"'{text}' is neither quick, full nor key=value{did_you_mean(text, sizes)}")
    play([f"league={text}" if text in sizes else text for text in overrides or ()])


def ablate(overrides: Overrides = None) -> None:
    """Switch one part of a method off at a time on the league's markets, e.g. `ablate features`; paired differences."""
    from pacesetter.lab.league.ablation import ablate as play

    given = list(overrides or ())
    play([f"ablate={text}" if place == 0 and "=" not in text else text for place, text in enumerate(given)])


def profile(overrides: Overrides = None) -> None:
    """Profile a short training run: a flame graph, and microseconds per step and component."""
    from pacesetter.lab.profile import profile as profile_training

    profile_training(overrides or ())


def networks(overrides: Overrides = None) -> None:
    """Parameters, latency and memory of each network on the observations of a task, e.g. task=lookback."""
    from pacesetter.jobs import resolve
    from pacesetter.jobs.networks import show_networks

    show_networks(resolve(overrides or ()))


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
    from pacesetter.jobs.launch.launch import whole_numbers
    from pacesetter.jobs.launch.workers import Launcher
    from pacesetter.lab.scan import ScanPlan
    from pacesetter.lab.scan import scan as run_scan

    launcher, own = take_options(overrides or (), "launcher", Launcher)
    plan = ScanPlan(tuple(methods.split(",")), tuple(whole_numbers(lookbacks, "--lookbacks")), universes, folds)
    run_scan(plan, own, launcher, folder)


def adapt(
    run: Annotated[Path, typer.Argument(help="A finished run of task=fleet agent=meta.")],
    against: Annotated[
        list[Path] | None, typer.Option(help="Another run of task=fleet on the same data, e.g. agent=ppo.")
    ] = None,
    families: Annotated[str, typer.Option(help="Of persistent,mixed,slices,blends.")] = "persistent,mixed",
    tasks: Annotated[int, typer.Option(help="Unseen markets of each family.", min=2)] = 4,
    episodes: Annotated[int, typer.Option(help="Of each symbol in each market.", min=1)] = 4,
    seed: Annotated[int, typer.Option(help="Of markets and starts; another one than training's.", min=0)] = 1_000,
) -> None:
    """Play a run with a context on unseen markets: score against bars seen, with and without context, by regime."""
    from pacesetter.methods.meta.adaptation import adapt_run

    names = tuple(name for name in families.split(",") if name)
    typer.echo(f"Report: {adapt_run(run, tuple(against or ()), names, tasks, episodes, seed)}")


def drill(
    options: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Of alerts and watch.")] = None,
) -> None:
    """Trigger every control, every alert and the kill switch, e.g. alerts.webhook=https://…; exit 1 if one does not."""
    from rich.console import Console

    from pacesetter.cells import Table
    from pacesetter.jobs.hydra.overrides import nest_options
    from pacesetter.registry import configure
    from pacesetter.serving.monitor.alerts import make_sinks
    from pacesetter.serving.risk.drill import DrillConfig
    from pacesetter.serving.risk.drill import drill as drill_all

    config = configure(DrillConfig, nest_options(options or []), "drill")
    results = drill_all(make_sinks(config.alerts), config.watch)
    rows = [(result.name, result.expected, "yes" if result.acted else "NO") for result in results]
    Console().print(Table(("drilled", "must", "did"), rows))
    failed = [result.name for result in results if not result.acted]
    if failed:
        typer.echo(f"error: {', '.join(failed)} did not act; fix it and run the drill again before trading", err=True)
        raise typer.Exit(1)
