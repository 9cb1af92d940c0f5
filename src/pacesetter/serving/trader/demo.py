"""The end of a job: its policy is bundled, asked once through the API's own application, and decides for a person."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from pacesetter.build import build_panel
from pacesetter.errors import RunError
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.serving.api.runtime import Runtime
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.packaging import bundle_run
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.bundle.store import Store, find_bundle
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.trader.decision import decide_at_close
from pacesetter.serving.trader.session import fit_panel

if TYPE_CHECKING:
    from starlette.types import Message

    from pacesetter.serving.api.admission import Admission

__all__ = ["bundle_and_ask", "bundle_and_decide", "print_decision"]

SECONDS = 60.0  # for the first answer, which compiles; no one else waits for it


def bundle_and_ask(
    run_folder: Path,
    store: Path,
    judged: Path,
    observations: int = 10_000,
    despite_no_go: bool = False,
    risk: RiskOptions | None = None,
) -> str:
    """Bundle a run, and answer POST /v1/decide for its newest bar, without a network; the answer in one line.

    judged   folder of its judgement, for the model card       risk   see `bundle_run`
    What `bundle_run` refuses is refused here, and so is an answer other than 200.
    """
    from pacesetter.serving.api.admission import ApiSettings  # here, as FastAPI takes half a second to import
    from pacesetter.serving.api.app import make_app
    from pacesetter.serving.api.keys import Keys

    folder, bundle = _serve(run_folder, store, judged, risk, observations=observations, despite_no_go=despite_no_go)
    runtime = Runtime(bundle)
    panel = build_panel(bundle.config).select(list(runtime.symbols))
    runtime.clock = panel.index[-1].timestamp  # stored bars are served as they came, not as years old
    runtime.feed(panel.rows(0, len(panel) - 1))
    # The last bar comes by the API, all before it as history: the way of a live caller.
    body = _request(panel.rows(len(panel) - 1, None))
    with TemporaryDirectory() as place:
        keys = Keys(Path(place) / "keys.json")
        token = keys.add("demo", ["trade"], 1.0)
        settings = ApiSettings(max_body_bytes=max(len(body), 65_536), seconds=SECONDS)
        app = make_app(runtime, KillSwitch(Path(place) / "HALT"), keys, settings)
        answer = asyncio.run(_post(app, "/v1/decide", token, body))
    warned = f"; {bundle.warning}" if bundle.warning else ""
    name = f"{folder.name} (model {answer['model'][:12]})"
    return (
        f"{name} serves {answer['time'][:10]} to an account in cash: {_describe_decisions(answer['decisions'])}{warned}"
    )


def bundle_and_decide(
    console: Console, run_folder: Path, store: Path, judged: Path, panel: Panel, risk: RiskOptions | None
) -> None:
    """Bundle a run, and print what it would hold after the last bar of a panel; as `bundle_and_ask` without the API."""
    folder, bundle = _serve(run_folder, store, judged, risk)
    warned = f"; {bundle.warning}" if bundle.warning else ""
    console.print(
        f"Bundle: {folder.name} (model {bundle.model.sha256[:12]}){warned}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    print_decision(console, store, panel)


def print_decision(console: Console, store: Path, panel: Panel) -> None:
    """What the bundle that serves would hold after the last bar of a panel: a table, and what it comes to."""
    bundle = find_bundle(store, SigningKey.find())
    table = decide_at_close(bundle, fit_panel(panel, bundle))
    console.print("An account that followed it over the test bars decides next:", highlight=False)
    console.print(table.table())
    replayed = bundle.manifest.get("replay") or {}
    breakers = [] if not replayed else [f"Test bars behind its circuit breakers: {replayed['breakers_on']['told']}."]
    for line in (*table.notes, table.sentence, *breakers, f"Every day: pacesetter decide {store} --daily"):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _serve(run_folder: Path, store: Path, judged: Path, risk: RiskOptions | None, **how: Any) -> tuple[Path, Bundle]:
    """The bundle of a run that serves already, or a new one."""
    key = SigningKey.find()
    served = _find_current(run_folder, store, key)
    return served or bundle_run(run_folder, store, judged=judged, risk=risk, key=key, **how)


def _find_current(run_folder: Path, store: Path, key: SigningKey | None) -> tuple[Path, Bundle] | None:
    """The bundle that serves, where it is of this very run already, and signed where there is a key."""
    bundles = Store(store)
    # By the row of the one that serves: after a rollback that is not the newest.
    row = next((row for row in bundles.versions if row["bundle"] == bundles.current.name), None)
    if row is None or row["run"] != run_folder.name or (key is not None and not row["signed"]):
        return None
    return bundles.current, Bundle.open(bundles.current, key)


def _request(bar: Panel) -> bytes:
    """One bar of every symbol that has one, as a caller sends it."""
    moment = bar.index[0].isoformat()
    bars = [
        {"symbol": symbol, "time": moment} | {name: float(bar[name][0, k]) for name in bar.fields}
        for k, symbol in enumerate(bar.symbols)
        if np.isfinite(bar.blocks[:, 0, k]).all()
    ]
    return json.dumps({"bars": bars}).encode()


async def _post(app: Admission, path: str, token: str, body: bytes) -> dict[str, Any]:
    """The JSON answer of the application to one request; refuses another status than 200."""
    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": path}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope | {"query_string": b"", "headers": headers}, receive, send)
    if sent[0]["status"] != 200:
        raise RunError(f"the served policy answered {sent[0]['status']} to its own newest bar; see the log")
    return dict(json.loads(b"".join(message.get("body", b"") for message in sent)))


def _describe_decisions(decisions: list[dict[str, Any]]) -> str:
    """The surest order that passes the guard, and how many others there are."""
    passed = [row for row in decisions if row["allowed"]]
    refused = Counter(row["limit"] for row in decisions if row["limit"])
    best = max(passed or decisions, key=lambda row: row["confidence"])
    size = f" {abs(best['allowed']):.4g}" if passed else ""
    limits = ", ".join(f"{name} {count}" for name, count in refused.items()) or "none"
    return (
        f"{best['order'].replace('_', ' ').upper()}{size} {best['symbol']} (confidence {best['confidence']:.2f}); "
        f"{len(passed)} of {len(decisions)} symbols trade; limits applied: {limits}"
    )
