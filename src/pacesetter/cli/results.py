"""Commands that look at what runs left: episodes, evaluations, comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    for command in (inspect,):
        app.command()(command)


def inspect(
    run: Annotated[Path, typer.Argument(help="A folder with ledger.parquet and fills.parquet.")],
    trades: Annotated[int, typer.Option(help="Trades to print; trades.csv has all.")] = 20,
) -> None:
    """Replay a stored episode: its trades, what it came to, and a chart with entries and exits."""
    from rich.console import Console
    from rich.table import Table

    from pacesetter.evaluation.episode import HEADER, Episode, trade_rows

    episode = Episode.load(run)
    table = Table(*HEADER)
    for row in trade_rows(episode.trades()[:trades]):
        table.add_row(*row)
    Console().print(table)
    typer.echo(episode.verdict())
    for path in episode.save(run):
        typer.echo(f"→ {path}")
