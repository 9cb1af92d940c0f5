"""`pacesetter lab …`: leagues, ablations, profiles, scans, published results, self-tests, programmes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacesetter.cli import programme, reproduce
from pacesetter.cli.overrides import Overrides

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group `lab` to the application."""
    lab = typer.Typer(help="Leagues, ablations, published results, self-tests, scans, profiles, programmes.")
    for command in (league, ablate, profile, scan):
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
