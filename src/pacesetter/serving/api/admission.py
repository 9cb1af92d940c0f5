"""What stands in front of the API: keys and scopes, sizes, rates, concurrency and time, before a byte is parsed.

Pure ASGI, so that a body is counted as it arrives: one that is too long is refused with no more of it in memory than
the limit. Answers here hold fixed words only, never what a caller sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pacesetter.errors import check_range
from pacesetter.serving.api.keys import Key, Keys
from pacesetter.serving.api.logs import REQUEST
from pacesetter.serving.api.metrics import Metrics

__all__ = ["Gate", "Settings"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
WORDS = {
    400: "the request cannot be read",
    401: "a key is missing, unknown or expired",
    403: "the key lacks the scope for this",
    408: "the request did not arrive in time",
    413: "the request is too long",
    429: "too many requests",
    500: "the server failed; see its log under the request id",
    504: "the answer took too long",
}
MOST_DIGITS = 18  # of a length; Python refuses to read a number of thousands
HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """How the API listens, and how much it takes.

    max_body_bytes   of a request
    seconds          in which a request must have arrived, and then been answered
    concurrency      requests at work at a time
    rate, burst      requests a second and at once, for each key
    """

    host: str = "127.0.0.1"
    port: int = 8000
    max_body_bytes: int = 65_536
    seconds: float = 5.0
    concurrency: int = 16
    rate: float = 50.0
    burst: int = 100

    def __post_init__(self) -> None:
        counts = {"max_body_bytes": self.max_body_bytes, "concurrency": self.concurrency, "burst": self.burst}
        check_range(1, owner="serve", **counts)
        check_range(0.001, owner="serve", seconds=self.seconds, rate=self.rate)


class Access(NamedTuple):
    """Who may call a route: keys with one of `scopes`, anybody where that is empty. An urgent one never waits."""

    scopes: tuple[str, ...] = ()
    is_urgent: bool = False


class Refusal(Exception):  # noqa: N818 - an answer, no fault of ours
    """Ends a request with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(WORDS[status])
        self.status = status


class Gate:
    """The application behind its checks; `routes` names the access of each path, any other path takes any key."""

    def __init__(
        self, app: Application, keys: Keys, settings: Settings, routes: Mapping[str, Access], metrics: Metrics
    ) -> None:
        self.app, self.keys, self.settings, self.routes, self.metrics = app, keys, settings, routes, metrics
        self.active = 0
        self._buckets: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, request = time.perf_counter(), uuid.uuid4().hex
        REQUEST.set(request)
        answer = _Answer(send, request)
        try:
            await self._serve(scope, receive, answer)
        except Refusal as refusal:
            await answer.refuse(refusal.status)
        except Exception:
            log.exception("request failed")
            await answer.refuse(500)
        route = scope["path"] if scope["path"] in self.routes else "other"
        seconds = time.perf_counter() - started
        self.metrics.request(route, answer.status, seconds)
        told = {"route": route, "status": answer.status, "ms": round(1000 * seconds, 3), "key": scope.get("key")}
        log.info("request", extra=told)

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, answer: _Answer) -> None:
        access = self.routes.get(scope["path"], Access(("read", "trade", "admin")))
        if access.scopes:
            key = self._key(scope)
            scope["key"] = key.name
            if not set(access.scopes) & set(key.scopes):
                raise Refusal(403)
            if not access.is_urgent:
                self._count(key)
        if self.active >= self.settings.concurrency and not access.is_urgent:
            raise Refusal(429)
        self.active += 1
        try:
            body = await self._body(scope, receive)
            async with asyncio.timeout(self.settings.seconds):
                await self.app(scope, _replay(body, receive), answer)
        except TimeoutError as problem:
            raise Refusal(504) from problem
        finally:
            self.active -= 1

    def _key(self, scope: Mapping[str, Any]) -> Key:
        """Whose token the one Authorization header holds."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        kind, _, token = given[0].decode("latin-1").partition(" ") if len(given) == 1 else ("", "", "")
        key = self.keys.find(token.strip())
        if key is None or kind.lower() != "bearer" or key.is_expired(datetime.now(UTC)):
            raise Refusal(401)
        return key

    def _count(self, key: Key) -> None:
        """Take a token from the key's bucket, which fills at `rate` up to `burst`."""
        now = time.monotonic()
        level, last = self._buckets.get(key.id, (float(self.settings.burst), now))
        level = min(level + (now - last) * self.settings.rate, float(self.settings.burst))
        self._buckets[key.id] = (max(level - 1.0, 0.0), now)
        if level < 1.0:
            raise Refusal(429)

    async def _body(self, scope: Mapping[str, Any], receive: Receive) -> bytes:
        """All of the body; refuses one above the limit as soon as it is told or seen to be."""
        told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not told.isdigit():
            raise Refusal(400)
        if len(told) > MOST_DIGITS or int(told) > self.settings.max_body_bytes:
            raise Refusal(413)
        try:
            async with asyncio.timeout(self.settings.seconds):
                return await self._read(receive)
        except TimeoutError as problem:
            raise Refusal(408) from problem

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refusal(400)
            body += message.get("body", b"")
            if len(body) > self.settings.max_body_bytes:
                raise Refusal(413)
            if not message.get("more_body", False):
                return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body in one piece, then whatever comes: a disconnect."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message


class _Answer:
    """A send that adds our headers, and remembers the status."""

    def __init__(self, send: Send, request: str) -> None:
        self.send, self.status = send, 0
        self.headers = [*HEADERS, (b"x-request-id", request.encode())]

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self.headers]
        await self.send(message)

    async def refuse(self, status: int) -> None:
        """Send the status with its words, unless an answer has begun; the rest of a body is not read."""
        if self.status:
            return
        body = json.dumps({"error": WORDS[status]}).encode()
        more = {401: [(b"www-authenticate", b"Bearer")], 429: [(b"retry-after", b"1")]}.get(status, [])
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        closing = [(b"connection", b"close")] if status in (400, 408, 413) else []
        await self({"type": "http.response.start", "status": status, "headers": [*headers, *more, *closing]})
        await self({"type": "http.response.body", "body": body})
