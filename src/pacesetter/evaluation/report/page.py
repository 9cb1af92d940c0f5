"""report.html: one self-contained page from sections; plotly's script is inlined once."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pacesetter.errors import ConfigError, RunError
from pacesetter.runs import write_atomic

__all__ = ["Section", "number", "write_pdf", "write_report"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PLAIN = ("title", "text", "header", "rows", "is_evidence")  # what of a section JSON holds as it is
UNKNOWN = "–"
NUMBER = re.compile(rf"[+-]?[\d.,]+|{UNKNOWN}|$")  # how the cells of a column of numbers begin


def number(value: float, form: str) -> str:
    """A number as text; a dash where it is not known."""
    return UNKNOWN if math.isnan(value) else format(value, form)


@dataclass(frozen=True)
class Section:
    """A part of the report: a title, a sentence, pictures (plotly figures), and a table.

    is_evidence  of a verdict, whose sentence then opens the page on a card; None for all other parts
    """

    title: str
    text: str
    figures: tuple[Any, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    is_evidence: bool | None = None

    @property
    def anchor(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())

    def numeric(self) -> list[bool]:
        """Whether each column holds numbers, which are set to the right; the first one names its row."""
        columns = list(zip(*self.rows, strict=True))
        return [place > 0 and all(NUMBER.match(str(cell)) for cell in cells) for place, cells in enumerate(columns)]

    def to_json(self) -> dict[str, Any]:
        """Plain content, pictures included, that `from_json` makes the same section of."""
        from plotly.io import to_json

        figures = [json.loads(to_json(figure)) for figure in self.figures]
        return {name: getattr(self, name) for name in PLAIN} | {"figures": figures}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Section:
        from plotly.graph_objects import Figure

        figures = tuple(Figure(figure) for figure in stored["figures"])
        rows = tuple(tuple(row) for row in stored["rows"])
        return cls(stored["title"], stored["text"], figures, tuple(stored["header"]), rows, stored["is_evidence"])

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


def write_pdf(page: Path) -> Path:
    """Print a page to PDF beside it, by the headless browser that is installed; refuses where there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise ConfigError(f"a PDF needs one of {', '.join(BROWSERS)}; install one, or print the page from a browser")
    target = page.with_suffix(".pdf")
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", "--virtual-time-budget=20000"]
    command = [browser, *quiet, f"--print-to-pdf={target}", page.resolve().as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode or not target.is_file():
        raise RunError(f"{browser} could not print {page}: {done.stderr.strip().splitlines()[-1:]}")
    return target


@lru_cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pacesetter.evaluation.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("report.html.j2")
