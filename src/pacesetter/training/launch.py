"""Independent tasks (seeds, folds, trials) here, in processes or on Ray; those of a killed worker run again."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pacesetter.errors import ConfigError, RunError

__all__ = ["Launcher"]

Task = TypeVar("Task")
Result = TypeVar("Result")
Work = Callable[[Task], Result]


@dataclass(frozen=True)
class Launcher:
    """Where tasks run; the function and the tasks must pickle, and on a cluster all machines share the run folder.

    name     local: processes of this machine; ray: Ray, started here unless an address is given
    workers  tasks at a time; one local worker is this process
    address  of a Ray cluster, e.g. `auto` or `ray://head:10001`
    retries  how often the tasks of killed workers are repeated
    """

    name: Literal["local", "ray"] = "local"
    workers: int = 1
    address: str | None = None
    retries: int = 3

    def __post_init__(self) -> None:
        if self.workers < 1 or self.retries < 0:
            raise ConfigError(
                f"launcher.workers={self.workers} must be at least 1 and launcher.retries={self.retries} at least 0"
            )
        if self.address and self.name != "ray":
            raise ConfigError(f"launcher.address={self.address} is a Ray cluster's; add launcher=ray")

    def run(self, function: Work[Task, Result], tasks: Sequence[Task]) -> list[Result]:
        """`function` of every task, in the order of the tasks; an error that it raises is raised here."""
        if self.name == "ray":
            return _on_ray(self, function, tasks)
        if self.workers == 1:
            return [function(task) for task in tasks]
        return _in_processes(self, function, tasks)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep what `run` would start for each call, as Ray takes seconds to start."""
        with _ray(self) if self.name == "ray" else nullcontext():
            yield


def _in_processes(launcher: Launcher, function: Work[Task, Result], tasks: Sequence[Task]) -> list[Result]:
    """A dead process breaks its whole pool, so what was not finished goes to a new one."""
    done: dict[int, Result] = {}
    for _ in range(launcher.retries + 1):
        with ProcessPoolExecutor(launcher.workers, multiprocessing.get_context("spawn")) as pool:
            left = {place: pool.submit(function, task) for place, task in enumerate(tasks) if place not in done}
            try:
                done |= dict(_finished(left))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # the first error ends the work
                raise
        if len(done) == len(tasks):
            return [done[place] for place in range(len(tasks))]
    raise _gave_up(launcher)


def _finished(futures: dict[int, Future[Result]]) -> Iterator[tuple[int, Result]]:
    for place, future in futures.items():
        with suppress(BrokenProcessPool):
            yield place, future.result()


def _on_ray(launcher: Launcher, function: Work[Task, Result], tasks: Sequence[Task]) -> list[Result]:
    with _ray(launcher) as ray:
        remote = ray.remote(num_cpus=1, max_retries=launcher.retries)(function)
        try:
            results: list[Result] = ray.get([remote.remote(task) for task in tasks])
        except ray.exceptions.RayTaskError as problem:
            raise problem.cause from problem  # the task's own error: one sentence, not Ray's picture of its stack
        except ray.exceptions.WorkerCrashedError as problem:
            raise _gave_up(launcher) from problem
    return results


@contextmanager
def _ray(launcher: Launcher) -> Iterator[Any]:
    """Ray as it runs already, at the address, or started here with its files in a temporary folder."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as problem:
        raise ConfigError("launcher=ray needs Ray: install pacesetter[ray], or take launcher=local") from problem
    if ray.is_initialized():
        yield ray
        return
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        here = {"num_cpus": launcher.workers, "include_dashboard": False, "_temp_dir": folder}
        _connect(ray, launcher.address, {} if launcher.address else here)
        try:
            yield ray
        finally:
            ray.shutdown()


def _connect(ray: Any, address: str | None, options: dict[str, Any]) -> None:
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
    except (ConnectionError, ValueError) as problem:
        raise ConfigError(
            f"no Ray answers at launcher.address={address}; start it, or leave the address out"
        ) from problem


def _gave_up(launcher: Launcher) -> RunError:
    return RunError(
        f"workers were killed {launcher.retries + 1} times, often for want of memory, and their tasks are unfinished; "
        "lower launcher.workers or raise launcher.retries"
    )
