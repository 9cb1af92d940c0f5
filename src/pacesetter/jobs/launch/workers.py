"""Where independent tasks run: here, in processes or as Ray actors on many machines."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from pacesetter.errors import ConfigError
from pacesetter.jobs.launch.worker_pool import WorkerPool
from pacesetter.jobs.run.interrupts import exit_on_sigterm, on_sigterm
from pacesetter.learning.workers import START, ActorWorker, ProcessWorker, ThisProcess, ray_session

__all__ = ["Launcher"]

log = logging.getLogger(__name__)
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Launcher:
    """Where tasks run; the function and the tasks must pickle, and on a cluster all machines share the folder of work.

    name     local: this machine; ray: Ray, started here unless an address is given
    workers  tasks at a time; None is this process itself, or with Ray all that the machines' cores and GPUs hold
    address  of a Ray cluster, e.g. `auto` or `ray://head:10001`
    retries  how often a task is repeated whose worker died
    cores    that a worker on Ray holds
    gpus     that a worker on Ray holds: a share of one, e.g. 0.25, or whole ones
    """

    name: Literal["local", "ray"] = "local"
    workers: int | None = None
    address: str | None = None
    retries: int = 3
    cores: int = 1
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if (self.workers is not None and self.workers < 1) or self.retries < 0 or self.cores < 1:
            raise ConfigError(
                f"launcher.workers={self.workers} and launcher.cores={self.cores} must be at least 1, and "
                f"launcher.retries={self.retries} at least 0"
            )
        if self.gpus < 0 or (self.gpus > 1 and self.gpus % 1):
            raise ConfigError(f"launcher.gpus={self.gpus} must be a share of one GPU or a whole number of them")
        for key, value in (("address", self.address), ("gpus", self.gpus)):
            if value and self.name != "ray":
                raise ConfigError(f"launcher.{key}={value} is for Ray; add launcher=ray")

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """`function` of every task, in the order of the tasks; an error that it raises is raised here."""
        with self.session() as pool:
            return pool.run(function, tasks)

    @contextmanager
    def session(self) -> Iterator[WorkerPool]:
        """A pool that keeps its workers from call to call; SIGTERM ends them in order, and this process with 143."""
        # As many cores as the workers hold, where Ray is started here: the rest is left to the user.
        cores = self.workers and self.workers * self.cores
        cluster = ray_session(self.address, cores) if self.name == "ray" else nullcontext()
        with cluster as ray, on_sigterm(exit_on_sigterm):
            pool = self._make_pool(ray)
            try:
                yield pool
            finally:
                pool.dismiss()

    def _make_pool(self, ray: Any) -> WorkerPool:
        if self.name == "ray":
            slots = self.slots([node["Resources"] for node in ray.nodes() if node["Alive"]])
            return WorkerPool(partial(ActorWorker, ray, self.cores, self.gpus), self.workers or slots, self.retries)
        if self.workers is None:
            return WorkerPool(ThisProcess, 1, retries=0)
        cores = os.cpu_count() or 1
        if self.workers > cores:
            log.warning(
                "launcher.workers=%d share the %d cores of this machine; fewer may be faster", self.workers, cores
            )
        # Threads of all workers together fill the machine once: more would only take turns.
        share = max(cores // self.workers, 1)
        return WorkerPool(partial(ProcessWorker, share, START), self.workers, self.retries)

    def slots(self, machines: Sequence[Mapping[str, float]]) -> int:
        """Workers for which machines have `CPU` cores and `GPU`s; refuses none, as one would wait for them for ever."""
        slots = sum(self._count_fitting(machine.get("CPU", 0.0), machine.get("GPU", 0.0)) for machine in machines)
        if not slots:
            raise ConfigError(
                f"no machine of the Ray cluster has launcher.cores={self.cores} and launcher.gpus={self.gpus:g}; "
                "lower them"
            )
        return slots

    def _count_fitting(self, cores: float, gpus: float) -> int:
        """Those of one machine; a share of a GPU is never made up of two."""
        by_cores = int(cores / self.cores)
        if not self.gpus:
            return by_cores
        # Ray does not split a worker over two GPUs: of 0.4 each two fit on one, not two and a half.
        by_gpus = gpus * int(1 / self.gpus) if self.gpus <= 1 else gpus / self.gpus
        return min(by_cores, int(by_gpus))
