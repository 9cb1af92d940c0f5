"""`pacesetter lab reproduce`, published results beside ours, and `pacesetter lab selftest`, on one's own bars."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacesetter.cli.overrides import Overrides
from pacesetter.errors import ConfigError

__all__ = ["register"]

PATH = "data.path="
STUDIES = "lo_mackinlay, bitflyer_btcbox, us_japan, levy_portfolios, stock_ranking or network_momentum"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(reproduce)
    app.command()(selftest)


def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            help="lo_mackinlay, bitflyer_btcbox, us_japan, levy_portfolios, stock_ranking or network_momentum"
        ),
    ],
    options: Annotated[list[str] | None, typer.Argument(help="data.path=FILE for the last four")] = None,
    pictures: Annotated[Path, typer.Option(help="Folder that the picture goes to.")] = Path("runs/reproduce"),
) -> None:
    """Run a published lead–lag study and print ours beside the published figure, with the difference and its reason."""
    from rich.console import Console

    from pacesetter.lab.reproduce import reproduce as run

    path = None
    for text in options or ():
        if not text.startswith(PATH):
            raise ConfigError(f"'{text}' is unknown here; `pacesetter lab reproduce` takes data.path=FILE")
        path = text.removeprefix(PATH)
    result = run(study, path)
    console = Console()
    console.print(result.table())
    for note in result.notes:
        console.print(f"Note: {note}", soft_wrap=True, markup=False, highlight=False)
    picture = result.to_png(pictures / f"{study}.png")
    console.print(f"Picture: {picture}", soft_wrap=True, markup=False, highlight=False)


def selftest(overrides: Overrides = None) -> None:
    """Plant a relation into copies of your bars, shuffle the rest, and say what would be found: data=bars.csv.

    selftest.copies=40 and selftest.agent_copies=10 are how many; selftest.strength=0.3 is what the agent is tried on.
    """
    from rich.console import Console

    from pacesetter.jobs import resolve
    from pacesetter.jobs.hydra.overrides import take_options
    from pacesetter.lab.selftest.selftest import Selftest, run_selftest

    settings, rest = take_options(overrides or [], "selftest", Selftest)
    console = Console()
    result, run = run_selftest(resolve(rest), settings, console)
    for sentence in result.sentences:
        console.print(sentence, soft_wrap=True, highlight=False)
    console.print(f"→ {run.folder}", soft_wrap=True, highlight=False)
