"""Tables of a report as LaTeX, for a paper: `booktabs` rules, letters that LaTeX reads as commands escaped."""

from __future__ import annotations

from collections.abc import Sequence

from pacesetter.evaluation.report.page import Section

__all__ = ["latex_tables"]

ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "−": "$-$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    "→": r"$\to$",
    "σ": r"$\sigma$",
    "ν": r"$\nu$",
}


def latex_tables(sections: Sequence[Section]) -> str:
    """A `table` for each section that has rows; the title is its caption, numbers stand to the right."""
    head = "% needs \\usepackage{booktabs}\n"
    return head + "\n".join(_table(section) for section in sections if section.rows)


def _table(section: Section) -> str:
    table = section.table
    columns = "".join("r" if is_number else "l" for is_number in table.numeric())
    rows = [_row(table.header), r"\midrule", *map(_row, table.rows)]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escape(section.title)}}}",
        rf"\label{{tab:{section.anchor}}}",
    ]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *rows, r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[object]) -> str:
    return " & ".join(map(_escape, cells)) + r" \\"


def _escape(cell: object) -> str:
    return "".join(ESCAPED.get(letter, letter) for letter in str(cell))
