"""What the page looks at, and who may stop trading from it; set once before the server starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["Settings", "Switch", "current_settings", "use"]


class Switch(Protocol):
    """The kill switch, passed in by the command line: this package does not import the risk guard."""

    def is_engaged(self) -> bool: ...

    def reason(self) -> str: ...

    def engage(self, reason: str) -> object: ...


@dataclass(frozen=True)
class Settings:
    """What the page looks at.

    runs      folder of run folders
    journal   of a paper trader: sqlite:///FILE or postgresql://…; empty shows none
    mlflow    tracking store; the one beside the runs where empty
    switch    kill switch of the trader; None shows its state nowhere
    admin     token -> name of the person whose admin key it is, None for any other; None: there is no admin key
    """

    runs: Path = Path("runs")
    journal: str = ""
    mlflow: str = ""
    switch: Switch | None = None
    admin: Callable[[str], str | None] | None = None
    language: str = "en"


# One for the process, not for the session: Streamlit runs each reader's script in a thread of its own.
_current = Settings()


def use(settings: Settings) -> None:
    """Let every page look at this from now on."""
    global _current
    _current = settings


def current_settings() -> Settings:
    """What the pages look at."""
    return _current
