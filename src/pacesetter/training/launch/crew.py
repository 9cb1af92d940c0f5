"""A crew of workers: a task goes to the first that is free, and that of a worker which dies goes to another.

A worker is this process, one beside it, or a Ray actor that holds cores and GPUs of any machine. All take a function
and give a future, so that one coordinator serves them; none is given a task before it has said that it is there.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from pacesetter.envs.batch.threads import use_threads
from pacesetter.errors import RunError
from pacesetter.training.launch.assignment import InterruptedRunError

__all__ = ["ActorWorker", "Crew", "ProcessWorker", "ThisProcess", "TrackedTask", "Worker"]

Task = TypeVar("Task")
Result = TypeVar("Result")
Answer = tuple[Any, Exception | None]  # what a worker says of a task: its result, or what it raised
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


class Worker(Protocol):
    """Runs one function at a time; a future that fails means that the worker is lost."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Begin, and give what will be its result."""

    def dismiss(self) -> None:
        """End it, whatever it does."""


@dataclass
class Post:
    """A hired worker, its name once it has begun, and the job it has."""

    worker: Worker
    name: str = ""
    job: TrackedTask[Any, Any] | None = None


class Crew:
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
        jobs: list[TrackedTask[Task, Result]] = [TrackedTask(task) for task in tasks]
        waiting = deque(jobs)
        try:
            while left := sum(not job.is_settled for job in jobs):
                self._hire(min(self.size, left))
                while waiting and self.free:
                    self._give(self.free.popleft(), waiting.popleft(), function)
                for future in wait(self.busy, TICK_SECONDS, FIRST_COMPLETED).done:
                    waiting.extendleft(self._hear(future))  # what was begun comes first
                watch(jobs)
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

    def _hire(self, wanted: int) -> None:
        for _ in range(wanted - len(self.free) - len(self.busy)):
            post = Post(self.hire())
            self.busy[post.worker.submit(_answer, _begin, os.getcwd())] = post

    def _give(self, post: Post, job: TrackedTask[Any, Any], function: Callable[[Any], Any]) -> None:
        post.job, job.state, job.worker = job, "running", post.name
        job.tries += 1
        self.busy[post.worker.submit(_answer, function, job.task)] = post

    def _hear(self, future: Future[Answer]) -> list[TrackedTask[Any, Any]]:
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
            if self.lost_at_start > self.retries:
                raise RunError(f"{self.lost_at_start} workers died before they started: {problem}") from problem
            return []
        if job.tries <= self.retries:
            job.state = "waiting"
            return [job]
        job.settle(None, problem if isinstance(problem, InterruptedRunError) else _given_up(job.tries, problem))
        return []


def _raise_first(jobs: Sequence[TrackedTask[Any, Any]]) -> None:
    for job in jobs:
        if job.error is not None:
            raise job.error


def _given_up(tries: int, problem: Exception) -> RunError:
    error = RunError(
        f"workers were killed {tries} times at the same task, often by lack of memory; lower launcher.workers or "
        "raise launcher.retries"
    )
    error.__cause__ = problem
    return error


# ---- what a worker does ---------------------------------------------------------------------------------------------


def _answer(function: Callable[..., Any], *arguments: Any) -> Answer:
    """The result, or what was raised, as it was: Ray would put its own picture of the stack around it."""
    try:
        return function(*arguments), None
    except Exception as problem:
        return None, problem


def _begin(folder: str) -> str:
    """Work in the coordinator's folder, where relative paths mean the same, and say who is there."""
    try:
        os.chdir(folder)
    except OSError as problem:
        host = socket.gethostname()
        raise RunError(f"{host} has no folder {folder}; start in a folder that all machines share") from problem
    return f"{socket.gethostname()}:{os.getpid()}"


# ---- the kinds of worker --------------------------------------------------------------------------------------------


class ThisProcess:
    """Does what it is given at once."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future

    def dismiss(self) -> None:
        """It stays."""


class ProcessWorker:
    """A process of this machine, which ends when this one does, with its share of the cores for compiled loops."""

    def __init__(self, threads: int = 1) -> None:
        before = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(1, context, initializer=_follow_parent, initargs=(threads,))
        self.pool.submit(os.getpid)  # starts the process
        self.processes = set(multiprocessing.active_children()) - before

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        try:
            return self.pool.submit(function, *arguments)
        except BrokenProcessPool as problem:  # it died while it was free
            future: Future[Any] = Future()
            future.set_exception(problem)
            return future

    def dismiss(self) -> None:
        for process in self.processes:
            process.kill()
        self.pool.shutdown(wait=False, cancel_futures=True)


def _follow_parent(threads: int) -> None:
    """End with the coordinator: a run must not be written by an orphan and by its successor."""
    use_threads(threads)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class ActorWorker:
    """A Ray actor with `cores` and `gpus` (a share of one, or whole ones) of its own, on any machine."""

    def __init__(self, ray: Any, cores: int, gpus: float) -> None:
        self.ray = ray
        self.actor = ray.remote(num_cpus=cores, num_gpus=gpus)(Hands).remote(cores)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = self.actor.work.remote(function, *arguments).future()
        return future

    def dismiss(self) -> None:
        self.ray.kill(self.actor)


class Hands:
    """What runs in the actor's process, which has so many cores."""

    def __init__(self, cores: int = 1) -> None:
        use_threads(cores)

    def work(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Do it."""
        return function(*arguments)
