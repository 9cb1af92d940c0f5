"""The one exception family: a message says what, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["ConfigError", "DataError", "PacesetterError", "RunError", "did_you_mean"]

MOST_NAMES = 12  # a message lists so many known names; a panel may have thousands


class PacesetterError(Exception):
    """Anything the user can put right; the command line prints it as one sentence and exits with 2."""


class ConfigError(PacesetterError):
    """An option, key or argument that is unknown, of the wrong type or out of range."""


class DataError(PacesetterError):
    """Bars that break a rule, or a file that cannot be read as bars."""


class RunError(PacesetterError):
    """A run folder that is missing, damaged or of another kind."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` in any case of letters, or the list of what is known when nothing comes close."""
    names = sorted(known)
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{by_lower[close[0]]}'?"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"; known: {', '.join(names[:MOST_NAMES]) or 'none'}{more}"
