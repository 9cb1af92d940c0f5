"""The programme: which phases are done, what their gates decided, and the report of each."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import streamlit as st

from pacesetter.dashboard.settings import current_settings
from pacesetter.dashboard.texts import say
from pacesetter.dashboard.views.parts import contain_errors, table
from pacesetter.evaluation.programme.status import ProgrammeStatus, latest_status, read_status

__all__ = ["show_programme"]

WIDTHS = {"phase": 110, "state": 90, "decision": 120, "seconds": 80, "result": 790}  # in pixels
SECONDS = 2.0  # between two looks at a programme that is going on


def show_programme() -> None:
    """The page of the latest programme."""
    folder = latest_status(current_settings().runs)
    if folder is None:
        st.info(say("programme.empty", folder=current_settings().runs))
        return
    _going_on(str(folder))


@st.fragment(run_every=SECONDS)
def _going_on(folder: str) -> None:
    with contain_errors():
        status = read_status(Path(folder))
        _draw_status(status)
        names = ("phase", "state", "decision", "seconds", "result")
        rows = pd.DataFrame(status.rows, columns=names)
        states = [phase.state.replace(" ", "_") for phase in status.phases]
        rows["state"] = [say(f"phase.{state}") for state in states]
        table(rows, "programme.phases", file_name="programme.csv", formats=WIDTHS)
        _report(Path(folder), status)


def _draw_status(status: ProgrammeStatus) -> None:
    done = sum(phase.state == "done" for phase in status.phases)
    st.progress(done / max(len(status.phases), 1), say("programme.done", done=done, count=len(status.phases)))
    (st.warning if status.synthetic else st.caption)(status.sentence)
    st.caption(say("programme.run", run=status.run, started=status.started))


def _report(folder: Path, status: ProgrammeStatus) -> None:
    """The completion report of the phase that the reader picks."""
    reported = {phase.name: folder / phase.report for phase in status.phases if phase.report}
    if not reported:
        return
    name = st.selectbox(say("programme.report"), list(reported), index=len(reported) - 1, key="programme.phase")
    page = reported[name].with_suffix(".md")
    if page.is_file():
        # two levels down: the page's own headings come first
        st.markdown(re.sub(r"^(#{1,2}) ", r"##\1 ", page.read_text(encoding="utf-8"), flags=re.M))
