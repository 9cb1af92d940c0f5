"""report.html: one self-contained page from sections; plotly's script is inlined once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pacesetter.runs import write_atomic

__all__ = ["Section", "write_report"]


@dataclass(frozen=True)
class Section:
    """A part of the report: a title, a sentence, pictures (plotly figures), and a table."""

    title: str
    text: str
    figures: tuple[Any, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    @property
    def anchor(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())

    def to_json(self) -> dict[str, Any]:
        """Plain content, pictures included, that `from_json` makes the same section of."""
        from plotly.io import to_json

        figures = [json.loads(to_json(figure)) for figure in self.figures]
        return {name: getattr(self, name) for name in ("title", "text", "header", "rows")} | {"figures": figures}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Section:
        from plotly.graph_objects import Figure

        figures = tuple(Figure(figure) for figure in stored["figures"])
        rows = tuple(tuple(row) for row in stored["rows"])
        return cls(stored["title"], stored["text"], figures, tuple(stored["header"]), rows)

    def pictures(self) -> list[str]:
        """The figures as HTML fragments that share the page's script."""
        options = {"displaylogo": False, "responsive": True}
        return [figure.to_html(full_html=False, include_plotlyjs=False, config=options) for figure in self.figures]


def write_report(
    path: Path,
    title: str,
    sections: Sequence[Section],
    notes: Sequence[str] = (),
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Write the page; `notes` are caveats shown first, `facts` the set-up shown last."""
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs() if any(section.figures for section in sections) else ""
    html = _template().render(title=title, sections=sections, notes=notes, facts=facts or {}, plotly=script)
    return write_atomic(path, html)


@lru_cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pacesetter.evaluation"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.j2")
