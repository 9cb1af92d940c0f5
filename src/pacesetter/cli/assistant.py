"""`pacesetter mcp`: read-only answers about one folder for an assistant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(mcp)


def mcp(
    folder: Annotated[Path, typer.Argument(help="Folder of bars and bundles; nothing else is read.")],
    seconds: Annotated[float, typer.Option(help="Longest time of one call.", min=1)] = 120.0,
    memory: Annotated[str, typer.Option(help="Most memory of a call, e.g. 4GB; where the system can limit it.")] = (
        "4GB"
    ),
) -> None:
    """Answer an assistant over stdio (MCP): lead–lag, self-test, backtest, verdict, decision on a folder, read-only."""
    from pacesetter.errors import check_installed
    from pacesetter.jobs.large import megabytes

    check_installed("pacesetter mcp", "mcp", "mcp")
    from pacesetter.lab.mcp.server import serve

    serve(folder, seconds, megabytes(memory) * 2**20)
