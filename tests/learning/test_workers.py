"""Workers end as they should: a free process by itself, with its locks given back; one at work is killed."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import struct
import time
from multiprocessing.connection import Connection

import pytest

from pacesetter.errors import RunError
from pacesetter.learning.workers import ProcessWorker, ThisProcess, attempt

held = []


def take_lock() -> int:
    """Hold what a killed process would leave behind, as tqdm does."""
    held.append(multiprocessing.get_context("spawn").Lock())
    return len(held)


def test_a_free_process_ends_by_itself_and_a_busy_one_is_killed():
    free, busy = ProcessWorker(), ProcessWorker()
    assert free.submit(take_lock).result() == 1
    assert busy.submit(take_lock).result() == 1
    busy.submit(time.sleep, 600)
    for worker in (free, busy):
        worker.dismiss()
    assert exit_code(free.process) == 0
    assert exit_code(busy.process) != 0


def exit_code(process: multiprocessing.process.BaseProcess) -> int:
    """What a process ended with.

    A worker waits for its process in a thread of its own: where that is told of the end first, `join` returns before
    the code is known.
    """
    while process.exitcode is None:
        time.sleep(0.01)
    return process.exitcode


def die_within_an_answer() -> None:
    """Write the beginning of a message to whoever listens, as a process does that is killed while it answers."""
    for each in gc.get_objects():
        if type(each) is Connection and not each.closed and each.writable:
            os.write(each.fileno(), struct.pack("!i", 1_000) + b"part")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_while_it_answers_is_lost_and_not_waited_for():
    worker = ProcessWorker()
    assert worker.submit(os.getpid).result() != os.getpid()
    assert isinstance(worker.submit(die_within_an_answer).exception(timeout=60), Exception)
    with pytest.raises(Exception, match="ended"):
        worker.submit(os.getpid).result(timeout=60)
    worker.dismiss()


def unsendable() -> object:
    return lambda: None


def test_what_a_process_raises_or_cannot_send_is_the_answer_and_it_goes_on():
    worker = ProcessWorker()
    with pytest.raises(ValueError, match="invalid literal"):
        worker.submit(int, "x").result(timeout=60)
    with pytest.raises(RunError, match="cannot be sent between processes"):
        worker.submit(unsendable).result(timeout=60)
    with pytest.raises(Exception, match=r"(?i)pickle"):
        worker.submit(lambda: None).result(timeout=60)
    assert worker.submit(int, "7").result(timeout=60) == 7
    worker.dismiss()


def test_what_was_raised_is_the_answer():
    result, problem = ThisProcess().submit(attempt, int, "x").result()
    assert (result, type(problem)) == (None, ValueError)
