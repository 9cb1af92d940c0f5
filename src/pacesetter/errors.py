"""The one exception family: a message says what, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["ConfigError", "DataError", "PacesetterError", "RunError", "did_you_mean"]


class PacesetterError(Exception):
    """Anything the user can put right; the command line prints it as one sentence and exits with 2."""


class ConfigError(PacesetterError):
    """An option, key or argument that is unknown, of the wrong type or out of range."""


class DataError(PacesetterError):
    """Bars that break a rule, or a file that cannot be read as bars."""


class RunError(PacesetterError):
    """A run folder that is missing, damaged or of another kind."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"`, or the list of what is known when nothing comes close."""
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known: {', '.join(names) if names else 'none'}"
