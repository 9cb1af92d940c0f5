"""The script that Streamlit runs for each reader: the six pages, and the banner that no page may hide."""

from __future__ import annotations

import streamlit as st

from pacesetter.dashboard.texts import say
from pacesetter.dashboard.views import PAGES, parts

__all__: list[str] = []

st.set_page_config(page_title=say("app.title"), layout="wide")
page = st.navigation(
    [st.Page(show, title=say(f"{name}.title"), url_path=name, default=name == "runs") for name, show in PAGES.items()],
    position="top",
)
st.html("<style>.stMainBlockContainer {padding-top: 4rem}</style>")  # a laptop's screen is low
parts.halted_banner()
page.run()
