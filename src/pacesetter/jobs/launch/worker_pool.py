"""A pool of workers: a task goes to the first that is free, and that of a worker which dies goes to another.

The kinds of worker are in `learning.workers`; none is given a task before it has said that it is there.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pacesetter.errors import RunError
from pacesetter.jobs.launch.assignment import InterruptedRunError
from pacesetter.learning.workers import Answer, Worker, attempt, import_once

__all__ = ["TrackedTask", "WorkerPool"]

Task = TypeVar("Task")
Result = TypeVar("Result")
TICK_SECONDS = 0.5  # between looks at the work where nothing happens


@dataclass
class TrackedTask(Generic[Task, Result]):
    """A task on its way: its result or error, the worker (host:process) that has or had it, and how many did."""

    task: Task
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    worker: str = ""
    tries: int = 0
    result: Result | None = None
    error: Exception | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in ("done", "failed")

    def settle(self, result: Result | None, error: Exception | None) -> None:
        """Keep what came of it."""
        self.result, self.error, self.state = result, error, "failed" if error else "done"


@dataclass
class Post:
    """A hired worker, its name once it has begun, and the job it has."""

    worker: Worker
    name: str = ""
    job: TrackedTask[Any, Any] | None = None


class WorkerPool:
    """Up to `size` workers, hired when there is work for them and kept until dismissed."""

    def __init__(self, hire: Callable[[], Worker], size: int, retries: int) -> None:
        self.hire, self.size, self.retries = hire, size, retries
        self.free: deque[Post] = deque()
        self.busy: dict[Future[Answer], Post] = {}
        self.lost_at_start = 0

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """`function` of every task, in the order of the tasks; the first error ends the work and is raised here."""
        jobs = self.settle(function, tasks, _raise_first)
        return [job.result for job in jobs]  # type: ignore[misc]  # without an error there is one

    def settle(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        watch: Callable[[Sequence[TrackedTask[Task, Result]]], None],
    ) -> list[TrackedTask[Task, Result]]:
        """Every task done or failed, taken in the order given; `watch` sees all jobs again and again meanwhile."""
        import_once(function)
        jobs: list[TrackedTask[Task, Result]] = [TrackedTask(task) for task in tasks]
        waiting = deque(jobs)
        try:
            while left := sum(not job.is_settled for job in jobs):
                # No more workers than open tasks: starting a process takes seconds.
                self._start_workers(min(self.size, left))
                while waiting and self.free:
                    self._give(self.free.popleft(), waiting.popleft(), function)
                for future in wait(self.busy, TICK_SECONDS, FIRST_COMPLETED).done:
                    waiting.extendleft(self._take_answer(future))  # what was begun comes first
                watch(jobs)
        # Ctrl-C and SystemExit too: workers must not outlive the coordinator.
        except BaseException:
            self.dismiss()
            raise
        return jobs

    def dismiss(self) -> None:
        """End all workers and what they do."""
        for post in [*self.free, *self.busy.values()]:
            post.worker.dismiss()
        self.free.clear()
        self.busy.clear()

    def _start_workers(self, wanted: int) -> None:
        for _ in range(wanted - len(self.free) - len(self.busy)):
            post = Post(self.hire())
            self.busy[post.worker.submit(attempt, _begin, os.getcwd())] = post

    def _give(self, post: Post, job: TrackedTask[Task, Result], function: Callable[[Task], Result]) -> None:
        post.job, job.state, job.worker = job, "running", post.name
        job.tries += 1
        self.busy[post.worker.submit(attempt, function, job.task)] = post

    def _take_answer(self, future: Future[Answer]) -> list[TrackedTask[Any, Any]]:
        """Take a worker's answer; its job comes back where another worker is to have it."""
        post = self.busy.pop(future)
        job, post.job = post.job, None
        try:
            result, error = future.result()
        except Exception as problem:
            return self._lose(post, job, problem)
        if isinstance(error, InterruptedRunError):  # the worker was told to stop, not the work
            return self._lose(post, job, error)
        if job is not None:
            job.settle(result, error)
        elif error is not None:
            raise error
        else:
            post.name = result
        self.free.append(post)
        return []

    def _lose(self, post: Post, job: TrackedTask[Any, Any] | None, problem: Exception) -> list[TrackedTask[Any, Any]]:
        post.worker.dismiss()
        if job is None:
            self.lost_at_start += 1
            # Workers that never start, e.g. where memory is short, would otherwise be hired for ever.
            if self.lost_at_start > self.retries:
                raise RunError(f"{self.lost_at_start} workers died before they started: {problem}") from problem
            return []
        if job.tries <= self.retries:
            job.state = "waiting"
            return [job]
        job.settle(None, problem if isinstance(problem, InterruptedRunError) else _lasting_failure(job.tries, problem))
        return []


def _raise_first(jobs: Sequence[TrackedTask[Task, Result]]) -> None:
    for job in jobs:
        if job.error is not None:
            raise job.error


def _lasting_failure(tries: int, problem: Exception) -> RunError:
    error = RunError(
        f"workers were killed {tries} times at the same task, often by lack of memory; lower launcher.workers or "
        "raise launcher.retries"
    )
    error.__cause__ = problem
    return error


# ---- what a worker does ---------------------------------------------------------------------------------------------


def _begin(folder: str) -> str:
    """Work in the coordinator's folder, where relative paths mean the same, and say who is there."""
    try:
        os.chdir(folder)
    except OSError as problem:
        host = socket.gethostname()
        raise RunError(f"{host} has no folder {folder}; start in a folder that all machines share") from problem
    return f"{socket.gethostname()}:{os.getpid()}"
