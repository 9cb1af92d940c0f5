"""The first view: the newest runs as plain HTML, on the screen until Streamlit's own scripts have drawn them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from pacesetter.dashboard.folders import RunFacts, run_table
from pacesetter.dashboard.texts import RIGHT_TO_LEFT, column, language, say

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["first_page"]

SHOWN = {"label": "", "started": "%Y-%m-%d %H:%M", "task": "", "data": "", "status": "", "sharpe": "+.2f"}
SHOWN |= {"interval": "", "verdict": ""}  # column -> how a value is written
MOST_ROWS = 10  # what a laptop's screen holds


def first_page(runs: Sequence[RunFacts], pages: Sequence[str], halted: str | None) -> str:
    """Streamlit's page with the runs and, where trading is `halted`, the reason on top; without a run as it is."""
    index = (files("streamlit") / "static" / "index.html").read_text(encoding="utf-8")
    if not runs:
        return index
    view = _template().render(
        title=say("app.title"),
        language=language(),
        direction="rtl" if language() in RIGHT_TO_LEFT else "ltr",
        pages=[say(f"{name}.title") for name in pages],
        halted=None if halted is None else say("book.halted", reason=halted).lstrip("# "),
        count=say("runs.count", shown=len(runs), count=len(runs)),
        header=[column(name) for name in SHOWN],
        rows=list(_rows(runs[:MOST_ROWS])),
    )
    # Above Streamlit's own root element; a script in the view removes it once that has been drawn.
    return index.replace("<body>", f"<body>{view}", 1)


def _rows(runs: Sequence[RunFacts]) -> Iterator[list[str]]:
    for row in run_table(runs)[list(SHOWN)].itertuples(index=False):
        known = zip(row, SHOWN.values(), strict=True)
        yield ["" if pd.isna(value) else format(value, form) for value, form in known]


@lru_cache
def _template() -> Template:
    loader = PackageLoader("pacesetter.dashboard", "assets")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("first.html.j2")
