"""A command that says nothing for long says that it is at work: after three seconds, then every minute of silence."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TextIO

__all__ = ["with_heartbeat"]

FIRST_SECONDS, EVERY_SECONDS = 3.0, 60.0
SERVES = ("serve", "dashboard", "paper")  # these wait for others: silence is no work


class Heard:
    """A stream that remembers when it was written to last."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self.last = stream, time.monotonic()

    def write(self, text: str) -> int:
        self.last = time.monotonic()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def with_heartbeat(words: list[str]) -> Iterator[None]:
    """While it is open, lines on stderr whenever nothing was printed for long; none for commands that serve."""
    command = next((word for word in words if not word.startswith("-")), "")
    if not command or command in SERVES or "--help" in words or any(word.startswith("--show-comp") for word in words):
        yield
        return
    out, error, done = sys.stdout, sys.stderr, Event()
    streams = Heard(out), Heard(error)
    sys.stdout, sys.stderr = streams
    Thread(target=_beat, args=(command, streams, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()
        sys.stdout, sys.stderr = out, error


def _beat(command: str, streams: tuple[Heard, ...], done: Event) -> None:
    started = told = time.monotonic()
    wait = FIRST_SECONDS
    while not done.wait(0.5):
        now = time.monotonic()
        if now - max(told, *(stream.last for stream in streams)) < wait:
            continue
        told, wait = now, EVERY_SECONDS
        streams[-1].write(f"{command}: at work for {now - started:.0f} s …\n")
        streams[-1].flush()
