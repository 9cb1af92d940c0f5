"""Waiting for an answer that may take long, while somebody looks at the kill switch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from pacesetter.errors import RunError

__all__ = ["MOST_SECONDS", "await_answer"]

T = TypeVar("T")

WATCH_SECONDS = 0.25  # between two calls of `meanwhile`
MOST_SECONDS = 300.0  # that one answer may take


def await_answer(call: Callable[[], T], meanwhile: Callable[[], None], name: str) -> T:
    """The result of a call on a thread of its own; `meanwhile` runs here until it comes.

    The thread does not keep the process from ending. One that never comes, from who is called `name`, is refused.
    """
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as problem:  # raised again where it is awaited
            answer.set_exception(problem)

    threading.Thread(target=work, daemon=True).start()
    end = time.monotonic() + MOST_SECONDS
    while not wait((answer,), WATCH_SECONDS).done:
        meanwhile()
        if time.monotonic() > end:
            raise RunError(f"{name} did not finish answering in {MOST_SECONDS:g} s; check it, then resume")
    return answer.result()
