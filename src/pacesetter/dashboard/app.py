"""The script that Streamlit runs for each reader: the pages, their language, and the banner that no page may hide."""

from __future__ import annotations

import streamlit as st

from pacesetter.dashboard.texts import say
from pacesetter.dashboard.views import PAGES, RESULTS, parts

__all__: list[str] = []

st.set_page_config(page_title=say("app.title"), layout="wide")
# Before the pages are named: their titles are in the reader's language.
parts.choose_language()
main = [
    st.Page(show, title=say(f"{name}.title"), url_path=name, default=name == "runs") for name, show in PAGES.items()
]
more = [st.Page(show, title=say(f"{name}.title"), url_path=name) for name, show in RESULTS.items()]
page = st.navigation({"": main, say("app.results"): more}, position="top")
parts.set_style()
parts.halted_banner()
page.run()
