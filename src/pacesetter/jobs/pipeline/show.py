"""Sections of a report on the console."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from pacesetter.cells import Table
from pacesetter.evaluation.report.page import Section

__all__ = ["section_table", "show_sections"]

WIDE_LETTERS = 130  # of a console that has room for every column


def section_table(section: Section, hidden: Sequence[str] = (), most: int = 25) -> Table:
    """The first rows without the `hidden` columns."""
    return section.table.cut(hidden, most)


def show_sections(sections: Iterable[Section], hidden: Sequence[str] = (), most: int = 25) -> None:
    """Tables, of which the `most` first rows, and texts; the `hidden` columns are left out on a narrow console."""
    console = Console()
    for section in sections:
        if section.headline:
            console.print(f"[bold]{section.headline}[/]")
        if section.rows:
            console.print(section_table(section, hidden if console.width < WIDE_LETTERS else (), most))
        console.print(section.text, highlight=False, markup=False)
