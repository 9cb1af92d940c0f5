"""report.html: one self-contained page from sections, in tabs; scripts and pictures are packed, and unpacked there."""

from __future__ import annotations

import base64
import gzip
import json
import math
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pacesetter.cells import UNKNOWN, Table
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.report.persian import in_persian
from pacesetter.evaluation.report.static import static_svg
from pacesetter.evaluation.report.texts import read_texts
from pacesetter.runs import write_atomic

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from jinja2 import Template
    from markupsafe import Markup

    from pacesetter.market.parameters import MarketParameters

__all__ = [
    "Section",
    "day_form",
    "format_number",
    "format_signed",
    "number",
    "page_header",
    "span_text",
    "write_pdf",
    "write_report",
]

DAY = pd.Timedelta("20h")  # a close a day; it moves by an hour in summer

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# what of a section JSON holds as it is
PLAIN = ("title", "text", "header", "rows", "is_evidence", "reasons", "faint", "headline")
MOST_ROWS = 25  # of a table until the reader asks for all
FEW_SECTIONS = 3  # that need no tabs
REST = "More"  # the tab of what no other has
TABS = {  # tab -> titles of its sections
    "Result": (
        "Verdict",
        "Around its prior",
        "Results",
        "Gates",
        "Against the index",
        "Monthly returns",
        "Episode",
        "The picture",
        "By costs",
    ),
    "Trades": (
        "Trades on prices",
        "Trades",
        "Weights over time",
        "Contribution by asset",
        "Windows",
        "Windows over time",
    ),
    "Robustness": (
        *("Results by regime", "Stress", "Costs and limits", "Walk-forward", "Combinatorial paths"),
        *("Costs of switching", "Safety", "Regret", "Worth downstream"),
    ),
    "Lead–lag": (
        *("Lead–lag", "Groups", "When it began and ended", "Links and lags", "Leadership over time", "Lookback"),
        *("Who leads", "Learned relations"),
    ),
    "Agents": ("Agents", "Agents out-of-sample", "Agents together", "Allocations"),
    "Data": ("Bars", "Data quality", "Features", "Regimes"),
}


def day_form(times: pd.DatetimeIndex) -> str:
    """How a moment of these bars is written: by the day, or with hours where a day has several."""
    is_intraday = len(times) > 1 and bool((times[1:] - times[:-1]).to_series().median() < DAY)
    return "%Y-%m-%d %H:%M" if is_intraday else "%Y-%m-%d"


def span_text(times: pd.DatetimeIndex) -> str:
    """From the first bar to the last, with hours and the zone where bars have them."""
    form = day_form(times)
    return f"{times[0]:{form}} to {times[-1]:{form}}{' UTC' if '%H' in form else ''}"


def page_header(
    data: str, times: pd.DatetimeIndex, symbols: Sequence[str], seed: int, rules: MarketParameters | None = None
) -> dict[str, str]:
    """What a page is about, for its top: data, period and seed; of an account its costs, capital and limits too."""
    facts = {"data": data, "period": span_text(times), "bars": f"{len(times):,}", "symbols": f"{len(symbols):,}"}
    return facts | ({} if rules is None else _rules(rules)) | {"seed": str(seed)}


def _rules(rules: MarketParameters) -> dict[str, str]:
    costs, limits = rules.costs, rules.limits
    side = costs.commission_bps + costs.spread_bps / 2 + costs.slippage_bps
    parts = (
        f"{costs.commission_bps:g} commission, {costs.spread_bps / 2:g} half spread, {costs.slippage_bps:g} slippage"
    )
    short = "shorting allowed" if limits.shorting else "long only"
    return {
        "costs": f"{side:g} bps a side ({parts})",
        "capital": f"{rules.initial_cash:,.0f}",
        "limits": f"{limits.position_cap_fraction:.0%} a position, leverage {limits.gross_leverage:g}, {short}",
    }


def number(value: float, form: str) -> str:
    """A number as text; a dash where it is not known."""
    return UNKNOWN if math.isnan(value) else format(value, form)


def format_number(value: float) -> str:
    """A number as a person would write it: three digits that count, thousands set apart, no powers of ten."""
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if abs(value) < 0.001:
        return "< 0.001" if value > 0 else "> −0.001"
    digits = max(2 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_signed(value: float) -> str:
    """Three significant digits and a sign, however small: −0.000234 as `-0.000234`; 0 has no sign."""
    if not math.isfinite(value) or value == 0:
        return format_number(value)
    if not 1e-6 <= abs(value) < 1e6:
        return f"{value:+.2e}"
    return f"{value:+,.{max(2 - math.floor(math.log10(abs(value))), 0)}f}"


@dataclass(frozen=True)
class Section:
    """A part of the report: a title, a sentence, pictures (plotly figures), and a table.

    is_evidence  of a verdict, whose sentence then opens the page on a card; None for all other parts
    headline     of a verdict, in a few words        reasons   of a verdict, one sentence each
    choices      (name, figure) of which the reader picks one, e.g. a symbol
    faint        rows of the table that are not significant
    """

    title: str
    text: str
    figures: tuple[go.Figure, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    is_evidence: bool | None = None
    reasons: tuple[str, ...] = ()
    choices: tuple[tuple[str, go.Figure], ...] = ()
    faint: tuple[int, ...] = ()
    headline: str = ""

    @property
    def tab(self) -> str:
        """The tab that it stands in."""
        return next((tab for tab, titles in TABS.items() if self.title in titles), REST)

    @property
    def anchor(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())

    @property
    def table(self) -> Table:
        """Its cells, for whatever shows them."""
        return Table(self.header, self.rows, self.title, faint=self.faint)

    def to_json(self) -> dict[str, object]:
        """Plain content, pictures included, that `from_json` makes the same section of."""
        from plotly.io import to_json

        figures = [json.loads(to_json(figure)) for figure in self.figures]
        choices = [(name, json.loads(to_json(figure))) for name, figure in self.choices]
        return {name: vars(self)[name] for name in PLAIN} | {"figures": figures, "choices": choices}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Section:
        from plotly.graph_objects import Figure

        own: dict[str, Any] = {name: stored[name] for name in PLAIN if name in stored}
        own |= {name: tuple(own.get(name, ())) for name in ("header", "reasons", "faint")}
        own["rows"] = tuple(tuple(row) for row in stored["rows"])
        own["figures"] = tuple(Figure(figure) for figure in stored["figures"])
        own["choices"] = tuple((name, Figure(figure)) for name, figure in stored.get("choices", ()))
        return cls(**own)


def write_report(
    path: Path,
    title: str,
    sections: Sequence[Section],
    notes: Sequence[str] = (),
    facts: Mapping[str, str] | None = None,
    header: Mapping[str, str] | None = None,
) -> Path:
    """Write the page; `header` is what was judged, `notes` are caveats shown first, `facts` the set-up shown last."""
    figures: list[dict[str, object]] = []
    parts = [_part(section, figures) for section in sections]
    tabs = list(dict.fromkeys(part["tab"] for part in parts)) if len(parts) > FEW_SECTIONS else []
    html = _template().render(
        title=title,
        parts=parts,
        tabs=sorted(tabs, key=[*TABS, REST].index) if len(tabs) > 1 else [],
        notes=notes,
        facts=facts or {},
        header=header or {},
        most_rows=MOST_ROWS,
        plotly=_plotly() if figures else "",
        figures=_pack_text(json.dumps(figures, separators=(",", ":"))) if figures else "",
        persian_of=_persian_attribute,
        persian=json.dumps(read_texts("report", "fa"), ensure_ascii=False).replace("</", "<\\/"),
    )
    return write_atomic(path, html)


def _persian_attribute(text: str) -> Markup | str:
    """What a sentence carries for the language switch; nothing where its Persian is not known."""
    from markupsafe import Markup

    persian = in_persian(text)
    return Markup(' data-persian="{}"').format(persian) if persian else ""


def _part(section: Section, figures: list[dict[str, object]]) -> dict[str, Any]:
    """What the template shows of a section; its pictures join the page's list and are named by their places."""
    return {
        "section": section,
        "tab": section.tab,
        "figures": [_place_figure(figure, figures) for figure in section.figures],
        "choices": [
            (name, _place_figure(figure, figures, is_shown=place == 0))
            for place, (name, figure) in enumerate(section.choices)
        ],
    }


def _place_figure(figure: object, figures: list[dict[str, object]], is_shown: bool = True) -> dict[str, object]:
    """Where a picture stands in the list, with a plain drawing of it where the page opens with it."""
    from markupsafe import Markup
    from plotly.io import to_json

    # Validation takes longer than drawing, and every figure here was made by plotly itself.
    content = _single_precision(json.loads(to_json(figure, validate=False)))
    figures.append(content)
    layout = content.get("layout", {})
    drawing = Markup(static_svg(content) if is_shown else "")  # its texts are escaped there
    return {
        "place": len(figures) - 1,
        "height": layout.get("height", 380),
        "title": _title(layout),
        "drawing": drawing,
    }


def _title(layout: Mapping[str, object]) -> str:
    title = layout.get("title", "")
    return str(title.get("text", "") if isinstance(title, dict) else title)


def _single_precision(content: object) -> Any:
    """Arrays of a figure with seven digits: no screen shows more, and the page is half as large."""
    if isinstance(content, list):
        return [_single_precision(each) for each in content]
    if not isinstance(content, dict):
        return content
    if content.get("dtype") == "f8":
        values = np.frombuffer(base64.b64decode(content["bdata"]), np.float64)
        # Larger numbers would become infinite.
        if np.abs(values[np.isfinite(values)]).max(initial=0.0) < np.finfo(np.float32).max:
            return content | {"dtype": "f4", "bdata": base64.b64encode(values.astype(np.float32).tobytes()).decode()}
    return {key: _single_precision(value) for key, value in content.items()}


@lru_cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return _pack_text(get_plotlyjs())


def _pack_text(text: str) -> str:
    """Gzip in base64: plotly's script takes 2 MB instead of 4.8."""
    # mtime=0: the same content gives the same bytes.
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def write_pdf(page: Path) -> Path:
    """Print a page to PDF beside it, by the headless browser that is installed; refuses where there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise ConfigError(f"a PDF needs one of {', '.join(BROWSERS)}; install one, or print the page from a browser")
    target = page.with_suffix(".pdf")
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", "--virtual-time-budget=20000"]
    command = [browser, *quiet, f"--print-to-pdf={target}", f"{page.resolve().as_uri()}#print"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode or not target.is_file():
        raise RunError(f"{browser} could not print {page}: {done.stderr.strip().splitlines()[-1:]}")
    return target


@lru_cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pacesetter.evaluation.report"),
        autoescape=True,
        # A misspelt name in the template must fail a test, not leave a gap on the page.
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("report.html.j2")
