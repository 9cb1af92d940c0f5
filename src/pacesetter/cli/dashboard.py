"""The command that shows it all: `dashboard`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]

JOURNAL = Path("paper") / "journal.db"  # where `pacesetter paper` leaves it


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(dashboard)


def dashboard(
    runs: Annotated[Path, typer.Argument(help="Folder of the runs.")] = Path("runs"),
    journal: Annotated[
        str, typer.Option(help="Paper trader's journal: sqlite:///FILE or postgresql://…; default paper/journal.db.")
    ] = "",
    mlflow: Annotated[str, typer.Option(help="Tracking store; by default the one next to the runs.")] = "",
    host: Annotated[
        str, typer.Option(help="Address to listen on; loopback only unless another is given.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port.", min=1, max=65535)] = 8501,
    halt_file: Annotated[Path, typer.Option(help="Kill switch of the trader.")] = Path("HALT"),
    keys: Annotated[Path, typer.Option(help="File of hashed API keys; an admin key may halt from the page.")] = Path(
        "keys.json"
    ),
    language: Annotated[str, typer.Option(help="Of the texts.")] = "en",
    open: Annotated[bool, typer.Option("--open", help="Open it in this machine's browser.")] = False,
) -> None:
    """Show runs, lead–lag, live training, agents and the paper trader's book in a web page, read-only."""
    from pacesetter.dashboard.server import serve
    from pacesetter.dashboard.settings import Settings
    from pacesetter.dashboard.texts import check_language
    from pacesetter.errors import RunError
    from pacesetter.serving.risk.halt import KillSwitch

    journal = journal or (f"sqlite:///{JOURNAL}" if JOURNAL.is_file() else "")
    if not runs.is_dir() and not journal:
        raise RunError(f"folder {runs} does not exist; give the folder of your runs, or create one with pacesetter run")
    if not _is_loopback(host):
        typer.echo(f"note: {host} can be reached by others, and the page has no login", err=True)
    settings = Settings(
        runs,
        journal,
        mlflow,
        KillSwitch(halt_file),
        _admin(keys),
        check_language(language),
    )
    serve(settings, host, port, open)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _admin(path: Path) -> Callable[[str], str | None] | None:
    """Token -> name of the admin whose key it is; None where the file has no admin's key."""
    from datetime import UTC, datetime

    from pacesetter.serving.api.keys import Keys

    keys = Keys(path)
    if not any("admin" in key.scopes for key in keys.keys):
        return None

    def name_of(token: str) -> str | None:
        key = keys.find(token)
        if key is None or "admin" not in key.scopes or key.is_expired(datetime.now(UTC)):
            return None
        return key.name

    return name_of
