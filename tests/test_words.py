"""Names from strangers: spelled out for a terminal, escaped for rich, quoted for a spreadsheet, and read back."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from rich.table import Table

import pacesetter
from pacesetter.errors import DataError
from pacesetter.frames import MOST_COLUMNS, read_frame
from pacesetter.words import cell, count_noun, escape_controls, for_spreadsheets, from_spreadsheets


@pytest.mark.parametrize("name", ["\x1b]0;title\x07", "\x9b31m", "A\u202eB", "A\u200bB", "A\u2028B", "\ud800", "\x7f"])
def test_letters_that_steer_a_terminal_are_spelled_out(name: str) -> None:
    said = escape_controls(name)
    assert said.isprintable()
    assert "\\" in said


@pytest.mark.parametrize("name", ["BRK.B", "Zürich", "東証", "a\tb\n", "[/red]", "🎈"])
def test_other_letters_stay(name: str) -> None:
    assert escape_controls(name) == name


def test_a_cell_is_shown_letter_by_letter() -> None:
    table, console = Table("name"), Console(file=io.StringIO(), width=80)
    for name in ("[/red]", "[bold]A[/]", "\\[x]"):
        table.add_row(cell(name))
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(name in text for name in ("[/red]", "[bold]A[/]", "[x]"))


def test_what_a_spreadsheet_would_run_is_quoted_and_read_back() -> None:
    names = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "A", "'quoted", "\tx"]
    frame = pd.DataFrame({"symbol": names, "=x": range(len(names))}, index=pd.Index(names, name="name"))
    written = for_spreadsheets(frame).to_csv()
    assert not any(part.startswith(("=", "+", "@", "-")) for line in written.splitlines() for part in line.split(","))
    pd.testing.assert_frame_equal(from_spreadsheets(for_spreadsheets(frame)), frame)
    numbers = pd.DataFrame({"x": [-1.5]}, index=[-1])
    pd.testing.assert_frame_equal(for_spreadsheets(numbers), numbers)


OWN_NAMES = {  # tables of methods, runs, folds and options, none of which came with the bars
    "league.py",
    "ablation.py",
    "cluster.py",
    "sweep.py",
    "scan.py",
    "lookback_stage.py",
    "phases.py",
    "evaluate.py",
}


def test_every_table_with_symbols_is_written_for_spreadsheets() -> None:
    sources = Path(pacesetter.__file__).parent.rglob("*.py")
    lines = [(path.name, line) for path in sources for line in path.read_text().splitlines() if ".to_csv(" in line]
    assert len(lines) > len(OWN_NAMES)
    assert [each for each in lines if "for_spreadsheets(" not in each[1] and each[0] not in OWN_NAMES] == []


def test_bars_that_would_fill_the_memory_are_refused_in_a_sentence() -> None:
    count = 19_000
    sparse = pd.DataFrame(
        {
            "date": pd.date_range("2000", periods=count, freq="min"),
            "symbol": [f"S{k}" for k in range(count)],
            "open": 1.0,
            "close": 1.0,
        }
    )
    with pytest.raises(DataError, match=r"the table has 19,000 symbols at 19,000 moments, 5\.8 GB of bars; give fewer"):
        read_frame(sparse)
    wide = pd.DataFrame([[1.0] * (MOST_COLUMNS + 1)], columns=[f"S{k}" for k in range(MOST_COLUMNS + 1)])
    with pytest.raises(DataError, match=r"has 20,002 columns; at most 20,000 are read, so split it"):
        read_frame(wide.assign(date="2000-01-03"))


def test_one_thing_is_not_several():
    assert [count_noun(count, "warning") for count in (0, 1, 2, 1000)] == [
        "0 warnings",
        "1 warning",
        "2 warnings",
        "1,000 warnings",
    ]
