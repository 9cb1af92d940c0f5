"""`/v1/lookback`: a lookback bundle at work. Bars come in; the window in force, its confidence and its matrix go out.

The windows of bars that the agent was trained on are those of its schedule; behind them the agent chooses bar by bar,
as a backtest would with the same bars.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

import numpy as np
import pandas as pd
from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import generate_latest
from pydantic import BaseModel, Field, create_model
from starlette.exceptions import HTTPException

from pacesetter.data.quality import broken_bars
from pacesetter.errors import DataError, PacesetterError
from pacesetter.leadlag.engine import Engine
from pacesetter.leadlag.lookback.policy import SHORTEST
from pacesetter.panel import SECONDS_PER_YEAR, Panel
from pacesetter.serving.api.admission import Access, Admission, ApiSettings
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.metrics import Metrics
from pacesetter.serving.api.schemas import MOST_BARS, Problem, StoredOut, Strict, bar_model
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.trader.lookback import ServedLookback

__all__ = ["WINDOW_ROUTES", "WindowAnswer", "WindowRuntime", "make_window_app"]

WINDOW_ROUTES = {
    "/livez": Access(),
    "/readyz": Access(("read",)),
    "/metrics": Access(("read",)),
    "/v1/openapi.json": Access(("read",)),
    "/v1/lookback": Access(("read", "trade")),
}
MOST_LEADERS = 5


class LeaderOut(BaseModel):
    """A symbol and its mean link to the others, above 0 where it leads."""

    symbol: str
    score: float


class MatrixOut(BaseModel):
    """What the window shows: mean size of a link, and who leads and follows most."""

    method: str
    strength: float
    scored: int
    leaders: list[LeaderOut]
    followers: list[LeaderOut]


class WindowAnswer(BaseModel):
    """The window in force at the close of the bar that is known at `time`, in bars.

    confidence   probability of the choice; null where the schedule of training, or a short history, decided
    """

    time: str
    window: int
    previous: int
    confidence: float | None
    matrix: MatrixOut
    run: str
    bundle: str
    model: str


class WindowRuntime:
    """The latest bars of all symbols, and the window in force at the last of them."""

    panel: Panel | None
    windows: list[int]  # in force over the latest bars, after the one before them

    def __init__(self, bundle: Bundle, clock: Callable[[], float] = time.time) -> None:
        policy = bundle.lookback
        if not bundle.is_lookback or not isinstance(policy, ServedLookback):
            raise DataError(f"{bundle.name} trades and chooses no window by itself; serve it for /v1/decide")
        self.bundle, self.policy, self.clock = bundle, policy, clock
        self.symbols, self.panel, self.windows = bundle.features.symbols, None, [0]

    @property
    def bar_seconds(self) -> float:
        return SECONDS_PER_YEAR / self.bundle.features.bars_per_year

    def missing_bars(self) -> int:
        """Bars that are missing until the agent has what it looks at."""
        return max(self.bundle.features.memory_bars - (0 if self.panel is None else len(self.panel)), 0)

    def feed(self, bars: Panel) -> None:
        """Take newer bars, and choose the window of each."""
        if self.panel is not None and bars.index[0] <= self.panel.index[-1]:
            raise DataError(f"the bar {bars.index[0]} is not after the last one, {self.panel.index[-1]}")
        panel = bars if self.panel is None else _join_bars(self.panel, bars)
        for t in range(len(panel) - len(bars), len(panel)):
            chosen = max(self.policy.choose(panel, t, self.windows[-1]), SHORTEST)
            self.windows = [*self.windows[-1:], min(chosen, t) if t >= SHORTEST else 0]
        keep = 2 * self.bundle.features.memory_bars  # more than is read, so that history is not cut at every bar
        self.panel = panel.rows(max(len(panel) - keep, 0), None) if len(panel) > 2 * keep else panel

    def answer(self) -> WindowAnswer:
        """The window in force; refuses before there are two bars."""
        if self.panel is None or self.windows[-1] < SHORTEST:
            raise DataError("there are no bars yet; send some")
        bundle = self.bundle
        return WindowAnswer(
            time=self.panel.index[-1].isoformat(),
            window=self.windows[-1],
            previous=self.windows[0],
            confidence=self.policy.confidence,
            matrix=self._matrix(self.panel, self.windows[-1]),
            run=bundle.manifest["run"],
            bundle=bundle.name,
            model=bundle.model.sha256,
        )

    def _matrix(self, panel: Panel, window: int) -> MatrixOut:
        view = self.policy.task.view
        part = panel.rows(max(len(panel) - window - 2, 0), None)
        matrix = Engine(view.method, **view.options).fit(part).many(np.array([len(part) - 1]), np.array([window]))[0]
        known = np.isfinite(matrix) & ~np.eye(len(matrix), dtype=bool)
        count = known.sum(axis=1)
        scores = np.where(known, matrix, 0.0).sum(axis=1) / np.maximum(count, 1)
        order = [place for place in np.argsort(-scores).tolist() if count[place]]
        leaders = [LeaderOut(symbol=self.symbols[place], score=float(scores[place])) for place in order]
        return MatrixOut(
            method=view.method,
            strength=float(np.abs(matrix[known]).mean()) if known.any() else 0.0,
            scored=len(order),
            leaders=[row for row in leaders[:MOST_LEADERS] if row.score > 0],
            followers=[row for row in leaders[::-1][:MOST_LEADERS] if row.score < 0],
        )


def _join_bars(before: Panel, bars: Panel) -> Panel:
    """Bars of the same symbols and fields in a row."""
    blocks = np.concatenate([before.blocks, bars.blocks], axis=1)
    index = before.index.append(bars.index)
    return Panel(
        pd.DatetimeIndex(index), before.symbols, before.fields, blocks, np.concatenate([before.mask, bars.mask])
    )


# ---- over HTTP ------------------------------------------------------------------------------------------------------


class _WindowMetrics(Metrics):
    """Requests and the age of the data; there is no guard."""

    def text(self) -> bytes:
        panel = self.runtime.panel  # type: ignore[attr-defined]
        if panel is not None:
            self.age.set(max(self.runtime.clock() - panel.index[-1].timestamp(), 0.0))
        return bytes(generate_latest(self.registry))


def make_window_app(runtime: WindowRuntime, keys: Keys, settings: ApiSettings | None = None) -> Admission:
    """The ASGI application of a lookback bundle; refuses to be made without a key, or with a known one."""
    from pacesetter.serving.api.app import API_VERSION, refuse_http, refuse_invalid

    keys.check_startable()
    metrics = _WindowMetrics(runtime)  # type: ignore[arg-type]
    app = FastAPI(
        title="Pacesetter", version=API_VERSION, openapi_url="/v1/openapi.json", docs_url=None, redoc_url=None
    )

    @app.get("/livez")
    async def livez() -> dict[str, str]:
        """The process answers."""
        return {"status": "alive"}

    @app.get("/readyz", responses={503: {"model": Problem}})
    async def readyz() -> Any:
        """The model answers, and there are as many bars as the agent looks at."""
        runtime.bundle.model.probe()
        missing = runtime.missing_bars()
        content = {"error": "bars are missing; send them to /v1/lookback, or start with --history", "bars": missing}
        return JSONResponse(content, 503) if missing else {"status": "ready"}

    @app.get("/metrics", response_class=Response)
    async def read_metrics() -> Response:
        """Prometheus' text format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def lookback(ask: Any) -> Any:
        """The window in force after the newest bars."""
        try:
            if ask.bars:
                runtime.feed(_panel(ask.bars, runtime))
            if runtime.missing_bars() > 0:
                return JSONResponse({"stored": True, "missing_bars": runtime.missing_bars()}, 202)
            return runtime.answer()
        except PacesetterError as problem:
            raise HTTPException(409) from problem

    bar: Any = bar_model(runtime.bundle.features)
    bars: Any = Annotated[list[bar], Field(max_length=MOST_BARS)]
    lookback.__annotations__["ask"] = create_model("LookbackIn", __base__=Strict, bars=(bars, []))
    problems: Any = {status: {"model": Problem} for status in (400, 409, 413, 422)} | {202: {"model": StoredOut}}
    app.post("/v1/lookback", response_model=WindowAnswer, responses=problems)(lookback)
    app.add_exception_handler(RequestValidationError, refuse_invalid)
    app.add_exception_handler(HTTPException, refuse_http)
    return Admission(app, keys, settings or ApiSettings(), WINDOW_ROUTES, metrics)


def _panel(bars: Sequence[Any], runtime: WindowRuntime) -> Panel:
    """The bars as a panel of all symbols; refuses symbols not served, doubles, and impossible times or bars."""
    symbols, fields = runtime.symbols, runtime.bundle.features.fields
    columns = {symbol: column for column, symbol in enumerate(symbols)}
    moments: list[datetime] = [bar.time for bar in bars]
    stamps = np.array([moment.timestamp() for moment in moments])
    seconds, rows = np.unique(stamps, return_inverse=True)
    places = [columns.get(bar.symbol, -1) for bar in bars]
    latest = runtime.clock() + runtime.bar_seconds
    if -1 in places or not 0 < seconds[0] <= seconds[-1] <= latest:
        raise HTTPException(422)
    if len(set(zip(rows.tolist(), places, strict=True))) < len(bars):
        raise HTTPException(422)
    blocks = np.full((len(fields), len(seconds), len(symbols)), np.nan)
    blocks[:, rows, places] = [[getattr(bar, name) for bar in bars] for name in fields]
    first = np.unique(stamps, return_index=True)[1]
    index = pd.DatetimeIndex([pd.Timestamp(moments[k]).value for k in first], tz="UTC")
    panel = Panel(index, symbols, fields, blocks, np.isfinite(blocks[fields.index("close")]))
    if broken_bars(panel).any():
        raise HTTPException(422)
    return panel
