"""A page of results: one part after the other, each with its sentence, picture and table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import streamlit as st

from pacesetter.dashboard.settings import current_settings
from pacesetter.dashboard.tables import Shown
from pacesetter.dashboard.texts import say
from pacesetter.dashboard.views.parts import chart, contain_errors, table

__all__ = ["result_page"]

FORMATS = {  # numbers as a person would write them, by the column's name
    **dict.fromkeys(("sharpe", "mean", "gap"), "%+.2f"),
    **dict.fromkeys(("half_width", "gap_half_width"), "%.2f"),
    **dict.fromkeys(("p", "p_adjusted", "utility", "value"), "%.3g"),
    **dict.fromkeys(("share", "exposure"), "percent"),
    "seconds": "%.0f",
}
FIRST_OPEN = 3  # parts that are open until the reader chooses; the others are folded


def result_page(name: str, gather: Callable[[Path], Iterator[Shown]]) -> Callable[[], None]:
    """The page of that name, which shows what `gather` finds below the runs."""

    def show() -> None:
        with contain_errors():
            _draw(name, list(gather(current_settings().runs)))

    show.__name__ = f"show_{name}"
    return show


def _draw(name: str, parts: list[Shown]) -> None:
    if not parts:
        st.info(say(f"{name}.empty"))
        return
    titles = [part.title for part in parts]
    wanted = st.multiselect(say("choose.parts"), titles, titles[:FIRST_OPEN], key=f"{name}.parts")
    for place, part in enumerate(parts):
        if part.title in wanted:
            st.subheader(part.title)
            st.markdown(part.text)
            if part.figure is not None:
                chart(part.figure, f"{name}.{place}")
            table(part.table, f"{name}.table.{place}", file_name=f"{name}.csv", formats=FORMATS)
