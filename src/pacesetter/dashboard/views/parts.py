"""What the pages share: the runs they choose from, charts, tables to take along, and errors that break nothing."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pacesetter.dashboard.book import HALTED, Book, JournalReader
from pacesetter.dashboard.folders import RunFacts, find_runs, read_run, stamp
from pacesetter.dashboard.settings import current_settings
from pacesetter.dashboard.texts import LANGUAGES, RIGHT_TO_LEFT, column, language, right_to_left, say, use_reader
from pacesetter.errors import PacesetterError
from pacesetter.words import for_spreadsheets

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "all_runs",
    "chart",
    "choose_language",
    "choose_run",
    "contain_errors",
    "halt_reason",
    "halted_banner",
    "open_book",
    "set_style",
    "table",
    "trading_runs",
]


STYLE = """<style>
.stMainBlockContainer {padding-top: 4rem}  /* a laptop's screen is low */
.st-key-language {position: fixed; top: 0.35rem; inset-inline-end: 3.2rem; width: auto; z-index: 999991}
.stElementContainer:has(.for-readers) {position: absolute}
.for-readers {position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%)}
@media (max-width: 640px) {
  .stMainBlockContainer {padding-inline: 0.8rem}
  .st-key-runs_filters [data-testid=stColumn] {min-width: calc(50% - 1rem); flex: 1 1 calc(50% - 1rem)}
}
</style>"""
MIRRORED = """<style>
.stMain, [data-testid=stHeader] {direction: rtl}
.stElementContainer, .stHeading, .stMarkdown {text-align: right !important}  /* Streamlit says left */
.stPlotlyChart, .stDataFrame, .stSlider, pre, code, [data-testid=stBidiComponent] {direction: ltr}
.st-key-language > * {direction: ltr}  /* its borders have their sides */
code {unicode-bidi: isolate}
/* An English sentence, or a number with a sign, runs its own way. */
[data-testid=stMarkdownContainer] :is(p, li, h1, h2, h3, h4),
[data-testid=stMetricValue], [data-testid=stMetricValue] * {
  unicode-bidi: plaintext
}
</style>"""


# ---- the reader's language ------------------------------------------------------------------------------------------


def _of_reader() -> str | None:
    """What this reader chose; None before, and outside a page."""
    if get_script_run_ctx(suppress_warning=True) is None:
        return None
    return st.session_state.get("language") or st.query_params.get("language")


use_reader(_of_reader)


def choose_language() -> None:
    """The switch in the page's corner; the choice stays in the address."""
    # Set once: later it is the widget's own state, which Streamlit does not let a script overwrite.
    if "language" not in st.session_state:
        st.session_state["language"] = language()
    chosen = st.segmented_control(
        say("app.language"),
        list(LANGUAGES),
        key="language",
        format_func=lambda name: LANGUAGES[name]["language"],
        label_visibility="collapsed",
        required=True,
    )
    if chosen and chosen != st.query_params.get("language", current_settings().language):
        st.query_params["language"] = chosen


def set_style() -> None:
    """What the theme lacks; and from right to left where the language runs so."""
    st.html(STYLE + (MIRRORED if language() in RIGHT_TO_LEFT else ""))
    _page_language()(key="app.document", data={"language": language()})


@st.cache_resource(show_spinner=False)
def _page_language() -> Any:
    """Tells the browser, and screen readers, in which language the page is."""
    script = "export default ({ data, parentElement }) => { document.documentElement.lang = data.language }"
    return st.components.v2.component("pacesetter_language", html="<span></span>", js=script)


# ---- runs -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=5000)
def _facts(folder: str, root: str, stamp: tuple[float, ...]) -> RunFacts:
    return read_run(Path(folder), Path(root))


def all_runs() -> list[RunFacts]:
    """Every run, the newest first; a folder that has not changed is not read again."""
    root = current_settings().runs
    # The stamp is part of the key: a changed folder is another entry, and old ones fall out by age.
    return [_facts(str(folder), str(root), stamp(folder)) for folder in find_runs(root)]


def choose_run(runs: Sequence[RunFacts], key: str) -> RunFacts:
    """The run that the reader picks, the first one until then."""
    names = {run.name: run for run in runs}
    chosen = st.selectbox(say("choose.run"), list(names), key=key, format_func=lambda name: names[name].label)
    return names[chosen]


@contextmanager
def contain_errors() -> Iterator[None]:
    """Whatever goes wrong inside is told in one sentence, and the rest of the page stands."""
    try:
        yield
    except PacesetterError as problem:
        st.warning(str(problem))
    except Exception as problem:  # a page must outlive any damaged file
        st.error(say("app.failed", kind=type(problem).__name__, problem=str(problem)))


def chart(figure: go.Figure, key: str) -> None:
    """A figure in the house style, which a theme would paint over; its title is read aloud to who cannot see it."""
    title = figure.layout.title.text or ""
    if title and language() in RIGHT_TO_LEFT:
        # A picture has no direction of its own.
        figure.update_layout(title={"text": right_to_left(title), "x": 1, "xanchor": "right"})
    st.html(f'<p class="for-readers">{html.escape(say("app.chart", title=title))}</p>')
    st.plotly_chart(figure, key=key, theme=None, config={"displaylogo": False})


def table(frame: pd.DataFrame, key: str, *, file_name: str = "", formats: Mapping[str, object] | None = None) -> None:
    """A sortable table with its columns named in the reader's language, and a button that saves it as CSV.

    `formats` has the form of a column's numbers, or the width of its texts in pixels.
    """
    columns = {str(name): _column(frame[name], (formats or {}).get(str(name))) for name in frame.columns}
    st.dataframe(frame, hide_index=True, column_config=columns, key=key, placeholder="–")
    if file_name:
        content = for_spreadsheets(frame).to_csv(index=False)
        st.download_button(
            say("app.save", file=file_name), content, file_name, "text/csv", key=f"{key}.csv", on_click="ignore"
        )


def _column(values: pd.Series, form: Any) -> Any:
    """How a column is headed and written: moments to the minute, numbers in their form, texts as wide as asked."""
    heading = column(str(values.name))
    if pd.api.types.is_datetime64_any_dtype(values):
        return st.column_config.DatetimeColumn(heading, format="YYYY-MM-DD HH:mm", timezone="UTC")
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return st.column_config.NumberColumn(heading, format=form)
    return st.column_config.Column(heading, width=form)


# ---- the trader -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _reader(url: str) -> JournalReader:
    return JournalReader(url)


def open_book(run: str | None = None) -> Book | None:
    """The book of a trading run, that with the newest bar unless it is named; None without a journal or a bar."""
    url = current_settings().journal
    name = run or next(iter(trading_runs()), None)
    return _reader(url).book(name) if url and name else None


def trading_runs() -> list[str]:
    """Names of the trading runs in the journal."""
    return _reader(current_settings().journal).runs() if current_settings().journal else []


def halt_reason(is_own_page: bool = False) -> str | None:
    """Why trading stands still, by the kill switch or by the newest book; None while it goes on.

    Only for a book that is live: a replay of old bars, or one that ended weeks ago, is told on its own page only.
    """
    try:
        book = open_book()
    except PacesetterError:  # the page of the book tells it
        return None
    is_live = book is not None and book.is_live()
    if is_live == is_own_page:  # a live one has its banner on every page already
        return None
    switch = current_settings().switch
    if switch is not None and switch.is_engaged():
        return switch.reason()
    return book.reason if book is not None and book.state == HALTED else None


def halted_banner(is_own_page: bool = False) -> None:
    """On every page where the book is live, else on the book's own: trading stands still, and why."""
    reason = halt_reason(is_own_page)
    if reason is not None:
        st.error(say("book.halted", reason=reason), icon=":material/front_hand:")
