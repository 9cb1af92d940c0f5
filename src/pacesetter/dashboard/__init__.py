"""The web page: runs, lead–lag, live training, agents, and the paper trader's book. It reads and never writes.

Plain functions gather data and draw figures (one module a page); `views` puts them on the screen with Streamlit.
"""

from __future__ import annotations

from pacesetter.dashboard.settings import Settings, Switch

__all__ = ["Settings", "Switch"]
