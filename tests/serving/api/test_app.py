"""The API: keys and scopes on every route, sizes, rates and times, hostile requests, and what a decision says.

Runs `serving.api.metrics`, `serving.api.schemas`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
import pytest
from served import FEEDS_UNTIL, HOSTILE, POSTS, SECRET_WORD, Served

from pacesetter.errors import ConfigError
from pacesetter.panel import Panel
from pacesetter.serving.api.admission import ApiSettings
from pacesetter.serving.api.app import API_VERSION, ROUTES, make_app
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.runtime import Runtime
from pacesetter.serving.risk.halt import KillSwitch

CLOSED = [route for route, access in ROUTES.items() if access.scopes]


@pytest.fixture
def served(made, tmp_path) -> Served:
    return Served(made, tmp_path)


# ---- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", CLOSED)
def test_every_route_takes_a_key_of_its_scope(served, route):
    for token in (None, "pace_wrong", "ended", ""):
        assert served.call(route, token).status_code == 401
    for scope in ("read", "trade", "admin"):
        status = served.call(route, scope).status_code
        assert (status == 403) == (scope not in ROUTES[route].scopes)
    odd = {"Authorization": f"Basic {served.tokens['admin']}"}
    assert served.client.request("POST" if route in POSTS else "GET", route, headers=odd).status_code == 401


def test_alive_needs_no_key_and_an_unknown_route_does(served):
    assert served.call("/livez").json() == {"status": "alive"}
    assert served.call("/docs").status_code == 401
    assert served.call("/docs", "read").status_code == 404
    assert (
        served.client.get("/v1/decide", headers={"Authorization": f"Bearer {served.tokens['trade']}"}).status_code
        == 405
    )


def test_a_slash_too_many_is_no_redirect_to_the_host_that_a_caller_claims(served):
    for route in ("/livez/", "/v1/state/"):
        answer = served.call(route, "read", follow_redirects=False)
        assert (answer.status_code, answer.headers.get("location")) == (404, None)


def test_it_does_not_start_without_a_key(made, tmp_path):
    with pytest.raises(ConfigError, match="has no key"):
        make_app(Runtime(made.bundle), KillSwitch(tmp_path / "HALT"), Keys(tmp_path / "none.json"))
    assert ApiSettings().host == "127.0.0.1"


# ---- what it says ---------------------------------------------------------------------------------------------------


def test_a_decision_names_its_orders_sizes_limits_and_model(served):
    answer = served.call("/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL), "account": {"cash": 50_000}})
    assert answer.status_code == 200
    told = answer.json()
    assert told["model"] == served.runtime.bundle.model.sha256
    assert told["request"] == answer.headers["x-request-id"]
    assert told["time"] == served.panel.index[FEEDS_UNTIL].isoformat()
    assert [line["symbol"] for line in told["decisions"]] == list(served.panel.symbols)
    for line in told["decisions"]:
        assert 0 < line["confidence"] <= 1
        assert line["allowed"] == (line["quantity"] if line["limit"] is None else 0)
    again = served.call("/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL)})
    assert again.status_code == 409
    assert served.call("/v1/decide", "trade", json={}).status_code == 200


def test_bars_before_the_first_decision_are_stored_and_the_missing_ones_counted(made, tmp_path):
    served = Served(made, tmp_path, until=10)
    first, second = (served.call("/v1/decide", "trade", json={"bars": served.bars(t)}) for t in (10, 11))
    assert (first.status_code, second.status_code) == (202, 202)
    assert second.json() == {"stored": True, "missing_bars": first.json()["missing_bars"] - 1}
    assert served.call("/v1/state", "read").json()["last_bar"] == served.panel.index[11].isoformat()


def test_a_bar_that_breaks_a_rule_is_refused_and_not_kept(served):
    bars = served.bars(FEEDS_UNTIL)
    broken = [bars[0] | {"high": 0.5 * bars[0]["low"]}, *bars[1:]]
    before = served.runtime.history.panel
    assert served.call("/v1/decide", "trade", json={"bars": broken}).status_code == 422
    assert served.runtime.history.panel is before
    assert served.call("/v1/decide", "trade", json={"bars": bars}).status_code == 200


def _features(served, t):
    """Features as the served history has them, with the time and closes of bar t."""
    entries = served.runtime.history.observation()
    rows = [
        {"symbol": symbol, "close": float(served.panel.close[t, k])}
        | {name: values[k].tolist() for name, values in entries.items()}
        for k, symbol in enumerate(served.panel.symbols)
    ]
    return {"time": served.panel.index[t].isoformat(), "rows": rows}


def test_features_in_place_of_bars_decide_alike(served, made, tmp_path):
    by_bars = served.call("/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL)}).json()
    features = _features(served, FEEDS_UNTIL)
    (tmp_path / "other").mkdir()
    other = Served(made, tmp_path / "other")
    by_features = other.call("/v1/decide", "trade", json={"features": features})
    assert by_features.status_code == 200
    assert by_features.json()["decisions"] == by_bars["decisions"]
    both = {"features": features, "bars": other.bars(FEEDS_UNTIL)}
    assert other.call("/v1/decide", "trade", json=both).status_code == 422
    before = {"features": features | {"time": served.panel.index[FEEDS_UNTIL - 1].isoformat()}}
    assert Served(made, tmp_path / "other", until=10).call("/v1/decide", "trade", json=before).status_code == 409


def test_features_with_a_close_that_no_market_has_are_refused(served):
    def status(t: int, factor: float = 1.0, missing: int = 0) -> int:
        features = _features(served, t)
        features["rows"][1]["close"] *= factor
        del features["rows"][:missing]
        return served.call("/v1/decide", "trade", json={"features": features}).status_code

    assert status(FEEDS_UNTIL) == 200
    assert [status(FEEDS_UNTIL + 1, factor) for factor in (11.0, 0.05)] == [409, 409]
    assert status(FEEDS_UNTIL + 1, missing=1) == 200  # a symbol that is left out has not fallen to 0
    assert status(FEEDS_UNTIL + 2) == 200


def test_a_position_without_a_price_is_refused_and_not_counted_as_lost(served):
    features = _features(served, FEEDS_UNTIL)
    symbol = features["rows"].pop()["symbol"]
    for quantity, status, state in ((900.0, 409, "active"), (0.0, 200, "active")):
        account = {"cash": 1e4, "positions": [{"symbol": symbol, "quantity": quantity, "entry_price": 100.0}]}
        answer = served.call("/v1/decide", "trade", json={"features": features, "account": account})
        assert (answer.status_code, served.call("/v1/state", "read").json()["state"]) == (status, state)


def test_halt_is_latched_and_a_named_person_resumes(served, made, tmp_path):
    assert served.call("/v1/halt", "trade", json={"reason": "fire drill"}).json()["state"] == "halted"
    assert served.switch.is_engaged()
    told = served.call("/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL)}).json()
    assert told["state"] == "halted"
    assert not any(line["allowed"] for line in told["decisions"])
    (tmp_path / "restarted").mkdir()
    again = Served(made, tmp_path / "restarted")
    again.switch.path = served.switch.path
    assert again.call("/v1/state", "read").json()["reason"] == "fire drill"
    assert again.call("/v1/resume", "admin", json={"by": "ada"}).json()["state"] == "active"
    assert not served.switch.is_engaged()


def test_the_guard_and_its_ids_outlive_a_restart(made, tmp_path):
    def buying(until: int = FEEDS_UNTIL) -> Served:
        served = Served(made, tmp_path, until=until)
        served.runtime.policy.decide, served.runtime.policy.confidence = lambda seen: np.full(3, 3.0), np.ones(3)
        served.runtime.clock = lambda: served.panel.index[FEEDS_UNTIL].timestamp()
        return served

    first, loss = buying(), {"account": {"cash": 97_500}}
    sent = first.call(
        "/v1/decide", "trade", json={"bars": first.bars(FEEDS_UNTIL), "account": {"cash": 100_000}}
    ).json()
    assert first.call("/v1/decide", "trade", json=loss).json()["state"] == "reducing"
    second = buying(FEEDS_UNTIL + 1)
    assert second.call("/v1/state", "read").json()["state"] == "reducing"
    again = second.call("/v1/decide", "trade", json=loss).json()
    assert [line["limit"] for line in sent["decisions"]] == [None] * 3
    assert [line["limit"] for line in again["decisions"]] == ["duplicate_id"] * 3
    behind = buying()  # its bars end before the books do
    assert behind.call("/v1/decide", "trade", json={}).status_code == 409


def test_books_that_cannot_be_written_or_read_stop_it(served, made, tmp_path):
    (tmp_path / "books").mkdir()
    assert served.call("/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL)}).status_code == 503
    assert served.call("/v1/state", "read").json()["state"] == "halted"
    (tmp_path / "books").rmdir()
    (tmp_path / "books").write_text('{"symbols": ["A"]}')
    with pytest.raises(ConfigError, match=r"have 1 other symbols than the 3 served.*move it away"):
        Served(made, tmp_path)


def test_a_release_from_the_command_line_resumes_a_running_server(served):
    KillSwitch(served.switch.path).engage("from outside")
    assert served.call("/v1/state", "read").json()["reason"] == "from outside"
    KillSwitch(served.switch.path).release("Ada")
    assert served.call("/v1/state", "read").json()["state"] == "active"


def test_a_touched_file_halts_and_a_drawdown_latches(served):
    served.switch.path.touch()
    assert served.call("/v1/state", "read").json()["state"] == "halted"
    served.call("/v1/resume", "admin", json={"by": "ada"})
    account = {"cash": 80_000, "peak_equity": 100_000}
    served.call("/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL), "account": {"cash": 100_000}})
    told = served.call("/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL + 1), "account": account}).json()
    assert told["state"] == "halted"
    assert served.switch.is_engaged()


def test_a_halt_acts_though_the_kill_switch_cannot_be_written(served, monkeypatch):
    monkeypatch.setattr(served.switch, "path", Path("/proc/nowhere/HALT"))
    assert served.call("/v1/halt", "trade", json={"reason": "fire"}).status_code == 503
    assert served.call("/v1/state", "read").json()["reason"] == "fire"
    told = _decided(served, FEEDS_UNTIL, {"cash": 1e5})
    assert told["state"] == "halted"
    assert not any(line["allowed"] for line in told["decisions"])


def test_a_halt_acts_at_once_and_the_server_answers_while_its_file_is_written(served, monkeypatch):
    KillSwitch(served.switch.path).engage("from outside")
    KillSwitch(served.switch.path).release("Ada")  # not heeded yet: it must not end a halt that comes later
    is_writing, may_write, ended = threading.Event(), threading.Event(), list[bool]()

    def write(reason: str, by: str = "") -> bool:
        is_writing.set()
        ended.append(may_write.wait(600))
        return KillSwitch(served.switch.path).engage(reason, by)

    async def ask(client: Any, route: str, scope: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {served.tokens[scope]}"}
        return await client.request("POST" if route in POSTS else "GET", route, headers=headers, **options)

    async def scenario() -> None:
        transport = httpx2.ASGITransport(app=served.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test", timeout=600) as client:
            halting = asyncio.create_task(ask(client, "/v1/halt", "trade", json={"reason": "fire"}))
            assert await asyncio.to_thread(is_writing.wait, 600)
            assert (await client.get("/livez")).status_code == 200
            told = (await ask(client, "/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL)})).json()
            assert (told["state"], any(line["allowed"] for line in told["decisions"])) == ("halted", False)
            assert (await ask(client, "/v1/state", "read")).json()["reason"] == "fire"
            assert (await halting).status_code == 202
            assert not ended, "an answer waited for the disk"
            may_write.set()
            assert (await ask(client, "/v1/resume", "admin", json={"by": "Ada"})).json()["state"] == "active"

    monkeypatch.setattr(served.switch, "engage", write)
    monkeypatch.setattr("pacesetter.serving.api.app.LATCH_SECONDS", 0.01, raising=False)
    asyncio.run(scenario())
    assert ended == [True]
    assert not served.switch.is_engaged()


def test_a_kill_switch_that_cannot_be_released_stays(served):
    served.switch.path.mkdir()
    assert served.call("/v1/resume", "admin", json={"by": "ada"}).status_code == 503
    assert served.call("/v1/state", "read").json()["state"] == "halted"


def test_a_length_beyond_all_numbers_is_too_long(served):
    headers = {"Authorization": f"Bearer {served.tokens['trade']}", "Content-Length": "9" * 5000}
    assert served.client.post("/v1/halt", headers=headers).status_code == 413


def test_a_peak_that_only_the_caller_saw_halts(served):
    account = {"cash": 85_000, "peak_equity": 100_000}
    assert _decided(served, FEEDS_UNTIL, account)["state"] == "halted"
    assert served.call("/v1/state", "read").json()["reason"] == "drawdown 15.00%"
    served.call("/v1/resume", "admin", json={"by": "ada"})
    assert _decided(served, FEEDS_UNTIL + 1, account)["state"] == "active"
    assert _decided(served, FEEDS_UNTIL + 2, account | {"peak_equity": 100_001})["state"] == "halted"


@pytest.mark.parametrize("count", [1, 2])
def test_a_price_that_no_market_has_is_refused_and_not_remembered(served, count):
    bars = [served.bars(FEEDS_UNTIL + k) for k in range(count)]
    odd = bars[-1][1] | {name: 1e6 * bars[-1][1][name] for name in ("open", "high", "low", "close")}
    sent = [odd if bar is bars[-1][1] else bar for row in bars for bar in row]
    assert served.call("/v1/decide", "trade", json={"bars": sent}).status_code == 409
    assert served.runtime.history.panel.index[-1] == served.panel.index[FEEDS_UNTIL - 1]
    assert served.call("/v1/decide", "trade", json={"bars": bars[0]}).status_code == 200


def _decided(served, t, account):
    return served.call("/v1/decide", "trade", json={"bars": served.bars(t), "account": account}).json()


def test_ready_runs_an_inference_and_metrics_count(served, monkeypatch):
    assert served.call("/readyz", "read").json() == {"status": "ready"}
    served.call("/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL)})
    text = served.call("/metrics", "read").text
    assert 'pacesetter_requests_total{route="/v1/decide",status="200"} 1.0' in text
    assert 'pacesetter_guard_state{state="active"} 1.0' in text
    assert "pacesetter_decisions_total" in text
    model = served.runtime.bundle.model
    monkeypatch.setattr(type(model), "__call__", lambda self, observation: {"value": np.array([np.nan])})
    assert served.call("/readyz", "read").status_code == 503


def test_metrics_are_read_while_a_decision_counts_a_denial(served, monkeypatch):
    guard, metrics = served.runtime.guard, served.app.metrics
    guard.denials["halted"] = 1
    labels = metrics.denials.labels
    monkeypatch.setattr(metrics.denials, "labels", lambda name: guard.denials.update(stale=1) or labels(name))
    assert served.call("/metrics", "read").status_code == 200


def test_a_server_is_ready_once_every_symbol_has_its_bars(made, tmp_path):
    seen = np.ones(made.panel.shape[:2], dtype=bool)
    seen[:60, 1] = False
    fields = {name: np.where(seen, made.panel[name], np.nan) for name in made.panel.fields}
    late = made._replace(panel=Panel.from_fields(made.panel.index, made.panel.symbols, fields))
    served = Served(late, tmp_path)
    answer = served.call("/readyz", "read")
    assert (answer.status_code, answer.json()["symbols"]) == (503, ["S1"])
    assert served.call("/livez").status_code == 200
    served.runtime.feed(late.panel.rows(FEEDS_UNTIL, FEEDS_UNTIL + 30))
    assert served.call("/readyz", "read").status_code == 200


def test_the_schema_is_versioned_and_knows_the_bundle(served):
    schema = served.call("/v1/openapi.json", "read").json()
    assert schema["info"]["version"] == API_VERSION
    assert set(schema["components"]["schemas"]["BarIn"]["required"]) == {"symbol", "time", *served.panel.fields}
    assert schema["components"]["schemas"]["DecideIn"]["additionalProperties"] is False


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_bodies_get_a_4xx_that_repeats_nothing(served, body):
    for route in POSTS:
        answer = served.call(route, "admin" if route == "/v1/resume" else "trade", content=body)
        assert 400 <= answer.status_code < 500, answer.text
        assert SECRET_WORD not in answer.text
        assert answer.json()["error"]


def test_bars_and_positions_that_make_no_sense_are_refused(served):
    good = served.bars(FEEDS_UNTIL)
    future = [bar | {"time": served.panel.index[FEEDS_UNTIL + 40].isoformat()} for bar in good]
    for bars in ([good[0], good[0]], [good[0] | {"symbol": "nobody"}], [good[0] | {"close": -1.0}], future):
        assert served.call("/v1/decide", "trade", json={"bars": bars}).status_code == 422
    assert served.call("/v1/decide", "trade", json={"bars": served.bars(FEEDS_UNTIL - 1)}).status_code == 409
    held = {"symbol": served.panel.symbols[0], "quantity": 1.0, "entry_price": 1.0}
    for positions in ([held, held], [held | {"symbol": "nobody"}], [held | {"more": 1}]):
        asked = {"account": {"positions": positions}}
        assert served.call("/v1/decide", "trade", json=asked).status_code == 422


def test_numbers_too_small_to_divide_by_are_refused_or_halt(served):
    held = {"symbol": served.panel.symbols[0], "quantity": 1.0, "entry_price": 1.0}
    for wrong in ({"entry_price": 5e-324}, {"best_price": 5e-324}):
        asked = {"account": {"positions": [held | wrong]}}
        assert served.call("/v1/decide", "trade", json=asked).status_code == 422
    for cash in (1e5, 5e-324, 0.0, -1.0):
        answer = served.call("/v1/decide", "trade", json={"bars": [], "account": {"cash": cash}})
        assert answer.status_code == 200
    ruined = {"bars": served.bars(FEEDS_UNTIL), "account": {"cash": 5e-324}}
    assert served.call("/v1/decide", "trade", json=ruined).json()["state"] == "halted"


def test_an_answer_that_is_no_number_is_refused(served, monkeypatch):
    model = served.runtime.bundle.model
    answer = {name: np.full((3, 7) if name == "probabilities" else 3, np.nan) for name in model.spec.outputs}
    monkeypatch.setattr(type(model), "__call__", lambda self, observation: answer)
    assert served.call("/v1/decide", "trade", json={}).status_code == 409


def test_long_bodies_and_odd_lengths_are_refused(served):
    assert served.call("/v1/decide", "trade", content=b" " * 65_537).status_code == 413
    assert served.call("/v1/halt", "trade", content=b"1" * 10**6).status_code == 413
    headers = {"Authorization": f"Bearer {served.tokens['trade']}", "Content-Length": "many"}
    assert served.client.post("/v1/decide", headers=headers, content=b"{}").status_code == 400


def test_too_many_requests_wait_but_a_halt_never_does(made, tmp_path):
    served = Served(made, tmp_path, ApiSettings(rate=0.001, burst=2, concurrency=1))
    assert [served.call("/v1/state", "read").status_code for _ in range(3)] == [200, 200, 429]
    served.app.turns.active, served.app.turns.seconds = 1, 0.01
    busy = served.call("/v1/decide", "trade", json={})
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
    assert all(served.call("/v1/halt", "trade", json={"reason": "now"}).status_code == 200 for _ in range(5))


def test_slow_bodies_and_slow_answers_end(made, tmp_path, monkeypatch):
    served = Served(made, tmp_path, ApiSettings(seconds=0.05))

    async def slow_body() -> Any:
        yield b"{"
        await asyncio.sleep(1)

    async def ask(**options: Any) -> int:
        transport = httpx2.ASGITransport(app=served.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            headers = {"Authorization": f"Bearer {served.tokens['trade']}"}
            return (await client.post("/v1/decide", headers=headers, **options)).status_code

    assert asyncio.run(ask(content=slow_body())) == 408
    released, ended = threading.Event(), list[bool]()
    monkeypatch.setattr(served.runtime, "decide", lambda *given: ended.append(released.wait(120)))
    assert asyncio.run(ask(json={})) == 504
    assert not ended, "the answer waited for the work"
    released.set()


# ---- a server -------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(made, tmp_path) -> Any:
    """`pacesetter serve` as a process on a free port: address, token, process."""
    token = Keys(tmp_path / "keys.json").add("ops", ["read", "trade"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "import typer; from pacesetter.cli.serve import register; app = typer.Typer(); register(app); app()"
    words = ["serve", str(made.folder.parent), "--port", str(port), "--keys", "keys.json"]
    line = [sys.executable, "-c", code, *words]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            line, cwd=tmp_path, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
    try:
        _wait_for(port, process)
        yield ("127.0.0.1", port), token, process, tmp_path / "log"
    finally:
        process.terminate()
        process.wait(600)


def _wait_for(port: int, process: Any) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


def test_100_mb_in_chunks_are_refused_with_flat_memory(server):
    address, token, process, log = server
    before = psutil.Process(process.pid).memory_info().rss
    most, status, chunk = before, b"", b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with socket.create_connection(address, 120) as link:
        head = ["POST /v1/decide HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", "Transfer-Encoding: chunked"]
        link.sendall("\r\n".join([*head, "", ""]).encode())
        with suppress(OSError):  # the server answers and closes
            for _ in range(1_600):
                link.sendall(chunk)
                most = max(most, psutil.Process(process.pid).memory_info().rss)
        with suppress(OSError):  # where the answer was lost with the reset, the log has it
            status = link.recv(4096)
    assert most - before < 5 * 2**20
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"route"' in line]
    assert lines[-1]["status"] == 413
    assert not status or b" 413 " in status
    assert token not in log.read_text()
    assert lines[-1]["run"]
    assert lines[-1]["request"]


def test_an_empty_request_says_what_is_missing(made, tmp_path):
    empty = Served(made, tmp_path, until=5).call("/v1/decide", "trade", json={})
    assert empty.status_code == 409
    assert re.fullmatch(r"history is too short: \d+ more bars are needed; send them as bars", empty.json()["error"])
