"""Runs: filter, compare verdicts, lay curves over each other, open a report."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from pacesetter.dashboard.folders import Filters, RunFacts, by_job, curves, equity_figure, run_table
from pacesetter.dashboard.live import curve_figure
from pacesetter.dashboard.settings import current_settings
from pacesetter.dashboard.tables import config_differences
from pacesetter.dashboard.texts import column, say
from pacesetter.dashboard.tracked import tracked_runs, tracking_uri
from pacesetter.dashboard.views.parts import all_runs, chart, choose_run, contain_errors, table

__all__ = ["embed_page", "show_runs"]

FORMATS = {
    "label": 260,
    "tags": 110,
    "verdict": 100,
    "interval": 115,
    "sharpe": "%+.2f",
    "yearly_return": "percent",
    "drawdown": "percent",
}
REPORTS = ("report.html", "evaluation/report.html")
FIRST_COLUMNS = (
    *("label", "task", "status", "tags", "verdict", "sharpe", "interval", "yearly_return", "drawdown", "gates", "data"),
    "problem",
)
FIRST_CHOSEN = 3  # judged runs that are compared until the reader chooses
REPORT_PIXELS = 900
MOST_PROBLEMS = 3  # told below the table, which has all


def show_runs() -> None:
    """The page."""
    runs = all_runs()
    if not runs:
        st.info(say("runs.empty", folder=current_settings().runs))
        return
    filters = _filters(runs)
    kept = by_job([run for run in runs if filters.keep(run)])
    _table(kept, filters, len(runs))
    for run in [run for run in kept if run.problem][:MOST_PROBLEMS]:
        st.warning(f"{run.name}: {run.problem}")
    with contain_errors():
        _compare(kept)
    with contain_errors():
        _report(kept)
    with contain_errors():
        _draw_tracked()


def _table(kept: Sequence[RunFacts], filters: Filters, count: int) -> None:
    """The runs by job, in the columns that the reader chose, and how many of all; those inside a job if asked for."""
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    has_inside = any(run.is_inside for run in kept)
    is_whole = right.toggle(say("runs.inside"), key="runs.inside") if has_inside else True
    listed = run_table([run for run in kept if is_whole or not run.is_inside], filters)
    st.caption(say("runs.count", shown=len(listed), count=count))
    first = [name for name in FIRST_COLUMNS if name in listed]
    chosen = left.multiselect(
        say("choose.columns"), list(listed.columns), first, format_func=column, key="runs.columns"
    )
    table(listed[chosen or first], "runs.table", file_name="runs.csv", formats=FORMATS)
    if "tags" in chosen and not any(run.tags for run in kept):
        st.caption(say("runs.tag"))


def _filters(runs: Sequence[RunFacts]) -> Filters:
    """One line of choices, each from what the runs have."""
    with st.container(key="runs_filters"):
        tasks, data, presets, tags, regimes, since, until = st.columns(7)
    known = sorted({regime for run in runs for regime, row in run.regimes.items() if row["bars"] > 1})
    return Filters(
        tasks=_choose_several(tasks, "task", {run.task for run in runs}),
        data=_choose_several(data, "data", {run.data for run in runs}),
        presets=_choose_several(presets, "preset", {run.preset for run in runs}),
        tags=_choose_several(tags, "tags", {word for run in runs for word in run.tags}),
        regime=regimes.selectbox(say("column.regime"), [None, *known], format_func=_regime, key="runs.regime"),
        since=since.date_input(say("runs.since"), None, key="runs.since"),
        until=until.date_input(say("runs.until"), None, key="runs.until"),
    )


def _choose_several(place: st.delta_generator.DeltaGenerator, name: str, values: set[str]) -> list[str]:
    return place.multiselect(column(name), sorted(values - {""}), key=f"runs.{name}", placeholder=say("choose.all"))


def _regime(name: str | None) -> str:
    return say("choose.all") if name is None else name.replace("_", " ")


def _compare(runs: Sequence[RunFacts]) -> None:
    """Equity and live metrics of the chosen runs over each other."""
    st.subheader(say("runs.compare"))
    by_name = {run.name: run for run in runs if not run.problem}
    judged = [name for name, run in by_name.items() if run.result is not None]
    chosen = st.multiselect(
        say("choose.runs"),
        list(by_name),
        judged[:FIRST_CHOSEN],
        key="runs.chosen",
        placeholder=say("choose.some"),
        format_func=lambda name: by_name[name].label,
    )
    chosen_curves = curves(by_name[name] for name in chosen if name in by_name)
    for name, problem in chosen_curves.problems.items():
        st.warning(f"{name}: {problem}")
    if chosen_curves.judged:
        left, right = st.columns(2)
        with_baselines = left.checkbox(say("runs.baselines"), len(chosen_curves.judged) == 1, key="runs.baselines")
        is_aligned = right.checkbox(say("runs.aligned"), key="runs.aligned")
        chart(equity_figure(chosen_curves.judged, with_baselines, is_aligned), "runs.equity")
    elif chosen:
        st.info(say("runs.not_judged"))
    metrics = chosen_curves.metric_names()
    for metric, place in zip(metrics, st.columns(max(len(metrics), 1)), strict=False):
        with place:
            chart(curve_figure(chosen_curves.metrics, metric), f"runs.{metric}")
    if len(chosen) > 1:
        _differences({by_name[name].label: by_name[name].folder for name in chosen if name in by_name})


def _differences(folders: dict[str, Path]) -> None:
    """The settings in which the chosen runs differ, folded."""
    with st.expander(say("runs.differences")):
        different = config_differences(folders)
        if different.empty:
            st.caption(say("runs.same"))
        else:
            table(different, "runs.differences", file_name="differences.csv")


def _report(runs: Sequence[RunFacts]) -> None:
    """The report of one run, inside the page and to take along."""
    st.subheader(say("runs.report"))
    having = [run for run in runs if _reports(run.folder)]
    if not having:
        st.info(say("runs.no_report"))
        return
    page = _reports(choose_run(having, "runs.reported").folder)[0]
    if st.toggle(say("runs.open"), key="runs.open"):
        content = page.read_text(encoding="utf-8")
        st.iframe(embed_page(content), height=REPORT_PIXELS)
        st.download_button(say("runs.save_report"), content, "report.html", "text/html", on_click="ignore")


def _reports(folder: Path) -> list[Path]:
    return [folder / name for name in REPORTS if (folder / name).is_file()]


def embed_page(page: str) -> str:
    """A page inside a frame of its own origin: a report from elsewhere cannot reach what is typed here."""
    style = "position:fixed;inset:0;width:100%;height:100%;border:0;background:white"
    # Without allow-same-origin: scripts of a report run, and see neither this page nor its cookies.
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _draw_tracked() -> None:
    """What MLflow tracked, on demand: it takes seconds to import."""
    uri = tracking_uri(current_settings().runs, current_settings().mlflow)
    if uri is not None and st.toggle(say("mlflow.show"), key="runs.mlflow"):
        table(tracked_runs(uri), "runs.tracked", file_name="tracked.csv")
