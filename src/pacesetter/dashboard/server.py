"""The page's server: Streamlit in this process, on the loopback address unless another is asked for."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

from pacesetter.dashboard.settings import Settings, use
from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.pictures import PALETTE

__all__ = ["serve"]


def serve(settings: Settings, host: str = "127.0.0.1", port: int = 8501, is_opened: bool = False) -> None:
    """Serve the page until it is interrupted; `is_opened` shows it in a browser. Refuses where Streamlit is missing."""
    if find_spec("streamlit") is None:
        raise ConfigError("the dashboard needs Streamlit; install it with: pip install 'pacesetter[dash]'")
    from streamlit import App

    from pacesetter.dashboard.routes import ROUTES

    use(settings)
    # Beside the server: the page answers at once, and is faster a few seconds later.
    Thread(target=_warm_up, args=(f"http://{host}:{port}" if is_opened else "",), daemon=True).start()
    options = {
        "server.address": host,
        "server.port": port,
        "server.headless": True,
        "server.fileWatcherType": "none",  # a reloaded module would forget the settings
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        "theme.light.primaryColor": PALETTE[0],  # named for both, so that the reader's own choice stands
        "theme.dark.primaryColor": PALETTE[4],
    }
    App(Path(__file__).with_name("app.py"), routes=ROUTES).run(config=options)


def _warm_up(url: str) -> None:
    """Do once what the first reader would wait for, then show the page at `url` if one is given."""
    from pacesetter.dashboard.routes import warm_up

    with suppress(Exception):  # what is wrong with a run is told on the page
        warm_up()
    if url:
        webbrowser.open(url)
