"""What SIGTERM and Ctrl-C do while something works, and what they leave in its manifest."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from rich.console import Console

from pacesetter.runs import Run

__all__ = ["exit_on_sigterm", "on_sigterm", "print_when_stopped"]

AGAIN_SECONDS = 0.1  # until a signal comes again that C has swallowed
ENDS = ("stopped", "failed")  # how a run ended that may be taken up again


def exit_on_sigterm() -> NoReturn:
    """End this process with what a shell gives to one that SIGTERM ended."""
    sys.exit(128 + signal.SIGTERM)


@contextmanager
def on_sigterm(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` when the signal comes; only the main thread can hear it, so that others go on as before."""
    # Python delivers signals to the main thread alone, and refuses handlers elsewhere.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: object) -> None:
        act()

    def send_again(lost: Any) -> None:
        # What C calls back cannot end the process, e.g. while Numba compiles: Python only reports its exceptions.
        if isinstance(lost.exc_value, (SystemExit, KeyboardInterrupt)):
            number = signal.SIGTERM if isinstance(lost.exc_value, SystemExit) else signal.SIGINT
            again = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
        else:
            report(lost)

    report, sys.unraisablehook = sys.unraisablehook, send_again
    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # None was set by a library, not by Python
        sys.unraisablehook = report


@contextmanager
def print_when_stopped(run: Run, console: Console, tell: Callable[[], str]) -> Iterator[None]:
    """Say how to go on where Ctrl-C, or the exit that SIGTERM asks for, ends the work; it ends all the same.

    The manifest says so, too, until the work is taken up again: then it forgets how it ended before.
    """
    # Taken up again: how it ended before is no longer true.
    run.write_json("manifest.json", {name: fact for name, fact in run.manifest.items() if name not in ENDS})
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        run.write_json("manifest.json", run.manifest | {"stopped": "interrupted"})
        console.print(f"stopped; {tell()}", highlight=False, markup=False, soft_wrap=True)
        raise
