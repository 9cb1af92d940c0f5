"""The page's server: Streamlit in this process, on the loopback address unless another is asked for."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pacesetter.dashboard.settings import Settings, use
from pacesetter.errors import ConfigError
from pacesetter.evaluation.pictures import PALETTE

__all__ = ["serve"]


def serve(settings: Settings, host: str = "127.0.0.1", port: int = 8501, is_opened: bool = False) -> None:
    """Serve the page until it is interrupted; `is_opened` shows it in a browser. Refuses where Streamlit is missing."""
    if find_spec("streamlit") is None:
        raise ConfigError("the dashboard needs Streamlit; install it with: pip install 'pacesetter[dash]'")
    from streamlit.web import bootstrap

    from pacesetter.dashboard import views  # noqa: F401  (read before a reader waits for them)

    use(settings)
    options: dict[str, Any] = {
        "server_address": host,
        "server_port": port,
        "server_headless": not is_opened,
        "server_fileWatcherType": "none",  # a module read anew would forget the settings
        "browser_gatherUsageStats": False,
        "client_toolbarMode": "minimal",
        "client_showErrorDetails": "none",
        "theme_primaryColor": PALETTE[0],
    }
    bootstrap.load_config_options(options)
    bootstrap.run(str(Path(__file__).with_name("app.py")), False, [], options)
