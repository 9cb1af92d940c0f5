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
    """Run the demo on ten portfolios by size: who leads, an agent that learns it, the verdict, a served decision."""
    import logging

    from pacesetter.lab.demo.demo import Demo

    training = logging.getLogger("pacesetter.jobs")
    level = training.level
    training.setLevel(logging.ERROR)  # what its gates say is in the verdict
    try:
        played = Demo(str(runs))
        played.play()
    finally:
        training.setLevel(level)
    typer.echo(f"Served decision: {_served(played)}")


def _served(played: Demo) -> str:
    """The policy of the verdict as a bundle, and one decision that it served; or why there is none."""
    try:
        from pacesetter.serving.trader.demo import bundle_and_ask
    except ModuleNotFoundError as problem:
        return f"none, {problem.name} is missing: pip install 'pacesetter[serve]'"
    return bundle_and_ask(played.agent_run.folder, Path(played.runs) / "bundles", played.run.folder)
