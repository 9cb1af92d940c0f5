"""Callers who hold connections, bodies and turns: others are served, and a halt gets through.

Runs `serving.api.connections`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pacesetter.errors import ConfigError
from pacesetter.serving.api.admission import Access, Admission, ApiSettings, Refusal, Turns
from pacesetter.serving.api.keys import Keys

SECONDS, DESCRIPTORS = 1.0, 256
ROUTES = {"/livez": Access(), "/state": Access(("read",)), "/halt": Access(("trade",), is_urgent=True)}
SERVER = """
import json, resource, sys
from types import SimpleNamespace
from pacesetter.serving.api.admission import Access, Admission, ApiSettings
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.server import _serve_until_stopped

async def app(scope, receive, send):
    body = json.dumps({"path": scope["path"]}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})

keys, port, descriptors, seconds = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(descriptors), int(descriptors)))
settings = ApiSettings(port=int(port), seconds=float(seconds), rate=1e9, burst=10**9)
routes = {"/livez": Access(), "/state": Access(("read",)), "/halt": Access(("trade",), is_urgent=True)}
metrics = SimpleNamespace(request=lambda *facts: None)
_serve_until_stopped(Admission(app, Keys(keys), settings, routes, metrics), settings)
"""


class Server(NamedTuple):
    """A gate before an application that says where it was called, as a process with few descriptors."""

    port: int
    tokens: dict[str, str]

    def status(self, route: str, token: str = "") -> int:
        link = HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"Authorization": f"Bearer {self.tokens[token]}"} if token else {}
        link.request("POST", route, b"{}", headers)
        status = link.getresponse().status
        link.close()
        return status

    def hold(self, held: ExitStack, sent: str) -> socket.socket:
        """A connection on which so much was sent, and no more comes."""
        link = held.enter_context(socket.create_connection(("127.0.0.1", self.port), 120))
        link.sendall(sent.replace("\n", "\r\n").encode())
        return link


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    keys = Keys(folder / "keys.json")
    tokens = {scope: keys.add(scope, [scope]) for scope in ("read", "trade")}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [sys.executable, "-c", SERVER, str(keys.path), str(port), str(DESCRIPTORS), str(SECONDS)]
    process = subprocess.Popen(line, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
    try:
        _wait_for(port, process)
        yield Server(port, tokens)
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


def test_bodies_that_nobody_with_a_key_promised_hold_no_turn(server: Server) -> None:
    with ExitStack() as held:
        promised = "POST /livez HTTP/1.1\nHost: x\nContent-Length: 10\n\n"
        links = [server.hold(held, promised) for _ in range(4 * ApiSettings().concurrency)]
        assert [server.status("/state", "read") for _ in range(3)] == [200] * 3
        answers = [link.recv(4096) for link in links]
        assert all(b" 200 " in answer and b"connection: close" in answer for answer in answers)


def test_slow_bodies_of_one_key_hold_no_turn_of_another(server: Server) -> None:
    head = f"POST /state HTTP/1.1\nHost: x\nAuthorization: Bearer {server.tokens['read']}\nContent-Length: 9\n\n"
    with ExitStack() as held:
        for _ in range(2 * ApiSettings().concurrency):
            server.hold(held, head)
        assert server.status("/state", "read") == 200
        assert server.status("/halt", "trade") == 200


def test_half_sent_headers_leave_room_for_a_halt_and_end(server: Server) -> None:
    with ExitStack() as held:
        links = [server.hold(held, "POST /state HTTP/1.1\nHost: x\n") for _ in range(DESCRIPTORS + 44)]
        assert [server.status("/halt", "trade") for _ in range(5)] == [200] * 5
        assert all(_is_ended(link) for link in links)


def test_a_header_that_comes_letter_by_letter_ends(server: Server) -> None:
    with ExitStack() as held:
        link = server.hold(held, "GET /livez HTTP/1.1\nHost: x\n\n")
        assert b" 200 " in link.recv(4096)
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):  # noqa: PT012 - whichever send comes after the end
            while True:
                link.sendall(b"G")
                time.sleep(SECONDS / 20)


def _is_ended(link: socket.socket) -> bool:
    try:
        return link.recv(4096) == b""
    except ConnectionResetError:
        return True


# ---- turns ----------------------------------------------------------------------------------------------------------


def test_turns_go_round_the_keys_and_a_wait_that_is_too_long_is_refused_at_once() -> None:
    order: list[str] = []

    async def ask(turns: Turns, key: str) -> None:
        async with turns.turn(key):
            order.append(key)
            await asyncio.sleep(0.01)

    async def together() -> None:
        turns = Turns(1, 10.0)
        await asyncio.gather(*(ask(turns, key) for key in "aaaab"))
        assert (turns.active, turns.waiting) == (0, {})
        turns._mean_seconds = 6.0  # one may wait, a second could not be served in time
        answers = await asyncio.gather(*(ask(turns, "c") for _ in range(3)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [type(None), type(None), Refusal]

    asyncio.run(together())
    assert order[:3] == ["a", "a", "b"]
    assert sorted(order) == sorted("aaaabcc")


def test_a_turn_that_does_not_come_is_refused_and_leaves_nothing_behind() -> None:
    async def wait() -> None:
        turns = Turns(1, 0.01)
        async with turns.turn("a"):
            with pytest.raises(Refusal):
                await turns.turn("b").__aenter__()
        assert (turns.active, turns.waiting) == (0, {})

    asyncio.run(wait())


def test_a_turn_whose_time_is_just_over_is_not_given_and_the_next_one_is() -> None:
    async def pass_on() -> None:
        turns = Turns(1, 10.0)
        async with turns.turn("a"):
            asked = [turns.turn(key) for key in "bc"]
            waiting = [asyncio.create_task(each.__aenter__()) for each in asked]
            await asyncio.sleep(0)
            next(iter(turns.waiting.values()))[0].cancel()  # as a time-out does, before the waiter hears of it
        done, _ = await asyncio.wait(waiting, timeout=600)
        assert [task in done and not task.cancelled() for task in waiting] == [False, True]
        assert (turns.active, turns.waiting) == (1, {})

    asyncio.run(pass_on())


def test_a_key_and_an_address_have_so_many_requests_under_way_and_a_halt_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(tmp_path / "keys.json")
    tokens = {name: keys.add(name, ["read", "trade"]) for name in ("a", "b")}

    class Uncounted:
        def request(self, *facts: Any) -> None:
            """Nobody looks."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    gate = Admission(app, keys, ApiSettings(pending=2, seconds=600.0), ROUTES, Uncounted())  # type: ignore[arg-type]

    async def status(path: str, key: str, address: str, is_slow: bool = False) -> int:
        seen: list[int] = []

        async def receive() -> Any:
            if is_slow:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            seen.append(message.get("status", 0))

        headers = [(b"authorization", f"Bearer {tokens[key]}".encode()), (b"content-length", b"1")]
        await gate({"type": "http", "path": path, "headers": headers, "client": (address, 1)}, receive, send)
        return seen[0]

    async def together() -> list[int]:
        slow = [asyncio.create_task(status("/state", "a", "here", is_slow=True)) for _ in range(2)]
        while sum(gate.pending.values()) < 4:  # two of a key, and two of an address
            await asyncio.sleep(0)
        asked = (("/state", "a", "there"), ("/state", "b", "here"), ("/state", "b", "there"), ("/halt", "a", "here"))
        answers = [await status(*each) for each in asked]
        loop, now = asyncio.get_running_loop(), time.monotonic
        monkeypatch.setattr(loop, "time", lambda: now() + 601.0)  # and their time is over
        return answers + [await each for each in slow]

    assert asyncio.run(together()) == [429, 429, 200, 200, 408, 408]
    assert not gate.pending


def test_a_key_that_asks_faster_than_its_rate_is_served_at_its_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(tmp_path / "keys.json")
    key = keys.find(keys.add("eager", ["read"]))
    assert key is not None
    gate = Admission(None, keys, ApiSettings(rate=10.0, burst=1), ROUTES, None)  # type: ignore[arg-type]
    now = 0.0
    monkeypatch.setattr("pacesetter.serving.api.admission.time.monotonic", lambda: now)
    served = 0
    for step in range(1001):  # a hundred requests a second for ten seconds
        now = step / 100
        try:
            gate._count(key)
        except Refusal:
            continue
        served += 1
    assert 90 <= served <= 101


def test_settings_that_would_lock_everybody_out_are_refused() -> None:
    for wrong in ({"pending": 0}, {"connections": 0}, {"queue_seconds": 0.0}):
        with pytest.raises(ConfigError, match=f"serve.{next(iter(wrong))}"):
            ApiSettings(**wrong)  # type: ignore[arg-type]
