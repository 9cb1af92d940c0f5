"""Pages of results: a function from the folder of the runs to what is shown, and its entry in `RESULT_PAGES`."""

from __future__ import annotations

from pacesetter.dashboard.tables.pages import RESULT_PAGES, Shown
from pacesetter.dashboard.tables.settings_diff import config_differences

__all__ = ["RESULT_PAGES", "Shown", "config_differences"]
