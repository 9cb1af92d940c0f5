"""A section of the report as a table on the console."""

from __future__ import annotations

from collections.abc import Sequence

from pacesetter.cells import Table
from pacesetter.evaluation.report.page import Section

__all__ = ["section_table"]


def section_table(section: Section, hidden: Sequence[str] = (), most: int = 25) -> Table:
    """The first rows without the `hidden` columns."""
    return section.table.cut(hidden, most)
