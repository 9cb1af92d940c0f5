"""The argument that most commands share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Overrides"]

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="e.g. data=synthetic data.symbols=50 +preset=sandbox"),
]
