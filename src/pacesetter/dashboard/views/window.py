"""The window under two sliders: a component that asks `/window` and draws in the browser, to follow at once."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import streamlit as st

from pacesetter.dashboard.texts import language, say
from pacesetter.dashboard.windows import SHORTEST, Lens

__all__ = ["show_window"]


def show_window(lens: Lens, run: str) -> None:
    """Sliders for the end and the length of the window, its sentence, and its matrix, links and ranking."""
    most, last = lens.longest, len(lens.panel) - 1
    _component()(
        key=f"leadlag.window.{run}",
        data={
            "source": {"run": run, "method": lens.method, "language": language()},
            "labels": {"end": say("leadlag.date"), "lookback": say("leadlag.lookback")},
            "sliders": {
                "end": {"min": min(SHORTEST, last), "max": last, "value": last},
                "lookback": {"min": min(SHORTEST, most), "max": most, "value": lens.usual},
            },
        },
    )


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    """The component, made known to the server that runs now."""
    assets = files("pacesetter.dashboard") / "assets"
    html, css, js = ((assets / f"window.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    return st.components.v2.component("pacesetter_window", html=html, css=css, js=js)
