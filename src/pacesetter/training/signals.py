"""What SIGTERM and Ctrl-C do while something works."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

__all__ = ["on_sigterm", "told_when_stopped"]


@contextmanager
def on_sigterm(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` when the signal comes; only the main thread can hear it, so that others go on as before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, frame: Any) -> None:
        act()

    before = signal.signal(signal.SIGTERM, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # None was set by a library, not by Python


@contextmanager
def told_when_stopped(console: Console, tell: Callable[[], str]) -> Iterator[None]:
    """Say how to go on where Ctrl-C, or the exit that SIGTERM asks for, ends the work; it ends all the same."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        console.print(f"stopped; {tell()}", highlight=False, markup=False, soft_wrap=True)
        raise
