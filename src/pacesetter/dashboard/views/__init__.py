"""The pages as Streamlit draws them, one module each. What they show is gathered in the package above."""

from __future__ import annotations

from pacesetter.dashboard.tables import RESULT_PAGES
from pacesetter.dashboard.views.agent import show_agent
from pacesetter.dashboard.views.book import show_book
from pacesetter.dashboard.views.leadlag import show_leadlag
from pacesetter.dashboard.views.live import show_live
from pacesetter.dashboard.views.programme import show_programme
from pacesetter.dashboard.views.runs import show_runs
from pacesetter.dashboard.views.tables import result_page

__all__ = ["PAGES", "RESULTS"]

PAGES = {  # by address
    "runs": show_runs,
    "leadlag": show_leadlag,
    "live": show_live,
    "agent": show_agent,
    "book": show_book,
    "programme": show_programme,
}
RESULTS = {name: result_page(name, gather) for name, gather in RESULT_PAGES.items()}  # in a menu of their own
