"""The one table: which columns are numbers, what a cut keeps, and that a console shows cells letter by letter."""

from __future__ import annotations

import io

from rich.console import Console

from pacesetter.cells import Table

TABLE = Table(
    ("policy", "Sharpe", "95 % interval", "verdict"),
    (("agent", "+1.20", "0.40 … 2.00", "pass"), ("hold", "–", "", "[red]FAIL[/]")),
    title="Results",
    note="after costs",
)


def shown(table: Table, width: int = 100) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_columns_of_numbers_are_told_by_their_cells():
    assert TABLE.numeric() == [False, True, True, False]
    assert Table(("symbol", "1")).numeric() == [False, False]
    assert Table(("number",), (("1",),)).numeric() == [False], "the first column names its row"


def test_a_cut_leaves_columns_out_and_says_how_many_rows_there_are():
    cut = TABLE.cut(hidden=("verdict",), most=1)
    assert cut.header == TABLE.header[:3]
    assert cut.rows == (("agent", "+1.20", "0.40 … 2.00"),)
    assert cut.title == "Results (first 1 of 2; the report has all)"
    assert TABLE.cut().rows == TABLE.rows
    assert TABLE.cut().title == "Results"


def test_a_console_shows_every_cell_letter_by_letter():
    text = shown(TABLE)
    lines = text.splitlines()
    assert lines[0].strip() == "Results"
    assert lines[-1].strip() == "after costs"
    assert "[red]FAIL[/]" in text
    agent = next(line for line in lines if "agent" in line)
    assert agent.index("+1.20") > next(line for line in lines if "hold" in line).index("hold")
    assert agent.split("│")[2].endswith("+1.20 "), "numbers are set to the right"


def test_a_narrow_console_breaks_cells_and_loses_none():
    table = Table(("name", "text"), (("one", "abcdefghijklmnopqrstuvwxyz"),))
    letters = "".join(line.split("│")[2].strip() for line in shown(table, 24).splitlines() if "│" in line)
    assert letters == "abcdefghijklmnopqrstuvwxyz"
