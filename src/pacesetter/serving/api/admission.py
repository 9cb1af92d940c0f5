"""Admission control in front of the API: keys and scopes, sizes, rates, concurrency and time, before any parsing.

Pure ASGI, so that a body is counted as it arrives: one that is too long is refused with no more of it in memory than
the limit. Answers here hold fixed words only, never what a caller sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pacesetter.errors import check_range
from pacesetter.serving.api.keys import Key, Keys
from pacesetter.serving.api.logs import REQUEST
from pacesetter.serving.api.metrics import Metrics

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Admission", "ApiSettings"]

WORDS = {
    400: "the request cannot be read",
    401: "a key is missing, unknown or expired",
    403: "the key lacks the scope for this; add one with it: pacesetter keys add NAME --scopes read,trade",
    408: "the request did not arrive in time",
    413: "the request is too long",
    429: "too many requests",
    500: "the server failed; see its log under the request id",
    504: "the answer took too long",
}
REFUSAL_SECONDS = 0.05  # that a 429 is held back, or callers who ask again at once would leave no time for others
TURN_WEIGHT = 0.1  # of the newest turn in their mean length
MOST_DIGITS = 18  # of a length; Python refuses to read a number of thousands
HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ApiSettings:
    """How the API listens, and how much it takes.

    max_body_bytes   of a request
    seconds          in which a request's header, its body, and then its answer must be there
    concurrency      requests processed at a time
    queue_seconds    a request may wait for its turn; one that would wait longer is refused at once
    pending          requests of one key, and of one address, that arrive, wait or are processed
    connections      open ones of one address
    rate, burst      requests per second, and in a burst, for each key
    proxy            address of a reverse proxy, whose X-Forwarded-For is trusted; none if empty
    """

    host: str = "127.0.0.1"
    port: int = 8000
    max_body_bytes: int = 65_536
    seconds: float = 5.0
    concurrency: int = 16
    queue_seconds: float = 1.0
    pending: int = 64
    connections: int = 128
    rate: float = 50.0
    burst: int = 100
    proxy: str = ""

    def __post_init__(self) -> None:
        sizes = {"max_body_bytes": self.max_body_bytes, "concurrency": self.concurrency, "pending": self.pending}
        check_range(1, owner="serve", **sizes, connections=self.connections, burst=self.burst)
        check_range(0.001, owner="serve", seconds=self.seconds, queue_seconds=self.queue_seconds, rate=self.rate)


class Access(NamedTuple):
    """Who may call a route: keys with one of `scopes`, or anyone where that is empty. An urgent one never waits.

    What anyone may call is answered at once: it takes no turn, and its body is not read.
    """

    scopes: tuple[str, ...] = ()
    is_urgent: bool = False


class Refusal(Exception):  # noqa: N818 - an answer, no fault of ours
    """Ends a request with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(WORDS[status])
        self.status = status


class Admission:
    """The application behind its checks; `routes` names the access of each path, any other path takes any key."""

    def __init__(
        self, app: ASGIApp, keys: Keys, settings: ApiSettings, routes: Mapping[str, Access], metrics: Metrics
    ) -> None:
        self.app, self.keys, self.settings, self.routes, self.metrics = app, keys, settings, routes, metrics
        self.turns = Turns(settings.concurrency, settings.queue_seconds)
        self.pending: Counter[tuple[str, str]] = Counter()  # (kind, whose) -> requests that are not answered yet
        self._buckets: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, request = time.perf_counter(), uuid.uuid4().hex
        REQUEST.set(request)
        answer = _Answer(send, request, _promises_body(scope))
        try:
            await self._serve(scope, receive, answer)
        except Refusal as refusal:
            if refusal.status == 429:
                await asyncio.sleep(REFUSAL_SECONDS)
            await answer.refuse(refusal.status)
        except Exception:
            log.exception("request failed")
            await answer.refuse(500)
        route = scope["path"] if scope["path"] in self.routes else "other"
        seconds = time.perf_counter() - started
        self.metrics.request(route, answer.status, seconds)
        entry = {"route": route, "status": answer.status, "ms": round(1000 * seconds, 3), "key": scope.get("key")}
        log.info("request", extra=entry)

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        # An unknown path needs a key too, so that a stranger cannot tell which routes exist.
        access = self.routes.get(scope["path"], Access(("read", "trade", "admin")))
        if not access.scopes:
            await self._answer(scope, _replay(b"", receive), answer)
            return
        key = self._key(scope)
        scope["key"] = key.name
        if not set(access.scopes) & set(key.scopes):
            raise Refusal(403)
        # A halt is never refused for its rate: it must work when everything else is too much.
        if not access.is_urgent:
            self._count(key)
        # Counted before the body is read: slow uploads are what would pile up.
        with self._count_pending(scope, key, access):
            body = await self._body(scope, receive)
            answer.is_unread = False
            if access.is_urgent:
                await self._answer(scope, _replay(body, receive), answer)
                return
            async with self.turns.turn(key.id):
                await self._answer(scope, _replay(body, receive), answer)

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            async with asyncio.timeout(self.settings.seconds):
                await self.app(scope, receive, answer)
        except TimeoutError as problem:
            raise Refusal(504) from problem

    @contextmanager
    def _count_pending(self, scope: Scope, key: Key, access: Access) -> Iterator[None]:
        """Count a request as pending for its key and its address; a halt counts apart, and for its key alone."""
        address = (scope.get("client") or ("",))[0]
        whose = [("urgent", key.id)] if access.is_urgent else [("key", key.id), ("address", address)]
        if any(self.pending[each] >= self.settings.pending for each in whose):
            raise Refusal(429)
        self.pending.update(whose)
        try:
            yield
        finally:
            self.pending.subtract(whose)
            for each in whose:
                if not self.pending[each]:
                    del self.pending[each]

    def _key(self, scope: Scope) -> Key:
        """Whose token the one Authorization header holds."""
        # Two Authorization headers are refused: proxies differ in which of them they forward.
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
        is_admitted = level >= 1.0
        # A refusal takes nothing: a key that asks faster than `rate` is served at `rate`.
        self._buckets[key.id] = (level - is_admitted, now)
        if not is_admitted:
            raise Refusal(429)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """All of the body; refuses one above the limit as soon as its header or its bytes show it."""
        # The promise is checked first, and the body itself again while it arrives: a promise may be false.
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not length.isdigit():
            raise Refusal(400)
        if len(length) > MOST_DIGITS or int(length) > self.settings.max_body_bytes:
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


class Turns:
    """At most `most` at a time, the rest queued fairly by key; one that would wait longer than `seconds` is refused.

    The wait is estimated from how long recent turns took, so the queue is never longer than can be served in time.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self.active = 0
        self.waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._mean_seconds = 0.0  # of a turn, newer ones weighing more

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait for a turn of `key`; refuses with 429."""
        # Who comes while others wait queues up behind them, even if a turn is free this moment.
        if self.active >= self.most or self.waiting:
            await self._wait(key)
        else:
            self.active += 1
        started = time.monotonic()
        try:
            yield
        finally:
            self._mean_seconds += TURN_WEIGHT * (time.monotonic() - started - self._mean_seconds)
            self._pass_on()

    async def _wait(self, key: str) -> None:
        queue = self.waiting.get(key, ())
        # Keys take turns: at most one of each other key comes before each of mine, and never more than wait in all.
        before = min((len(queue) + 1) * len({*self.waiting, key}), 1 + sum(map(len, self.waiting.values())))
        if before * self._mean_seconds / self.most > self.seconds:
            raise Refusal(429)
        turn = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(key, deque()).append(turn)
        try:
            async with asyncio.timeout(self.seconds):
                await turn
        except BaseException as problem:
            # The turn was given while this caller gave up: it goes to the next, or a place would be lost for good.
            if turn.done() and not turn.cancelled():
                self._pass_on()
            else:
                self._leave_queue(key, turn)
            raise Refusal(429) if isinstance(problem, TimeoutError) else problem from problem

    def _pass_on(self) -> None:
        """Give a turn that ended to the key that has waited longest since its last."""
        self.active -= 1
        while self.waiting and self.active < self.most:
            key = next(iter(self.waiting))
            queue = self.waiting.pop(key)
            turn = queue.popleft()
            if queue:
                self.waiting[key] = queue  # behind all others
            if not turn.done():  # one whose time is over has not left yet
                self.active += 1
                turn.set_result(None)

    def _leave_queue(self, key: str, turn: asyncio.Future[None]) -> None:
        queue = self.waiting.get(key)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self.waiting[key]


def _promises_body(scope: Scope) -> bool:
    headers = {name: value for name, value in scope["headers"] if name in (b"content-length", b"transfer-encoding")}
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b"0") != b""


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body in one piece, then whatever comes: a disconnect."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message


class _Answer:
    """A send that adds our headers, and remembers the status; what leaves a body unread ends the connection."""

    def __init__(self, send: Send, request: str, is_unread: bool) -> None:
        self.send, self.status, self.is_unread = send, 0, is_unread
        self.headers = [*HEADERS, (b"x-request-id", request.encode())]

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            closing = [(b"connection", b"close")] if self.is_unread else []
            message["headers"] = [*message.get("headers", ()), *self.headers, *closing]
        await self.send(message)

    async def refuse(self, status: int) -> None:
        """Send the status with its message, unless a response has started; the rest of the body is not read."""
        if self.status:
            return
        body = json.dumps({"error": WORDS[status]}).encode()
        more = {401: [(b"www-authenticate", b"Bearer")], 429: [(b"retry-after", b"1")]}.get(status, [])
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": status, "headers": [*headers, *more]})
        await self({"type": "http.response.body", "body": body})
