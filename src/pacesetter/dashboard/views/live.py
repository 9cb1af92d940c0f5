"""Training live: how a run that is going on learns, brought up to date twice a second."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import streamlit as st

from pacesetter.dashboard.folders import RunFacts
from pacesetter.dashboard.live import CURVES, LiveRun, curve_figure, gate_rows, mix_figure, read_live
from pacesetter.dashboard.settings import current_settings
from pacesetter.dashboard.texts import say
from pacesetter.dashboard.views.parts import all_runs, chart, choose_run, contain_errors, table

__all__ = ["show_live"]

SECONDS = 0.5  # between two looks at a run that is going on: what it writes is on the page within a second
RESOURCES = (
    "memory_mb",
    "peak_memory_mb",
    "gpu_memory_mb",
    "processor_seconds",
    "environment",
    "rollout",
    "policy",
    "update",
)


def show_live() -> None:
    """The page: runs that are going on first."""
    runs = [run for run in all_runs() if (run.folder / "metrics.jsonl").is_file()]
    if not runs:
        st.info(say("live.empty", folder=current_settings().runs))
        return
    run = choose_run(sorted(runs, key=lambda run: run.status != "running"), "live.run")
    if run.status == "running":
        _going_on(str(run.folder))
    else:
        _draw(run.folder, run)


@st.fragment(run_every=SECONDS)
def _going_on(folder: str) -> None:
    """The run as it stands now, read again by itself."""
    runs = {str(run.folder): run for run in all_runs()}
    if folder in runs:
        _draw(Path(folder), runs[folder])


def _draw(folder: Path, run: RunFacts) -> None:
    with contain_errors():
        live = read_live(folder, run.status)
        _draw_status(live, run.problem)
        known = [metric for metric in CURVES if live.latest(metric) is not None]
        for number, metric in enumerate(known):
            if number % 2 == 0:
                places = st.columns(2)
            with places[number % 2]:
                chart(curve_figure({run.name: live.metrics}, metric), f"live.{metric}")
        if len(live.mix):
            chart(mix_figure(live.mix), "live.mix")
        _gates(live)
        _resources(live)


def _draw_status(live: LiveRun, problem: str) -> None:
    """Where the run is, how long it will take, and what is wrong with it."""
    st.progress(min(live.step / max(live.steps, 1), 1.0), say("live.steps", step=live.step, steps=live.steps))
    rate, score = live.latest("steps_per_second"), live.validations["score"].max() if len(live.validations) else None
    shown = {
        "live.status": say(f"status.{live.status}"),
        "live.left": "–" if live.seconds_left is None else str(timedelta(seconds=round(live.seconds_left))),
        "live.rate": "–" if rate is None else f"{rate:,.0f}",
        "live.best": "–" if score is None else f"{score:+.3g}",
    }
    for place, (key, value) in zip(st.columns(len(shown)), shown.items(), strict=True):
        place.metric(say(key), value)
    if live.stage:
        st.caption(say("live.stage", stage=live.stage))
    if problem:
        st.error(problem)
    if live.is_quiet:
        st.warning(say("live.quiet", seconds=live.quiet_seconds))


def _gates(live: LiveRun) -> None:
    rows = gate_rows(live)
    if rows.empty:
        st.caption(say("live.no_gates"))
        return
    failed = rows[~rows["passed"]]
    if len(failed):
        st.warning(say("live.gates_failed", names=", ".join(sorted(set(failed["gate"])))))
    table(rows, "live.gates", formats={"value": "%.3f"})


def _resources(live: LiveRun) -> None:
    known = {name: live.latest(name) for name in RESOURCES}
    shown = {name: value for name, value in known.items() if value is not None}
    for place, (name, value) in zip(st.columns(max(len(shown), 1)), shown.items(), strict=False):
        place.metric(say(f"resource.{name}"), f"{value:,.0f}")
