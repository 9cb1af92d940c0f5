"""`pacesetter reproduce`: published results beside ours."""

from __future__ import annotations

from typing import Annotated

import typer

from pacesetter.errors import ConfigError

__all__ = ["register"]

PATH = "data.path="


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(reproduce)


def reproduce(
    study: Annotated[str, typer.Argument(help="lo_mackinlay or us_japan")],
    options: Annotated[list[str] | None, typer.Argument(help="data.path=FILE for us_japan")] = None,
) -> None:
    """Run a published lead–lag study and print ours beside the published figure, with the difference and its reason."""
    from rich.console import Console
    from rich.table import Table

    from pacesetter.evaluation.reproduce import reproduce as run

    path = None
    for text in options or ():
        if not text.startswith(PATH):
            raise ConfigError(f"'{text}' is unknown here; `pacesetter reproduce` takes data.path=FILE")
        path = text.removeprefix(PATH)
    result = run(study, path)
    table = Table("", "ours", "published", "difference", "reason", title=result.title)
    for line in result.comparisons:
        table.add_row(*line.row())
    console = Console()
    console.print(table)
    for note in result.notes:
        console.print(f"Note: {note}", soft_wrap=True, markup=False, highlight=False)
