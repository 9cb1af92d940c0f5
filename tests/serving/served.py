"""An application under test with a key for each scope, and bodies that an attacker or a broken client may send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from pacesetter.serving.api.admission import Admission, ApiSettings
from pacesetter.serving.api.app import make_app
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.runtime import Runtime
from pacesetter.serving.risk.halt import KillSwitch

__all__ = ["FEEDS_UNTIL", "HOSTILE", "NO_LIMITS", "POSTS", "SECRET_WORD", "Served", "status_of"]

POSTS = {"/v1/decide", "/v1/halt", "/v1/resume"}
# The first answer waits for a compiler, and on a busy machine for long: its time is not what these tests are about.
NO_LIMITS = ApiSettings(rate=1e9, burst=10**9, concurrency=10**6, seconds=600.0)
FEEDS_UNTIL = 420
SECRET_WORD = "hunter2hunter2"
HOSTILE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe\x00",
    b'{"account": {"cash": NaN}}',
    b'{"account": {"cash": 1e999}}',
    b'{"account": {"cash": -Infinity}}',
    b'{"account": {"cash": ' + b"9" * 400 + b"}}",
    b'{"account": {"cash": ' + b"9" * 5000 + b"}}",
    b'{"account": {"cash": "' + SECRET_WORD.encode() + b'"}}',
    b'{"' + SECRET_WORD.encode() + b'": 1}',
    b'{"account": {"positions": [{"symbol": "\\ud800", "quantity": 1, "entry_price": 1}]}}',
    b'{"account": {"positions": [{"symbol": "' + SECRET_WORD.encode() + b'", "quantity": 1, "entry_price": 1}]}}',
    b'{"bars": [{"symbol": "S0", "time": "9999-12-31T23:59:59Z", "close": 1}]}',
    b'{"bars": [{"symbol": "S0", "time": -1e300, "close": 1}]}',
    b'{"features": {"time": "0001-01-01T00:00:00+23:59", "rows": []}}',
    b"[" * 30_000,
    b'{"account":' * 5_000,
    b'{"account": {"cash": true}}',
    b'{"bars": {"0": 1}, "bars": 2}',
]


class Served:
    """An application with a key for each scope, one of them ended."""

    def __init__(self, made: Any, folder: Path, settings: ApiSettings = NO_LIMITS, until: int = FEEDS_UNTIL) -> None:
        (folder / "keys.json").unlink(missing_ok=True)  # of a server before it
        keys = Keys(folder / "keys.json")
        self.tokens = {scope: keys.add(scope, [scope]) for scope in ("read", "trade", "admin")}
        self.tokens["ended"] = keys.add("ended", ["read", "trade", "admin"], days=1e-9)
        self.switch, self.panel = KillSwitch(folder / "HALT"), made.panel
        self.runtime = Runtime(made.bundle)
        self.runtime.feed(made.panel.rows(0, until))
        self.runtime.clock = lambda: self.panel.index[FEEDS_UNTIL + 5].timestamp()
        self.app: Admission = make_app(self.runtime, self.switch, keys, settings, folder / "books")
        self.client = TestClient(self.app, raise_server_exceptions=False)

    def call(self, route: str, token: str | None = None, **options: Any) -> Any:
        headers = {} if token is None else {"Authorization": f"Bearer {self.tokens.get(token, token)}"}
        return self.client.request("POST" if route in POSTS else "GET", route, headers=headers, **options)

    def bars(self, t: int) -> list[dict[str, Any]]:
        """The bars at row t as a request has them."""
        moment = self.panel.index[t].isoformat()
        return [
            {"symbol": symbol, "time": moment} | {name: float(self.panel[name][t, k]) for name in self.panel.fields}
            for k, symbol in enumerate(self.panel.symbols)
        ]


async def status_of(app: Any, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes) -> int:
    """The status that the application answers a request with, without a network between."""
    scope = {"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path}
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope | {"query_string": b"", "headers": headers}, receive, send)
    (status,) = statuses
    return status
