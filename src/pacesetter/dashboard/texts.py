"""Every word that the pages say, by key, in the reader's language; what a language lacks is English.

Texts of lower packages, such as an error's sentence or a finding's title, are shown as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from string import Formatter

from pacesetter.dashboard.settings import current_settings
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.report.persian import in_persian
from pacesetter.evaluation.report.texts import read_texts

__all__ = [
    "ENGLISH",
    "LANGUAGES",
    "RIGHT_TO_LEFT",
    "check_language",
    "column",
    "language",
    "right_to_left",
    "say",
    "use_reader",
]

LANGUAGES = {name: read_texts("dashboard", name) for name in ("en", "fa")}
ENGLISH = LANGUAGES["en"]
RIGHT_TO_LEFT = ("fa",)
ASKED: ContextVar[str | None] = ContextVar("asked", default=None)  # the language that a request names
# Unicode's marks of a part with a direction of its own
FIRST_STRONG_ISOLATE, RIGHT_TO_LEFT_ISOLATE, END_OF_ISOLATE = "\u2068", "\u2067", "\u2069"
_readers: list[Callable[[], str | None]] = []


def use_reader(ask: Callable[[], str | None]) -> None:
    """Ask this for the language that the present reader chose, before that of the settings."""
    _readers[:] = [ask]


def language() -> str:
    """That of the present reader, else that of the settings."""
    chosen = ASKED.get() or (_readers[0]() if _readers else None)
    return chosen if chosen in LANGUAGES else current_settings().language


def say(key: str, **values: object) -> str:
    """The text of a key in the reader's language, with its values set in."""
    chosen = language()
    template = LANGUAGES[chosen].get(key, ENGLISH[key])
    if chosen not in RIGHT_TO_LEFT or not values:
        return template.format(**values)
    # Between backquotes is what one copies into a shell, where an invisible letter would do harm.
    parts = template.split("`")
    return "`".join((CODE if place % 2 else ISOLATING).format(part, **values) for place, part in enumerate(parts))


def in_own_language(sentence: str) -> str:
    """A sentence of an evaluation in the reader's language, where its Persian is known."""
    return (in_persian(sentence) if language() == "fa" else "") or sentence


def right_to_left(text: str) -> str:
    """The text as one that runs from right to left, wherever it is drawn."""
    return f"{RIGHT_TO_LEFT_ISOLATE}{text}{END_OF_ISOLATE}"


class _Isolating(Formatter):
    """Sets values in so that each keeps its own direction: in Persian a bare 2024-03-21 reads 21-03-2024."""

    def format_field(self, value: object, format_spec: str) -> str:
        return f"{FIRST_STRONG_ISOLATE}{super().format_field(value, format_spec)}{END_OF_ISOLATE}"


CODE, ISOLATING = Formatter(), _Isolating()


def column(name: str) -> str:
    """The heading of a table's column; its own name where none is given."""
    key = f"column.{name}"
    return say(key) if key in ENGLISH else name.replace("_", " ")


def check_language(name: str) -> str:
    """The language, if it is known."""
    if name not in LANGUAGES:
        raise ConfigError(f"there are no texts in '{name}'{did_you_mean(name, LANGUAGES)}")
    return name
