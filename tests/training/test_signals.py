"""SIGTERM: heard while something works, and then as before."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from pacesetter.training.launch import Launcher
from pacesetter.training.signals import on_sigterm


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


def test_a_launcher_ends_in_order() -> None:
    with pytest.raises(SystemExit, match="143"), Launcher().session():
        os.kill(os.getpid(), signal.SIGTERM)
