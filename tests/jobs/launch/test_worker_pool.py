"""Crews: tasks in their order to the first free worker, what becomes of those whose workers die, and who is told."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from pacesetter.errors import RunError
from pacesetter.jobs.launch.assignment import InterruptedRunError
from pacesetter.jobs.launch.worker_pool import TrackedTask, WorkerPool
from pacesetter.learning.workers import ThisProcess


class Mortal:
    """A worker that dies of the task "die", and never begins where it is stillborn."""

    dismissed = 0

    def __init__(self, stillborn: bool = False) -> None:
        self.stillborn = stillborn

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.stillborn or "die" in arguments:
            future.set_exception(OSError("out of memory"))
        else:
            future.set_result(function(*arguments))
        return future

    def dismiss(self) -> None:
        Mortal.dismissed += 1


def name_it(task: str) -> str:
    if task == "refuse":
        raise RunError("no")
    if task == "stop":
        raise InterruptedRunError("stopped by a signal")
    return task.upper()


def test_failures_are_told_and_leave_the_others_be() -> None:
    seen: list[list[str]] = []

    def watch(jobs: Sequence[TrackedTask[str, str]]) -> None:
        seen.append([job.state for job in jobs])

    Mortal.dismissed = 0
    jobs = WorkerPool(Mortal, size=2, retries=1).settle(name_it, ["a", "die", "refuse", "stop", "b"], watch)
    assert [job.result for job in jobs] == ["A", None, None, None, "B"]
    assert [job.state for job in jobs] == ["done", "failed", "failed", "failed", "done"]
    assert [job.tries for job in jobs] == [1, 2, 1, 2, 1]  # an error of the task's own is final
    assert [str(job.error) for job in jobs][2:4] == ["no", "stopped by a signal"]
    assert "workers were killed 2 times" in str(jobs[1].error)
    assert jobs[0].worker.endswith(f":{os.getpid()}")
    assert Mortal.dismissed == 4
    assert seen[-1] == [job.state for job in jobs]
    assert seen[0] != seen[-1]


def test_tasks_are_taken_in_order_and_what_was_begun_comes_first() -> None:
    taken: list[str] = []

    def note(task: str) -> None:
        taken.append(task)
        if task == "first" and taken.count("first") < 2:
            raise InterruptedRunError("the machine goes")

    WorkerPool(ThisProcess, size=1, retries=1).run(note, ["first", "second", "third"])
    assert taken == ["first", "first", "second", "third"]


def test_workers_that_never_begin_are_given_up() -> None:
    with pytest.raises(RunError, match="3 workers died before they started: out of memory"):
        WorkerPool(lambda: Mortal(stillborn=True), size=1, retries=2).run(name_it, ["a"])


def test_a_worker_without_the_folder_of_work_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: str(tmp_path / "elsewhere"))
    with pytest.raises(RunError, match=r"has no folder .*elsewhere; start in a folder that all machines share"):
        WorkerPool(ThisProcess, size=1, retries=0).run(name_it, ["a"])


def test_workers_do_not_outlive_their_coordinator(tasks: Any, tmp_path: Path) -> None:
    code = (
        "import launch_tasks, pathlib; from pacesetter.jobs.launch.workers import Launcher\n"
        f"if __name__ == '__main__': Launcher(workers=1).run(launch_tasks.stay, [pathlib.Path({str(tmp_path)!r})])"
    )
    (tmp_path / "main.py").write_text(code)
    with subprocess.Popen([sys.executable, str(tmp_path / "main.py")], cwd=tmp_path) as coordinator:
        while not (marks := list(tmp_path.glob("pid-*"))):
            assert coordinator.poll() is None
            time.sleep(0.05)
        coordinator.kill()
    worker = Path("/proc", marks[0].name.removeprefix("pid-"))
    while worker.exists():  # one that outlives it ends this test by its time limit
        time.sleep(0.05)
