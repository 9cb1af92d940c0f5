"""One table for whatever shows it: a console, a page of HTML, LaTeX, Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pacesetter.words import cell

if TYPE_CHECKING:
    from rich.table import Table as ConsoleTable

__all__ = ["UNKNOWN", "Table"]

UNKNOWN = "–"
NUMBER = re.compile(rf"[+-]?[\d.,]+|{UNKNOWN}|$")  # how the cells of a column of numbers begin


@dataclass(frozen=True)
class Table:
    """Cells under a header; `console.print` takes one as it is.

    title   above it on a console       note   below it       faint   rows that are not significant
    """

    header: tuple[str, ...] = ()
    rows: Sequence[tuple[object, ...]] = ()
    title: str = ""
    note: str = ""
    faint: tuple[int, ...] = ()

    def numeric(self) -> list[bool]:
        """Whether each column holds numbers, which are set to the right; the first one names its row."""
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.header)
        return [
            place > 0 and bool(cells) and all(NUMBER.match(str(each)) for each in cells)
            for place, cells in enumerate(columns)
        ]

    def cut(self, hidden: Sequence[str] = (), most: int = 25) -> Table:
        """The first rows without the `hidden` columns; the title says how many there are."""
        shown = [place for place, name in enumerate(self.header) if name not in hidden]
        rest = f" (first {most} of {len(self.rows)}; the report has all)" if len(self.rows) > most else ""
        header = tuple(self.header[place] for place in shown)
        rows = tuple(tuple(row[place] for place in shown) for row in self.rows[:most])
        return replace(self, header=header, rows=rows, title=self.title + rest)

    def newest(self, count: int) -> Table:
        """The last rows."""
        return replace(self, rows=self.rows[-count:])

    def __rich__(self) -> ConsoleTable:
        from rich.table import Table as ConsoleTable

        table = ConsoleTable(
            title=cell(self.title) or None, title_justify="left", caption=self.note or None, caption_justify="left"
        )
        for name, is_number in zip(self.header, self.numeric(), strict=True):
            # broken where the console is too narrow
            table.add_column(name, justify="right" if is_number else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*map(cell, row))
        return table
