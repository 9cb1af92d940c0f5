"""Lead–lag: slide through dates and windows, see leadership over time, and what the agent chose."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from pacesetter.dashboard.settings import current
from pacesetter.dashboard.texts import say
from pacesetter.dashboard.views.parts import all_runs, chart, choose_run, contained, table
from pacesetter.dashboard.windows import (
    Leadership,
    Lens,
    chosen_windows,
    lookback_run,
    lookback_table,
    open_panel,
    windows_figures,
)
from pacesetter.leadlag import ESTIMATORS
from pacesetter.panel import Panel

__all__ = ["show"]

FIRST_LOOKBACK, SHORTEST, LONGEST = 250, 5, 1000  # bars
LEADERS = {"contribution": "percent", "leads": "percent", "mean_rank": "%.1f"}
POLICIES = {"reward": "%+.4f", "reward_se": "%.4f", "mean_lookback": "%.0f", "switches": "percent"}


def show() -> None:
    """The page."""
    runs = [run for run in all_runs() if run.data]
    if not runs:
        st.info(say("leadlag.empty", folder=current().runs))
        return
    left, right = st.columns([3, 1])
    with left:
        stored = sorted(runs, key=lambda run: not (run.folder / "load").is_dir())  # stored bars open at once
        folder = str(choose_run(stored, "leadlag.run").folder)
    with right:
        names = list(ESTIMATORS)
        method = st.selectbox(say("leadlag.method"), names, names.index("ccf_auc"), key="leadlag.method")
    with contained():
        _windows(folder, method)


@st.fragment
def _windows(folder: str, method: str) -> None:
    """Three views of one panel; only the open one is drawn, and a slider redraws nothing else."""
    lens = _lens(folder, method)
    panel = lens.panel
    date, length = st.columns(2)
    with date:
        moment = _date_slider(panel, folder)
    with length:
        most = min(LONGEST, len(panel) - 1)
        lookback = st.slider(
            say("leadlag.lookback"), SHORTEST, most, min(FIRST_LOOKBACK, most), key=f"leadlag.lookback.{folder}"
        )
    now, over_time, agent = st.tabs(
        [say("leadlag.now"), say("leadlag.over_time"), say("leadlag.agent_tab")], key="leadlag.tab", on_change="rerun"
    )
    for tab, draw in ((now, _draw_window), (over_time, _draw_leadership), (agent, _draw_agent)):
        if tab.open:
            with tab, contained():
                draw(lens, folder, lens.bar(moment), lookback)


def _date_slider(panel: Panel, folder: str) -> Any:
    """The end of the window; intraday bars slide by the bar, others by the day."""
    first, last = (_naive(panel.index[place]) for place in (min(SHORTEST, len(panel) - 1), -1))
    usual = float(np.median(np.diff(panel.index.asi8))) / 1e9
    step = timedelta(seconds=max(min(usual, 86_400), 60))
    form = "YYYY-MM-DD HH:mm" if step < timedelta(days=1) else "YYYY-MM-DD"
    return st.slider(say("leadlag.date"), first, last, last, step, form, key=f"leadlag.date.{folder}")


def _naive(moment: pd.Timestamp) -> datetime:
    return moment.tz_convert("UTC").tz_localize(None).to_pydatetime()


def _draw_window(lens: Lens, folder: str, end: int, lookback: int) -> None:
    view = lens.view(end, lookback)
    st.markdown(view.text)
    for place, (name, figure) in zip(
        st.columns(3), (("matrix", view.matrix), ("network", view.network), ("ranking", view.ranking)), strict=True
    ):
        with place:
            chart(figure, f"leadlag.{name}")


def _draw_leadership(lens: Lens, folder: str, end: int, lookback: int) -> None:
    found = _leadership(folder, lens.method, lookback)
    st.markdown(found.text)
    chart(found.timeline, "leadlag.timeline")
    chart(found.anomalies, "leadlag.anomalies")
    table(found.table, "leadlag.leaders", file_name="leaders.csv", formats=LEADERS)


def _draw_agent(lens: Lens, folder: str, end: int, lookback: int) -> None:
    policies, run = lookback_table(Path(folder)), lookback_run(Path(folder))
    if policies is not None:
        columns = [name for name in ("policy", *POLICIES) if name in policies]
        table(policies[columns], "leadlag.policies", file_name="lookback.csv", formats=POLICIES)
    if run is None:
        st.info(say("leadlag.no_lookback"))
    elif st.button(say("leadlag.ask"), key="leadlag.ask") or st.session_state.get("leadlag.asked") == folder:
        st.session_state["leadlag.asked"] = folder
        course, shares = windows_figures(_chosen(folder, str(run)))
        chart(course, "leadlag.course")
        chart(shares, "leadlag.shares")


# ---- kept between reruns --------------------------------------------------------------------------------------------


@st.cache_resource(show_spinner=False, max_entries=4)
def _panel(folder: str) -> Panel:
    return open_panel(Path(folder))


@st.cache_resource(show_spinner=False, max_entries=8)
def _lens(folder: str, method: str) -> Lens:
    return Lens(_panel(folder), method)


@st.cache_resource(show_spinner=False, max_entries=64)
def _leadership(folder: str, method: str, lookback: int) -> Leadership:
    return _lens(folder, method).leadership(lookback)


@st.cache_resource(max_entries=4)
def _chosen(folder: str, run: str) -> pd.Series:
    return chosen_windows(Path(run), _panel(folder))
