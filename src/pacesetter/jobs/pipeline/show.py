"""A section of the report as a table on the console."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from pacesetter.evaluation.report.page import Section
from pacesetter.words import cell

__all__ = ["section_table"]

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
