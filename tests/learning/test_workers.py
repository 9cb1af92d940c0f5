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
        for process in worker.processes:
            process.join(240)
    assert [process.exitcode for process in free.processes] == [0]
    assert all(process.exitcode not in (None, 0) for process in busy.processes)


def test_what_was_raised_is_the_answer():
    result, problem = ThisProcess().submit(attempt, int, "x").result()
    assert (result, type(problem)) == (None, ValueError)
