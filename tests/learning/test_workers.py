"""Workers end as they should: a free process by itself, with its locks given back; one at work is killed."""

from __future__ import annotations

import multiprocessing
import time

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
    assert [exit_code(process) for process in free.processes] == [0]
    assert all(exit_code(process) != 0 for process in busy.processes)


def exit_code(process: multiprocessing.process.BaseProcess) -> int:
    """What a process ended with.

    The pool waits for its process in a thread of its own: where that is told of the end first, `join` returns before
    the code is known.
    """
    while process.exitcode is None:
        time.sleep(0.01)
    return process.exitcode


def test_what_was_raised_is_the_answer():
    result, problem = ThisProcess().submit(attempt, int, "x").result()
    assert (result, type(problem)) == (None, ValueError)
