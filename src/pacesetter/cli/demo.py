"""`pacesetter demo`: what the product does, on a market with a published lead–lag, in a few minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pacesetter.lab.demo.demo import Demo

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(demo)


def demo(runs: Annotated[Path, typer.Option(help="Folder that the run goes to.")] = Path("runs")) -> None:
    """Run the demo on ten portfolios by size: who leads, an agent that learns it, the verdict, a decision."""
    import logging

    from pacesetter.errors import check_installed

    check_installed("the demo", "run", "torch")
    from pacesetter.lab.demo.demo import Demo

    training = logging.getLogger("pacesetter.jobs")
    level = training.level
    training.setLevel(logging.ERROR)  # what its gates say is in the verdict
    try:
        played = Demo(str(runs))
        played.play()
    finally:
        training.setLevel(level)
    _print_decision(played)


def _print_decision(played: Demo) -> None:
    """The policy of the verdict as a bundle, and what it decides after the bars of the verdict."""
    try:
        from pacesetter.serving.trader.demo import bundle_and_ask, print_decision
    except ModuleNotFoundError as problem:
        typer.echo(f"Bundle: not created, {problem.name} is missing: pip install 'pacesetter[run]'")
        return
    store = Path(played.runs) / "bundles"
    typer.echo(f"Bundle: {bundle_and_ask(played.agent_run.folder, store, played.run.folder)}")
    print_decision(played.console, store, played.market.known)
