"""Lead–lag: slide through dates and windows, see leadership over time, and what the agent chose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from pacesetter.dashboard.folders import RunFacts
from pacesetter.dashboard.settings import current_settings
from pacesetter.dashboard.texts import say
from pacesetter.dashboard.views.parts import all_runs, chart, choose_run, contain_errors, table
from pacesetter.dashboard.views.window import show_window
from pacesetter.dashboard.windows import (
    SHORTEST,
    Leadership,
    Lens,
    chosen_windows,
    lookback_run,
    lookback_table,
    open_lens,
    open_panel,
    windows_figures,
)
from pacesetter.leadlag import ESTIMATORS
from pacesetter.leadlag.study import Study

__all__ = ["newest_first", "show_leadlag"]

LEADERS = {"contribution": "percent", "leads": "percent", "mean_rank": "%.1f"}
POLICIES = {"reward": "%+.4f", "reward_se": "%.4f", "mean_lookback": "%.0f", "switches": "percent"}


def show_leadlag() -> None:
    """The page."""
    runs = [run for run in all_runs() if run.data]
    if not runs:
        st.info(say("leadlag.empty", folder=current_settings().runs))
        return
    left, right = st.columns([3, 1])
    with left:
        run = choose_run(newest_first(runs), "leadlag.run").name
    with right:
        names = [name for name in ESTIMATORS if not ESTIMATORS[name].is_given]  # others need a run
        method = st.selectbox(say("leadlag.method"), names, names.index(Study.method), key="leadlag.method")
    _windows(run, method)


def newest_first(runs: Sequence[RunFacts]) -> list[RunFacts]:
    """The newest finished run first, before all others one that stored its bars: it opens at once."""
    dated = sorted(runs, key=lambda run: run.started or pd.Timestamp(0, tz="UTC"), reverse=True)
    return sorted(dated, key=lambda run: (run.status != "finished", not (run.folder / "load").is_dir()))


@st.fragment
@contain_errors()  # outside it the fragment has shown its traceback already
def _windows(run: str, method: str) -> None:
    """Three views of one panel; a slider redraws nothing else, and but for the first only the open one is drawn."""
    lens = open_lens(current_settings().runs, run, method)
    now, over_time, agent = st.tabs(
        [say("leadlag.now"), say("leadlag.over_time"), say("leadlag.agent_tab")], key="leadlag.tab", on_change="rerun"
    )
    with now, contain_errors():
        show_window(lens, run)
    for tab, draw in ((over_time, _draw_leadership), (agent, _draw_agent)):
        if tab.open:
            with tab, contain_errors():
                draw(lens, run)


def _draw_leadership(lens: Lens, run: str) -> None:
    most = lens.longest
    lookback = st.slider(say("leadlag.lookback"), min(SHORTEST, most), most, lens.usual, key=f"leadlag.lookback.{run}")
    leadership = _leadership(run, lens.method, lookback)
    st.markdown(leadership.text)
    chart(leadership.timeline, "leadlag.timeline")
    chart(leadership.anomalies, "leadlag.anomalies")
    table(leadership.table, "leadlag.leaders", file_name="leaders.csv", formats=LEADERS)


def _draw_agent(lens: Lens, run: str) -> None:
    folder = current_settings().runs / run
    policies, learned = lookback_table(folder), lookback_run(folder)
    if policies is not None:
        columns = [name for name in ("policy", *POLICIES) if name in policies]
        table(policies[columns], "leadlag.policies", file_name="lookback.csv", formats=POLICIES)
    if learned is None:
        st.info(say("leadlag.no_lookback"))
    elif st.button(say("leadlag.ask"), key="leadlag.ask") or st.session_state.get("leadlag.asked") == run:
        st.session_state["leadlag.asked"] = run
        course, shares = windows_figures(_choose_windows(folder, learned))
        chart(course, "leadlag.course")
        chart(shares, "leadlag.shares")


# ---- kept between reruns --------------------------------------------------------------------------------------------


@st.cache_resource(show_spinner=False, max_entries=64)
def _leadership(run: str, method: str, lookback: int) -> Leadership:
    return open_lens(current_settings().runs, run, method).leadership(lookback)


@st.cache_resource(max_entries=4)
def _choose_windows(folder: Path, learned: Path) -> pd.Series:
    return chosen_windows(learned, open_panel(folder))
