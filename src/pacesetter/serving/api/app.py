"""The API: decide, state, halt, resume, and what operators look at. The checks in front of it are in `admission`.

Every route but `/livez` takes a key. Errors are fixed words: what a caller sent is never repeated.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from pacesetter.arrays import Array
from pacesetter.data.quality import broken_bars
from pacesetter.errors import ConfigError, PacesetterError
from pacesetter.panel import Panel
from pacesetter.policies.conditions import PARAMETERS, PREFERENCE
from pacesetter.runs import write_atomic
from pacesetter.serving.api.admission import Access, Admission, ApiSettings
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.logs import REQUEST
from pacesetter.serving.api.metrics import Metrics
from pacesetter.serving.api.runtime import Holding, ReportedAccount, Runtime, RuntimeAnswer, ShortHistoryError
from pacesetter.serving.api.schemas import (
    ACCOUNT_ENTRIES,
    AccountIn,
    DecideOut,
    HaltIn,
    Problem,
    ResumeIn,
    StateOut,
    StoredOut,
    decision_models,
)
from pacesetter.serving.risk.halt import KillSwitch

__all__ = ["API_VERSION", "ROUTES", "Service", "make_app", "refuse_http", "refuse_invalid"]

API_VERSION = "1.0.0"
ROUTES = {
    "/livez": Access(),
    "/readyz": Access(("read",)),
    "/metrics": Access(("read",)),
    "/v1/openapi.json": Access(("read",)),
    "/v1/state": Access(("read",)),
    "/v1/decide": Access(("trade",)),
    "/v1/halt": Access(("trade", "admin"), is_urgent=True),
    "/v1/resume": Access(("admin",)),
}
MOST_PROBLEMS = 5  # of a request that are told
LATCH_SECONDS = 1.0  # that the answer to a halt waits for the switch's file
log = logging.getLogger(__name__)


def make_app(
    runtime: Runtime, switch: KillSwitch, keys: Keys, settings: ApiSettings | None = None, books: Path | None = None
) -> Admission:
    """The ASGI application of one runtime; refuses to be made without a key, or with a known one.

    `books` is the file that the runtime's books and its guard are kept in; they are restored from it if it exists.
    """
    # An application is never made without a usable key, whatever serves it.
    keys.check_startable()
    service, metrics = Service(runtime, switch, books), Metrics(runtime)
    app = FastAPI(
        title="Pacesetter",
        version=API_VERSION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would name the host that the caller claims
    )
    _add_operation(app, service, metrics)
    _add_trading(app, service, metrics)
    app.add_exception_handler(RequestValidationError, refuse_invalid)
    app.add_exception_handler(HTTPException, refuse_http)
    return Admission(app, keys, settings or ApiSettings(), ROUTES, metrics)


def _add_operation(app: FastAPI, service: Service, metrics: Metrics) -> None:
    """Routes that look: alive, ready, metrics, state."""

    @app.get("/livez")
    async def livez() -> dict[str, str]:
        """The process answers."""
        return {"status": "alive"}

    @app.get("/readyz", responses={503: {"model": Problem}})
    async def readyz() -> Any:
        """The model answers, one inference is run; and every symbol has the bars that a decision needs."""
        await service.run(service.runtime.bundle.model.probe, status=503)
        waiting = service.runtime.history.waiting()
        content = {"error": "bars are missing; send them to /v1/decide, or start with --history", "symbols": waiting}
        return JSONResponse(content, 503) if waiting else {"status": "ready"}

    @app.get("/metrics", response_class=Response)
    async def read_metrics() -> Response:
        """Prometheus' text format."""
        await service.look_aside()
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/state")
    async def state() -> StateOut:
        """The guard, its denials, and the data."""
        await service.look_aside()
        return service.state()


def _add_trading(app: FastAPI, service: Service, metrics: Metrics) -> None:
    """Routes that act: decide, halt, resume."""
    runtime = service.runtime

    async def decide(ask: Any) -> Any:
        """Orders for every symbol, from new bars or given features and the account."""
        answer = await service.run(service.decide, ask)
        if answer is None:
            return JSONResponse({"stored": True, "missing_bars": runtime.history.missing_bars()}, 202)
        metrics.count_decisions(answer)
        return Response(service.to_json(answer), media_type="application/json")

    # FastAPI validates by annotation, and this one is known only once the bundle is open.
    decide.__annotations__["ask"] = decision_models(runtime.bundle.features, runtime.bundle.model.spec)
    problems: Any = {status: {"model": Problem} for status in (400, 409, 413, 422)} | {202: {"model": StoredOut}}
    app.post("/v1/decide", response_model=DecideOut, responses=problems)(decide)

    @app.post("/v1/halt", responses={202: {"model": StateOut}, 422: {"model": Problem}})
    async def halt(ask: HaltIn, response: Response) -> StateOut:
        """Stop trading, latched across restarts; 202 where it acts already and its file is still being written."""
        if not await service.halt(ask.reason):
            response.status_code = 202
        return service.state()

    @app.post("/v1/resume", responses={422: {"model": Problem}})
    async def resume(ask: ResumeIn) -> StateOut:
        """A named person allows trading again."""
        await service.resume(ask.by)
        return service.state()


class Service:
    """A runtime for many callers: one decision at a time, the kill switch checked before each."""

    def __init__(self, runtime: Runtime, switch: KillSwitch, books: Path | None = None) -> None:
        self.runtime, self.switch, self.books = runtime, switch, books
        if books is not None and books.exists():
            _restore(runtime, books)
        self._kept = runtime.guard.state
        # One thread: a runtime is not for several at once, and decisions keep the order in which they came.
        self._worker = ThreadPoolExecutor(1)
        # Another for the switch's file, so that a slow disk delays neither the loop nor what is halted already.
        self._switcher = ThreadPoolExecutor(1)
        self._halts: list[str] = []  # reasons whose file is being written: halted, whatever the disk says
        self._columns = {symbol: column for column, symbol in enumerate(runtime.symbols)}

    async def run(self, work: Callable[..., Any], *arguments: Any, status: int = 409) -> Any:
        """Do what takes time on the one other thread, so that no halt waits for it; our own errors become `status`."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, copy_context().run, work, *arguments)
        except PacesetterError as problem:
            log.warning("refused: %s", problem)
            if isinstance(problem, ShortHistoryError):
                raise ShortHistoryRefusal(status, str(problem)) from problem
            raise HTTPException(status) from problem

    def sync_with_guard(self) -> None:
        """Bring kill switch and guard together: both are latched, and a person's release is for both."""
        if not self._halts:  # or the file that says so is not there yet, and an old release might be taken for it
            self._sync_with_guard()
        self._stay_halted()

    def _sync_with_guard(self) -> None:
        try:
            change = self.switch.sync_with_guard(self.runtime.guard)
        except OSError:  # the guard is halted and stays so; the file is for others
            log.exception("the kill switch cannot be engaged")
            return
        if change is not None:
            log.warning("%s: %s", *change)

    async def look_aside(self) -> None:
        """Look on another thread: the file may be on a slow disk."""
        await asyncio.to_thread(self.sync_with_guard)

    def decide(self, ask: Any) -> RuntimeAnswer | None:
        """The answer to a /v1/decide, None while its bars only fill the history.

        Refuses symbols that are not served, and bars that are out of time or break a rule.
        """
        self.sync_with_guard()
        if ask.features is not None and ask.bars:
            raise HTTPException(422)
        account = self._account(ask.account)
        with self.runtime.use_request(self._read_request(ask)):
            return self._answer(ask, account)

    def _answer(self, ask: Any, account: ReportedAccount) -> RuntimeAnswer | None:
        if ask.features is None:
            bars = self._panel(ask.bars)
            if bars is not None:
                self.runtime.feed(bars)
            if bars is not None and self.runtime.history.missing_bars() > 0:
                return None
            answer = self.runtime.decide(account)
        else:
            # Given features need no history, so it is neither read nor extended.
            answer = self.runtime.decide_features(*self._entries(ask.features), account)
        self.sync_with_guard()  # again: the guard may have halted itself during the decision
        self._keep()
        return answer

    def _keep(self) -> None:
        """Write the books before an order leaves, to disk where the guard's state is another; halt where it fails."""
        if self.books is None:
            return
        state = self.runtime.guard.state
        try:
            # Synced to disk only where the guard's state changed: a halt must survive a power cut, a count need not.
            content = to_json(self.runtime.to_dict(), inf_nan_mode="constants")
            write_atomic(self.books, content, is_synced=state is not self._kept)
        except OSError as problem:
            self.runtime.guard.halt(f"{self.books} cannot be written")
            log.exception("halted")
            raise HTTPException(503) from problem
        self._kept = state

    async def halt(self, reason: str) -> bool:
        """Halt at once; whether the switch's file is there too within `LATCH_SECONDS`."""
        self._halts.append(reason)
        self.runtime.guard.halt(reason)  # before the file, which may be what fails
        log.warning("halted", extra={"reason": reason})
        writing = asyncio.get_running_loop().run_in_executor(self._switcher, self._engage, reason)
        # Not cancelled with the request: a caller who hangs up has halted all the same.
        done, _ = await asyncio.wait([writing], timeout=LATCH_SECONDS)
        for each in done:
            each.result()
        return bool(done)

    async def resume(self, by: str) -> None:
        await asyncio.get_running_loop().run_in_executor(self._switcher, self._release, by)

    def _engage(self, reason: str) -> None:
        try:
            with _report_switch_errors():
                self.switch.engage(reason)
        finally:
            self._stay_halted()
            self._halts.remove(reason)

    def _release(self, by: str) -> None:
        with _report_switch_errors():  # the file first: a guard that resumed under an engaged switch would halt at once
            self.switch.release(by)
        self.runtime.guard.resume(by)
        log.warning("resumed", extra={"by": by})
        self.sync_with_guard()

    def _stay_halted(self) -> None:
        """Halt again where a release was taken while the file of a later halt is being written."""
        for reason in self._halts[:1]:
            self.runtime.guard.halt(reason)

    def state(self) -> StateOut:
        guard, history, bundle = self.runtime.guard, self.runtime.history, self.runtime.bundle
        return StateOut(
            state=guard.state.value,
            reason=guard.reason,
            denials=dict(guard.denials),
            disabled=sorted(guard.disabled),
            run=bundle.manifest["run"],
            bundle=bundle.name,
            model=bundle.model.sha256,
            last_bar=None if history.panel is None else history.panel.index[-1].isoformat(),
            missing_bars=max(history.missing_bars(), 0),
        )

    def to_json(self, answer: RuntimeAnswer) -> bytes:
        """An answer as JSON, in the shape of `DecideOut`."""
        bundle = self.runtime.bundle
        whole = {
            "request": REQUEST.get(),
            "time": answer.time.isoformat(),
            "run": bundle.manifest["run"],
            "bundle": bundle.name,
            "model": bundle.model.sha256,
            "state": answer.state,
            "value": answer.value,
            "decisions": answer.lines,
        }
        return to_json(whole, inf_nan_mode="null")

    # ---- requests as arrays ---------------------------------------------------------------------------------------

    def _read_request(self, ask: Any) -> dict[str, list[float]]:
        """What the request asks of the policy, by its input; weights are shares of their sum."""
        given = {name: getattr(ask, PARAMETERS[name]) for name in self.runtime.bundle.model.spec.conditions}
        asked = {name: np.atleast_1d(value).tolist() for name, value in given.items() if value is not None}
        if PREFERENCE in asked:
            total = sum(asked[PREFERENCE])
            if total <= 0:
                raise HTTPException(422)
            asked[PREFERENCE] = [weight / total for weight in asked[PREFERENCE]]
        return asked

    def _account(self, account: AccountIn) -> ReportedAccount:
        _check_once(self._served_columns(row.symbol for row in account.positions))
        holdings = {
            row.symbol: Holding(row.quantity, row.entry_price, row.best_price, row.bars_held)
            for row in account.positions
        }
        return ReportedAccount(account.cash, holdings, account.peak_equity, account.stop_outs)

    def _panel(self, bars: list[Any]) -> Panel | None:
        """The bars as a panel of all symbols, those without a bar not observed."""
        if not bars:
            return None
        symbols, fields = self.runtime.symbols, self.runtime.bundle.features.fields
        index, rows = self._times([bar.time for bar in bars])
        columns = self._served_columns(bar.symbol for bar in bars)
        _check_once(list(zip(rows.tolist(), columns, strict=True)))
        blocks = np.full((len(fields), len(index), len(symbols)), np.nan)
        numbers = [bar.__dict__ for bar in bars]  # as fast as it gets; checked by the schema before
        blocks[:, rows, columns] = [[of_bar[name] for of_bar in numbers] for name in fields]
        panel = Panel(index, symbols, fields, blocks, np.isfinite(blocks[fields.index("close")]))
        if broken_bars(panel).any():
            raise HTTPException(422)
        return panel

    def _entries(self, given: Any) -> tuple[Panel, dict[str, Array]]:
        """A panel of one bar with closes, and entries (symbol, …) that are 0 for symbols without a row."""
        columns = self._served_columns(row.symbol for row in given.rows)
        _check_once(columns)
        closes = np.full((1, len(self.runtime.symbols)), np.nan)
        closes[0, columns] = [row.close for row in given.rows]
        spec = self.runtime.bundle.model.spec
        entries = {}
        elsewhere = {*ACCOUNT_ENTRIES, *spec.remembered, *spec.conditions}  # not from the rows of a request
        for name in (entry for entry in spec.inputs if entry not in elsewhere):
            values = np.array([getattr(row, name) for row in given.rows], dtype=np.float32)
            entries[name] = np.zeros((len(self.runtime.symbols), *values.shape[1:]), np.float32)
            entries[name][columns] = values
        index, _ = self._times([given.time])
        return Panel.from_fields(index, self.runtime.symbols, {"close": closes}), entries

    def _times(self, moments: Sequence[datetime]) -> tuple[pd.DatetimeIndex, Array]:
        """The distinct ones in order, and the place of each; refuses those before 1970, to come, or not after the last.

        Distinct by their seconds: the moments of a request have each a time zone of their own, slow to compare.
        """
        stamps = [moment.timestamp() for moment in moments]
        seconds, first, places = np.unique(stamps, return_index=True, return_inverse=True)
        panel, latest = self.runtime.history.panel, self.runtime.clock() + self.runtime.bar_seconds
        # A bar is stamped when it is known, so at most one bar length ahead of our clock is tolerated.
        if not 0 < seconds[0] <= seconds[-1] <= latest:
            raise HTTPException(422)
        if panel is not None and moments[first[0]] <= panel.index[-1]:
            raise HTTPException(409)
        return pd.DatetimeIndex([pd.Timestamp(moments[k]).value for k in first], tz="UTC"), places

    def _served_columns(self, symbols: Iterable[str]) -> list[int]:
        """Columns of symbols; refuses one that is not served."""
        columns = [self._columns.get(symbol, -1) for symbol in symbols]
        if -1 in columns:
            raise HTTPException(422)
        return columns


def _restore(runtime: Runtime, books: Path) -> None:
    try:
        runtime.restore(json.loads(books.read_bytes()))
    except (OSError, ValueError, LookupError, TypeError, ConfigError) as problem:
        raise ConfigError(
            f"{books} cannot be restored ({problem}); move it away to start with an empty guard"
        ) from problem


@contextmanager
def _report_switch_errors() -> Iterator[None]:
    """503 where the kill switch's file can be neither made nor removed."""
    try:
        yield
    except (OSError, ConfigError) as problem:
        log.exception("the kill switch stays as it is")
        raise HTTPException(503) from problem


def _check_once(cells: Sequence[object]) -> None:
    if len(set(cells)) < len(cells):
        raise HTTPException(422)


# ---- refusals -------------------------------------------------------------------------------------------------------

WORDS = {
    400: "the request cannot be read",
    404: "there is no such route",
    405: "the route has no such method",
    409: "not possible now: history is too short, a bar not newer than the last or its price beyond jump_factor, "
    "a position without a price, or the policy's output is not finite",
    503: "the model does not answer, or books or kill switch cannot be written, and trading is halted then; "
    "see the log under the request id",
    422: "a field is missing, unknown or out of range, a symbol twice or not served, or a time or bar not possible",
}


class ShortHistoryRefusal(HTTPException):
    """What is missing, in the server's own words: nothing of the caller's is in its sentence."""


async def refuse_http(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, HTTPException)
    said = problem.detail if isinstance(problem, ShortHistoryRefusal) else WORDS.get(problem.status_code, "refused")
    return JSONResponse({"error": said}, problem.status_code, problem.headers)


async def refuse_invalid(request: Request, problem: Exception) -> JSONResponse:
    """Places and kinds of mistakes; names that the caller made up, and values, are left out."""
    assert isinstance(problem, RequestValidationError)
    mistakes, problems = problem.errors(), []
    lacking = [str(mistake["loc"][-1]) for mistake in mistakes if mistake["type"] == "missing"]
    if len(lacking) == len(mistakes):  # the names are the API's own
        return JSONResponse({"error": f"the request lacks {', '.join(lacking)}; /v1/openapi.json describes it"}, 422)
    for mistake in mistakes[:MOST_PROBLEMS]:
        place, kind = mistake["loc"], mistake["type"]
        # An unknown field's name is the caller's own text, which is never repeated.
        problems.append({"where": list(place[:-1] if kind == "extra_forbidden" else place), "what": kind})
    return JSONResponse({"error": WORDS[422], "problems": problems}, 422)
