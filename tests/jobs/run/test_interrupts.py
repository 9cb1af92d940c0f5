"""SIGTERM: heard while something works, and then as before; what is said to who stops it."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.jobs.launch.workers import Launcher
from pacesetter.jobs.run.interrupts import exit_on_sigterm, on_sigterm, print_when_stopped
from pacesetter.runs import Run


def test_a_signal_is_heard_inside_and_the_old_answer_comes_back() -> None:
    heard: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    with on_sigterm(lambda: heard.append("outer")):
        with on_sigterm(lambda: heard.append("inner")):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert heard == ["inner", "outer"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_another_thread_leaves_the_answer_as_it_is() -> None:
    found: list[object] = []

    def work() -> None:
        with on_sigterm(lambda: None):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("number", "ends"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_that_comes_while_c_calls_back_is_not_lost(number: signal.Signals, ends: type[BaseException]) -> None:
    call_back = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))  # as Numba does while it compiles
    passed = []

    def work() -> None:
        call_back()
        passed.append("ctypes swallowed it")
        for _ in range(3000):
            time.sleep(0.01)

    with pytest.raises(ends), on_sigterm(exit_on_sigterm):
        work()
    assert passed


def test_a_launcher_ends_in_order() -> None:
    with pytest.raises(SystemExit, match="143"), Launcher().session():
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
def test_who_is_stopped_is_told_how_to_go_on_and_ends(
    console: Console, tmp_path: Path, ends: type[BaseException]
) -> None:
    run = Run.create(tmp_path, "try", {})
    with pytest.raises(ends), print_when_stopped(run, console, lambda: "try again"):
        raise ends
    assert (run.manifest["stopped"], run.manifest["finished"]) == ("interrupted", False)
    with print_when_stopped(run, console, lambda: "nothing"):
        assert "stopped" not in run.manifest  # it is at work again
    assert console.file.getvalue() == "stopped; try again\n"  # type: ignore[attr-defined]
