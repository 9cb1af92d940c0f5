"""How far something long is: a bar on a terminal; in a log a line after three seconds, then one a minute.

A command that says nothing for long says that it is at work, after the same times of silence.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any, TextIO

from tqdm import tqdm

__all__ = ["LogLines", "count_progress", "say_long", "with_heartbeat"]

FIRST_SECONDS = 3.0  # below it nothing is said: it is not long
EVERY_SECONDS = 60.0


class LogLines:
    """Lines for a log: `title: done of total unit, time left`; at most one a minute, none for what is short.

    What has no end has a total of None, and no time left.
    """

    def __init__(
        self,
        title: str,
        total: int | None,
        unit: str,
        write: Callable[[str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        done: int = 0,
    ) -> None:
        self.title, self.total, self.unit, self.clock = title, total, unit, clock
        self.write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self.started, self.first = clock(), done
        self.next = self.started + FIRST_SECONDS

    def update(self, done: int, note: str = "") -> None:
        """Where it is now; says it where it is time to."""
        now = self.clock()
        if now < self.next or (self.total is not None and done >= self.total):
            return
        self.next = now + EVERY_SECONDS
        line = f"{self.title}: {done:,}{self._ahead(done, now)}"
        self.write(f"{line}; {note}" if note else line)

    def _ahead(self, done: int, now: float) -> str:
        """Of how many, and how long the rest will take."""
        if self.total is None:
            return f" {self.unit}"
        rate = (done - self.first) / (now - self.started)
        left = f", {timedelta(seconds=round((self.total - done) / rate))} left" if rate > 0 else ""
        return f" of {self.total:,} {self.unit}{left}"


@contextmanager
def count_progress(title: str, total: int, unit: str, is_shown: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how many more are done. `is_shown` None decides by what stderr is."""
    if is_shown or (is_shown is None and sys.stderr.isatty()):
        with tqdm(total=total, desc=title, unit=unit, delay=0 if is_shown else 1) as bar:
            yield lambda more: _move_bar(bar, more)
        return
    lines, done = LogLines(title, total, unit if unit.endswith("s") else f"{unit}s"), 0

    def update(more: int) -> None:
        nonlocal done
        done += more
        if is_shown is None:
            lines.update(done)

    yield update


def say_long(what: str, seconds: float) -> None:
    """Say before it starts that something takes long; nothing where it does not."""
    if seconds >= FIRST_SECONDS:
        print(f"{what}, about {timedelta(seconds=round(seconds))}", file=sys.stderr, flush=True)


def _move_bar(bar: tqdm[None], more: int) -> None:
    bar.update(more)


# ---- silence ---------------------------------------------------------------------------------------------------------

SERVES = ("serve", "dashboard", "paper", "mcp")  # these wait for others: silence is not work


class TimedStream:
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
    streams = TimedStream(out), TimedStream(error)
    sys.stdout, sys.stderr = streams
    Thread(target=_beat, args=(command, streams, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()
        sys.stdout, sys.stderr = out, error


def _beat(command: str, streams: tuple[TimedStream, ...], done: Event) -> None:
    started = last_line = time.monotonic()
    # A log gets one line a minute, so that a command of seconds leaves its own lines alone.
    wait = FIRST_SECONDS if streams[-1].isatty() else EVERY_SECONDS
    while not done.wait(0.5):
        now = time.monotonic()
        if now - max(last_line, *(stream.last for stream in streams)) < wait:
            continue
        last_line, wait = now, EVERY_SECONDS
        streams[-1].write(f"{command}: at work for {now - started:.0f} s …\n")
        streams[-1].flush()
