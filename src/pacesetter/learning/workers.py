"""Where a function can run: in this process, in one beside it, or in a Ray actor that holds cores of any machine.

All kinds take a function and give a future, so that one coordinator serves them: the crew of `jobs.launch`, and
the line of rollouts of `methods.impala`.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from pacesetter.errors import ConfigError, RunError
from pacesetter.threads import use_threads

__all__ = [
    "START",
    "ActorWorker",
    "Answer",
    "ProcessWorker",
    "ThisProcess",
    "Worker",
    "attempt",
    "import_once",
    "ray_session",
]

# Not forked from this one: locks that threads of torch or Numba hold at that moment would stay locked in the child. A
# process that has imported and done nothing else is forked instead, where the system can: imports take seconds.
START = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
LEAVE_SECONDS = 30.0  # that a free process has to end by itself, which a busy machine may need
Result = TypeVar("Result")
Answer = tuple[Any, Exception | None]  # what a worker says of a task: its result, or what it raised
_Call = tuple[Future[Any], Callable[..., Any], tuple[object, ...]]


class Worker(Protocol):
    """Runs one function at a time; a future that fails means that the worker is lost."""

    def submit(self, function: Callable[..., Result], *arguments: object) -> Future[Result]:
        """Begin, and give what will be its result."""

    def dismiss(self) -> None:
        """End it, whatever it does."""


def attempt(function: Callable[..., object], *arguments: object) -> Answer:
    """The result, or what was raised, as it was: Ray would put its own picture of the stack around it."""
    try:
        return function(*arguments), None
    except Exception as problem:
        return None, problem


class ThisProcess:
    """Does what it is given at once."""

    def submit(self, function: Callable[..., Result], *arguments: object) -> Future[Result]:
        future: Future[Result] = Future()
        future.set_result(function(*arguments))
        return future

    def dismiss(self) -> None:
        """It stays."""


def import_once(function: Callable[..., object]) -> None:
    """Let processes that are started from here on find a module of ours imported, and the libraries that it needs.

    Only the first call counts: one process imports for all that follow. What it lacks each imports by itself.
    """
    is_ours = function.__module__.partition(".")[0] == __package__.partition(".")[0]
    if START == "forkserver" and is_ours:  # a user's module may have changed by the time the next process is started
        multiprocessing.get_context(START).set_forkserver_preload([__name__, function.__module__])


@contextmanager
def _same_modules() -> Iterator[None]:
    """Processes that are started meanwhile find the modules that this one would."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


class ProcessWorker:
    """A process of this machine, which ends when this one does, with its share of the cores for compiled loops.

    start   spawn: from nothing; START: from a process that has imported for all, see `import_once`

    Not a ProcessPoolExecutor: that one waits for the rest of an answer for ever where the process was killed while it
    wrote it. Here the process alone holds the other end of the line, so that the line ends with it.
    """

    def __init__(self, threads: int = 1, start: str = "spawn") -> None:
        context = multiprocessing.get_context(start)
        self.line, theirs = context.Pipe()
        self.process: Any = context.Process(target=_serve, args=(theirs, threads, dict(os.environ)))  # type: ignore[attr-defined]
        with _same_modules():
            self.process.start()
        theirs.close()
        self.tasks: SimpleQueue[_Call | None] = SimpleQueue()
        self.latest: Future[Any] | None = None
        threading.Thread(target=self._ask_in_turn, daemon=True).start()
        atexit.register(self.dismiss)  # before Python waits for its processes, which wait for work

    def submit(self, function: Callable[..., Result], *arguments: object) -> Future[Result]:
        self.latest = future = Future[Result]()
        self.tasks.put((future, function, arguments))
        return future

    def dismiss(self) -> None:
        atexit.unregister(self.dismiss)
        self.tasks.put(None)
        if self.latest is None or self.latest.done():
            # A free one ends by itself and gives its locks back; killed, Python would warn that they were leaked.
            self.process.join(LEAVE_SECONDS)
        self.process.kill()

    def _ask_in_turn(self) -> None:
        """Send one call after another and hand on the answers, until it is dismissed."""
        while (call := self.tasks.get()) is not None:
            future, *asked = call
            try:
                result, problem = self._answer(asked)
            except (EOFError, OSError):
                self.process.join(LEAVE_SECONDS)
                problem = EOFError(f"process {self.process.pid} ended with exit code {self.process.exitcode}")
            except Exception as unsent:  # what cannot be sent is known before anything of it is
                problem = unsent
            if problem is None:
                future.set_result(result)
            else:
                future.set_exception(problem)
        with suppress(OSError):
            self.line.send(None)

    def _answer(self, asked: list[Any]) -> tuple[Any, BaseException | None]:
        self.line.send(asked)
        wait([self.line, self.process.sentinel])
        if not self.line.poll():
            raise EOFError
        answer: tuple[Any, BaseException | None] = self.line.recv()
        return answer


def _serve(line: Connection, threads: int, environment: Mapping[str, str]) -> None:
    """Answer calls until there are no more."""
    _follow_parent(threads, environment)
    while (asked := line.recv()) is not None:
        function, arguments = asked
        answer: tuple[Any, BaseException | None]
        try:
            answer = function(*arguments), None
        except BaseException as problem:
            answer = None, problem
        try:
            line.send(answer)
        except Exception as problem:
            line.send((None, RunError(f"an answer cannot be sent between processes: {problem}; return plain data")))


def _follow_parent(threads: int, environment: Mapping[str, str]) -> None:
    """End with the coordinator: a run must not be written by an orphan and by its successor."""
    os.environ.update(environment)  # of the coordinator now, not of when the first process was started
    use_threads(threads)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        # sys.exit would end this thread alone.
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class ActorWorker:
    """A Ray actor with `cores` and `gpus` (a share of one, or whole ones) of its own, on any machine."""

    def __init__(self, ray: Any, cores: int, gpus: float) -> None:
        self.ray = ray
        self.actor = ray.remote(num_cpus=cores, num_gpus=gpus)(Hands).remote(cores)

    def submit(self, function: Callable[..., Result], *arguments: object) -> Future[Result]:
        future: Future[Result] = self.actor.work.remote(function, *arguments).future()
        return future

    def dismiss(self) -> None:
        self.ray.kill(self.actor)


class Hands:
    """What runs in the actor's process, which has so many cores."""

    def __init__(self, cores: int = 1) -> None:
        use_threads(cores)

    def work(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Do it."""
        return function(*arguments)


@contextmanager
def ray_session(address: str | None = None, cores: int | None = None) -> Iterator[object]:
    """Ray as it runs already, at the address, or started here with its files in a temporary folder.

    cores   that it may use when it is started here; None is all of them
    """
    # Before the import: Ray sends usage statistics unless it is told not to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as problem:
        raise ConfigError("Ray is not installed: install pacesetter[ray], or use launcher=local") from problem
    if ray.is_initialized():
        yield ray
        return
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        here = {"num_cpus": cores, "include_dashboard": False, "_temp_dir": folder}
        _connect(ray, address, {} if address else here)
        try:
            yield ray
        finally:
            ray.shutdown()


def _connect(ray: Any, address: str | None, options: dict[str, Any]) -> None:
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
    except (ConnectionError, ValueError) as problem:
        raise ConfigError(
            f"Ray does not answer at launcher.address={address}; start it, or leave the address out"
        ) from problem
