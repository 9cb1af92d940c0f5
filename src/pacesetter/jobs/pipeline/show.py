"""Sections of a report on the console."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pacesetter.evaluation.report.page import Section
from pacesetter.words import cell

__all__ = ["section_table", "show_sections"]

WIDE_LETTERS = 130  # of a console that has room for every column

# set to the left
TEXT_COLUMNS = (
    *("symbol", "role", "regime now", "policy", "run", "verdict", "gate", "scenario", "closed by"),
    *("family", "task", "difference", "leader", "follower", "relation"),
)


def section_table(section: Section, hidden: Sequence[str] = (), most: int = 25) -> Table:
    """The first rows without the `hidden` columns, cells broken where the console is too narrow; the report has all."""
    shown = [place for place, name in enumerate(section.header) if name not in hidden]
    cut = f" (first {most} of {len(section.rows)}; the report has all)" if len(section.rows) > most else ""
    table = Table(title=section.title + cut, title_justify="left")
    for place in shown:
        justify: Any = "left" if section.header[place] in TEXT_COLUMNS else "right"
        table.add_column(section.header[place], justify=justify, overflow="fold")
    for row in section.rows[:most]:
        table.add_row(*(cell(row[place]) for place in shown))
    return table


def show_sections(sections: Iterable[Section], hidden: Sequence[str] = (), most: int = 25) -> None:
    """Tables, of which the `most` first rows, and texts; the `hidden` columns are left out on a narrow console."""
    console = Console()
    for section in sections:
        if section.headline:
            console.print(f"[bold]{section.headline}[/]")
        if section.rows:
            console.print(section_table(section, hidden if console.width < WIDE_LETTERS else (), most))
        console.print(section.text, highlight=False, markup=False)
