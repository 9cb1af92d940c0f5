"""Connection limits below HTTP: a cap for each address and for all, and a deadline for idle ones.

A caller that sends half a header costs a descriptor. At a cap the oldest connection without an active request is
closed for the new one, so that a halt gets through whatever others hold open.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["BACKLOG", "Connections", "guarded_protocol", "most_connections"]

BACKLOG = 64  # connections that one turn of the event loop may accept before any of them is counted
RESERVED = 32  # descriptors for the kill switch, the books, logs and threads
FEWEST = 8
WITHOUT_LIMIT = 2**12  # where the system does not say
HAS_LIMITS = resource is not None
LINGER_SECONDS = 2.0  # for a caller to take the rest of an answer


def most_connections() -> int:
    """How many connections leave enough descriptors for everything else in this process."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if HAS_LIMITS else WITHOUT_LIMIT
    if HAS_LIMITS and limit == resource.RLIM_INFINITY:
        limit = WITHOUT_LIMIT
    # Out of descriptors, the process could open neither the kill switch nor its books.
    return max(limit - _open_descriptors() - BACKLOG - RESERVED, FEWEST)


def _open_descriptors() -> int:
    folder = Path("/dev/fd")
    return len(os.listdir(folder)) if folder.is_dir() else RESERVED


class Connections:
    """Open connections by address, oldest first; at a cap an idle one is closed, and without one the new is refused.

    A reverse proxy's address may have them all: it represents all callers behind it.
    """

    def __init__(self, most: int, most_of_address: int, proxy: str = "") -> None:
        self.most, self.most_of_address, self.proxy = most, most_of_address, proxy
        self._open: dict[str, dict[GuardedProtocol, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def admit(self, newcomer: GuardedProtocol, address: str) -> bool:
        """Count a new connection; false where it has to go."""
        same = self._open.get(address, {})
        is_full = len(same) >= self.most_of_address and address != self.proxy
        if is_full and not self._make_room(same):
            return False
        if len(self) >= self.most and not any(map(self._make_room, self._by_size())):
            return False
        self._open.setdefault(address, {})[newcomer] = None
        return True

    def forget(self, gone: GuardedProtocol, address: str) -> None:
        same = self._open.get(address, {})
        same.pop(gone, None)
        if not same:
            self._open.pop(address, None)

    def _by_size(self) -> list[dict[GuardedProtocol, None]]:
        """The address with most connections first: it pays for being greedy."""
        return sorted(self._open.values(), key=len, reverse=True)

    def _make_room(self, same: dict[GuardedProtocol, None]) -> bool:
        oldest = next((each for each in same if each.is_idle), None)
        if oldest is None:
            return False
        # `connection_lost` comes later; forgotten now, so that the newcomer's place is free at once.
        oldest.transport.abort()
        self.forget(oldest, oldest.address)
        return True


class GuardedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with an end to everything that it waits for: headers, a request, a caller that does not read.

    uvicorn limits idle connections only, and only until their next byte.
    """

    admitted: Connections
    header_seconds: float
    request_seconds: float
    address = ""
    _deadline: asyncio.TimerHandle | None = None
    _timed: Any = None  # the request that the deadline is of; None while headers are awaited

    @property
    def is_idle(self) -> bool:
        """Whether it has no active request."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self.admitted.admit(self, self.address):
            self._end_in(self.header_seconds)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.admitted.forget(self, self.address)
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # First, because it may start a request: whether the connection is idle is asked after it.
        super().data_received(data)
        if self.is_idle and (self._deadline is None or self._timed is not None):
            self._end_in(self.header_seconds)
        elif not self.is_idle and self._timed is not self.cycle:
            self._end_in(self.request_seconds, self.cycle)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop_waiting()
        if self.transport.is_closing():
            self._end_in(LINGER_SECONDS)
        elif not self.is_idle:  # one that was sent behind the first
            self._end_in(self.request_seconds, self.cycle)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._end_in(LINGER_SECONDS)

    def _end_in(self, seconds: float, request: object = None) -> None:
        self._stop_waiting()
        self._deadline, self._timed = self.loop.call_later(seconds, self.transport.abort), request

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._timed = None


def guarded_protocol(admitted: Connections, header_seconds: float, request_seconds: float) -> type[GuardedProtocol]:
    """The protocol of one server, whose connections share `admitted`."""
    limits = {"admitted": admitted, "header_seconds": header_seconds, "request_seconds": request_seconds}
    return type("ServerProtocol", (GuardedProtocol,), limits)
