"""Words to show: names from files and strangers made safe for terminal, markup and spreadsheet; counted things."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cell", "count_noun", "escape_controls", "for_markdown", "for_spreadsheets", "from_spreadsheets"]

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, direction, surrogates, line ends
KEPT = "\n\t"
MARKUP = str.maketrans({"<": "&lt;", **{sign: f"\\{sign}" for sign in "\\`*[]"}, "\n": " ", "\r": " "})
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins so


def escape_controls(text: object) -> str:
    """Text whose control characters, e.g. a terminal's escape sequences, are spelled out: \\x1b."""
    return "".join(_spell_letter(letter) for letter in str(text))


def _spell_letter(letter: str) -> str:
    is_shown = letter in KEPT or unicodedata.category(letter) not in HIDDEN
    return letter if is_shown else letter.encode("unicode_escape", "surrogatepass").decode()


def cell(text: object) -> str:
    """Text as rich shows it letter by letter, brackets included."""
    from rich.markup import escape

    return escape(escape_controls(text))


def for_markdown(text: object) -> str:
    """Text as Markdown shows it letter by letter: no tag, link, picture, code or new line from a stranger's name."""
    return escape_controls(str(text).translate(MARKUP))


def count_noun(count: int, name: str) -> str:
    """`1 warning`, `2 warnings`."""
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame as it may be written to CSV: text that a spreadsheet would run, labels included, begins with '."""
    return _relabel(frame, _quote_formula)


def from_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """What `for_spreadsheets` was given."""
    return _relabel(frame, _unquote_formula)


def _relabel(frame: pd.DataFrame, change: Callable[[object], object]) -> pd.DataFrame:
    import pandas as pd  # not before a table is written: every command loads this module

    changed = frame.rename(index=change, columns=change) if len(frame.columns) else frame.rename(index=change)
    for place, kind in enumerate(changed.dtypes):
        if not pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_datetime64_any_dtype(kind):
            changed = changed.copy() if changed is frame else changed
            changed.isetitem(place, changed.iloc[:, place].map(change).to_numpy())
    return changed


def _quote_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _unquote_formula(value: object) -> object:
    if isinstance(value, str) and value.startswith("'") and value[1:].startswith(FORMULA):
        return value[1:]
    return value
