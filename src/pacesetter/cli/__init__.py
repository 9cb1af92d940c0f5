"""The command line: every command by its room. Heavy imports wait until a command needs them."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from pacesetter.cli import cluster, dashboard, data, fleet, jobs, paper, reproduce, results, serve
from pacesetter.errors import PacesetterError

__all__ = ["app", "main"]

UNBROKEN = "200"  # letters a line of what goes to a file or another program, where no table is to be broken

app = typer.Typer(
    help="Find which assets set the pace of others, and train agents that trade on it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for room in (jobs, cluster, fleet, results, reproduce, data, serve, paper, dashboard):
    room.register(app)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what each room logs.")] = False,
) -> None:
    if version:
        from pacesetter import __version__

        typer.echo(f"pacesetter {__version__}")
        raise typer.Exit
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(name)s: %(message)s")


def main() -> None:
    """Run the command line; what the user can put right is one sentence and exit code 2, never a traceback."""
    if not sys.stdout.isatty():
        os.environ.setdefault("COLUMNS", UNBROKEN)
    try:
        app()
    except PacesetterError as problem:
        typer.echo(f"error: {problem}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as problem:  # a folder that may not be written to, a full disk, a file where a folder should be
        if problem.filename is None:
            raise
        typer.echo(f"error: {problem.filename} cannot be used: {problem.strerror}", err=True)
        sys.exit(2)
