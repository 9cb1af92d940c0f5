"""Routes besides Streamlit's pages: the first view, and the window under the lead–lag page's sliders.

A slider that went through Streamlit would run its script and draw its page again for every step.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pacesetter.dashboard.first import first_page
from pacesetter.dashboard.settings import current_settings
from pacesetter.dashboard.texts import ASKED, say
from pacesetter.dashboard.views import PAGES
from pacesetter.dashboard.views.parts import all_runs, halt_reason
from pacesetter.dashboard.windows import open_lens
from pacesetter.errors import PacesetterError

__all__ = ["ROUTES", "warm_up"]


def _serve_first_page(request: Request) -> Response:
    # The browser must ask again: it would otherwise show the runs of yesterday.
    return HTMLResponse(_first_page(), headers={"Cache-Control": "no-cache"})


def _first_page() -> str:
    return first_page(all_runs(), list(PAGES), halt_reason())


def _window(request: Request) -> Response:
    """One window as JSON: `run`, `method`, `end` (a bar) and `lookback` (bars); 400 with a sentence if it is none."""
    asked = request.query_params
    # Outside a Streamlit session there is no reader to ask: the request says in which language.
    ASKED.set(asked.get("language"))
    try:
        lens = open_lens(current_settings().runs, asked["run"], asked["method"])
        return JSONResponse(lens.view(int(asked["end"]), int(asked["lookback"])).to_drawing())
    except PacesetterError as problem:
        return PlainTextResponse(str(problem), 400)
    except (KeyError, ValueError):
        return PlainTextResponse(say("leadlag.no_window"), 400)


ROUTES = [Route("/", _serve_first_page), Route("/window", _window)]


def warm_up() -> None:
    """Make the first view and a window once, so that the first reader does not wait for imports and compilers."""
    _first_page()
    stored = [run for run in all_runs() if (run.folder / "load").is_dir()]
    if stored:
        open_lens(current_settings().runs, stored[0].name, "ccf_auc").view(0, 2)
