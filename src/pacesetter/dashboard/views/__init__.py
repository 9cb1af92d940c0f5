"""The pages as Streamlit draws them: each module has `show`. The package above collects what they show."""

from __future__ import annotations

from pacesetter.dashboard.views import agent, book, leadlag, live, runs

__all__ = ["PAGES"]

PAGES = {"runs": runs, "leadlag": leadlag, "live": live, "agent": agent, "book": book}  # by address
