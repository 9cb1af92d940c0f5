"""Many requests as attackers and broken clients send them: none is answered with a 5xx, and good ones still are."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from served import FEEDS_UNTIL, HOSTILE, NO_LIMITS, Served

from pacesetter.serving.api.app import ROUTES

# An hour however it is started: `make proof` gives that to all, and on a busy machine 900 seconds are too few.
LONG = [pytest.mark.proof, pytest.mark.timeout(3600)]
PATHS = [*ROUTES, "/", "/v1/\x00", "/v1/../x", "/v2/decide"]
METHODS = ["GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"]
KINDS = [b"application/json", b"text/plain", b"multipart/form-data", b"application/x-www-form-urlencoded", b"\x7f"]
ODD = [0, -1, -0.0, 5e-324, 1e-9, 1e8, 9.99e14, 1e308, 2**63, 10**400, float("nan"), float("inf"), True, None, "", "S0"]
ODD += ["\ud800", "2000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"]
ODD += [[], {}, [[]], {"symbol": "S0"}]


@pytest.fixture
def served(made, tmp_path) -> Served:
    return Served(made, tmp_path, replace(NO_LIMITS, seconds=600.0))  # a slow machine is not a fault of the server


# ---- drawing --------------------------------------------------------------------------------------------------------


class Requests:
    """Requests drawn from a seed: hostile bodies anywhere, and good ones of each route with odd values put in."""

    def __init__(self, served: Served, seed: int) -> None:
        self.draw, self.served, self.bars = random.Random(seed), served, served.bars(FEEDS_UNTIL)
        self.good, entries = json.dumps({"bars": self.bars}).encode(), served.runtime.history.observation()
        self.rows = [
            {"symbol": symbol, "close": 50.0} | {name: entry[k].tolist() for name, entry in entries.items()}
            for k, symbol in enumerate(served.panel.symbols)
        ]
        held = {"symbol": served.panel.symbols[0], "quantity": 5.0, "entry_price": 40.0, "best_price": 50.0}
        self.account = {"cash": 1e5, "positions": [held | {"bars_held": 3}], "peak_equity": 1.1e5, "stop_outs": 0}

    def next(self) -> tuple[str, str, list[tuple[bytes, bytes]], bytes]:
        """Method, path, headers and body."""
        if self.draw.random() < 0.4:
            path, token, body = self._odd_values()
            return "POST", path, self._headers(token, KINDS[0]), body
        tokens = list(self.served.tokens.values())
        token = self.draw.choice(tokens) if self.draw.random() < 0.9 else None
        return self.draw.choice(METHODS), self.draw.choice(PATHS), self._headers(token), self._spoiled()

    def _headers(self, token: str | None, kind: bytes | None = None) -> list[tuple[bytes, bytes]]:
        accepted = self.draw.choice([b"*/*", b"text/html", b"\x01"])
        headers = [(b"content-type", kind or self.draw.choice(KINDS)), (b"accept", accepted)]
        return headers if token is None else [*headers, (b"authorization", f"Bearer {token}".encode())]

    def _spoiled(self) -> bytes:
        """A hostile body or a good one, some bytes of it changed."""
        body = bytearray(self.draw.choice([*HOSTILE, b" " * 70_000, self.good]))
        for _ in range(self.draw.choice([0, 0, 1, 5]) if body else 0):
            body[self.draw.randrange(len(body))] = self.draw.randrange(256)
        return bytes(body)

    def _odd_values(self) -> tuple[str, str, bytes]:
        """Path, token and body of a good request with up to two odd values in it."""
        tokens, kind = self.served.tokens, self.draw.randrange(8)
        if kind == 0:
            path, token, content = "/v1/halt", tokens["trade"], {"reason": "fuzz"}
        elif kind == 1:
            path, token, content = "/v1/resume", tokens["admin"], {"by": "Ada"}
        else:
            path, token, content = "/v1/decide", tokens["trade"], self._decide(kind)
        content = copy.deepcopy(content)
        for _ in range(self.draw.choice([0, 1, 1, 2])):
            self._put(content)
        return path, token, json.dumps(content).encode()

    def _decide(self, kind: int) -> dict[str, Any]:
        """Bars a second after the last ones or at the same time, features of then, or the account alone."""
        last = self.served.runtime.history.panel.index[-1]  # type: ignore[union-attr]
        moment = (last + pd.Timedelta(self.draw.choice([1, 1, 1, 0]), "s")).isoformat()
        account = {"account": self.account}
        if kind == 2:
            return account
        if kind < 5:
            return {"features": {"time": moment, "rows": self.rows}, **account}
        return {"bars": [bar | {"time": moment} for bar in self.bars], **account}

    def _put(self, content: Any) -> None:
        """Put an odd value in a place anywhere inside."""
        places = list(_places(content))
        if places:
            owner, name = self.draw.choice(places)
            owner[name] = copy.deepcopy(self.draw.choice(ODD))


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """(owner, key) of every value inside; of long lists the first three."""
    keys = content if isinstance(content, dict) else range(len(content))[:3] if isinstance(content, list) else ()
    for key in keys:
        yield content, key
        yield from _places(content[key])


# ---- sending --------------------------------------------------------------------------------------------------------


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


def fuzzed(served: Served, count: int, seed: int) -> Counter[int]:
    """How often each status answered `count` requests."""
    requests = Requests(served, seed)

    async def send_all() -> Counter[int]:
        statuses: Counter[int] = Counter()
        for number in range(count):
            method, path, headers, body = requests.next()
            status = await status_of(served.app, method, path, headers, body)
            # At once and with the request: a count of statuses would not say what went wrong.
            assert status < 500, f"request {number} of seed {seed}, {method} {path} {body[:2000]!r}: {status}"
            statuses[status] += 1
        return statuses

    return asyncio.run(send_all())


@pytest.mark.parametrize("count", [2_000, pytest.param(200_000, marks=LONG)])
def test_hostile_requests_end_in_no_5xx(served, count):
    found = fuzzed(served, count, seed=count)
    print(dict(sorted(found.items())))
    assert {200, 401, 403, 404, 405, 409, 413, 422} <= set(found)
    assert found[200] > 0.05 * count


def conformance(served: Served, cases: int) -> int:
    """Let schemathesis draw so many requests from our own schema; gives how many were sent. A 5xx fails."""
    import schemathesis
    from hypothesis import HealthCheck, given, settings
    from schemathesis import checks

    headers = {"Authorization": f"Bearer {served.app.keys.add('everything', ['read', 'trade', 'admin'])}"}
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", served.app, headers=headers)
    sent = 0
    for operation in (found.ok() for found in schema.get_all_operations()):

        @given(case=operation.as_strategy())
        @settings(max_examples=cases // 3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        def ask(case: Any) -> None:
            nonlocal sent
            sent += 1
            case.call_and_validate(headers=headers, checks=[checks.not_a_server_error])

        ask()  # three operations have a body; of the others there is one case each
    return sent


@pytest.mark.parametrize("cases", [60, pytest.param(3_000, marks=LONG)])
def test_requests_drawn_from_the_schema_end_in_no_5xx(served, cases):
    assert conformance(served, cases) >= cases
