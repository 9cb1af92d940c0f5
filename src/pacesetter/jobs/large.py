"""`pacesetter data check` and `data features` on more bars than fit into memory: a budget, workers and progress."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pacesetter.build import Plan
from pacesetter.build.environments import leadlag_extra
from pacesetter.data.files.folder import Files
from pacesetter.data.files.stream import RunGroups, SymbolStream, check_stream, open_stream
from pacesetter.data.quality import Readiness
from pacesetter.errors import ConfigError
from pacesetter.features.store import bytes_of_bar, store_features
from pacesetter.features.table import FeatureTable, choose_features
from pacesetter.jobs.launch.worker_pool import TrackedTask, WorkerPool
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.jobs.pipeline.memory import MEGABYTE, peak_mb, reset_peak
from pacesetter.progress import count_progress

__all__ = ["DEFAULT_MEMORY", "LargeFiles", "megabytes"]

DEFAULT_MEMORY = "4GB"
LIBRARIES_MB = 300  # of a process: numba, pandas and Arrow
FIELDS = 6  # of a bar, before the files were looked at
CHECKED_BYTES = 150  # that one bar takes while it is checked
READ_BYTES = 400  # that one bar of the file which is being read takes: the table, its text or numbers, and the bars
UNITS = {"": 1, "MB": 1, "M": 1, "GB": 1024, "G": 1024}

Symbols = tuple[str, ...]
Result = TypeVar("Result")


def megabytes(text: str) -> int:
    """A size such as 4GB or 900MB in MB; a number alone is in MB."""
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if parts is None or parts[2].upper() not in UNITS or float(parts[1]) <= 0:
        raise ConfigError(f"--memory {text} is not a size; write it like 4GB or 900MB")
    return int(float(parts[1]) * UNITS[parts[2].upper()])


@dataclass
class LargeFiles:
    """Files that a configuration names, read some symbols at a time within a budget.

    memory     of all processes together, e.g. 4GB
    at_once    symbols in memory of a process; None: as many as the budget allows
    peak_mb    the most that all processes took, each at its own worst moment
    """

    config: Plan
    launcher: Launcher
    memory: str = DEFAULT_MEMORY
    at_once: int | None = None
    peak_mb: float = field(default=0.0, init=False)

    def check(self) -> Readiness:
        """What `data check` says of all symbols."""
        with self._open_pool() as pool:
            stream = self._stream(pool)
            at_once = self._symbols_at_once(len(stream.index), CHECKED_BYTES, len(stream.symbols))
            return check_stream(stream, at_once, self._run(pool, "check"))

    def features(self, folder: Path) -> FeatureTable:
        """The features of all symbols, stored in `folder`."""
        names = self.config.features.names or None
        with self._open_pool() as pool:
            stream = self._stream(pool)
            extra = leadlag_extra(self.config, stream.symbols)
            count = len(choose_features(stream.fields, names, extra)[0])
            size = bytes_of_bar(count, len(stream.fields))
            at_once = self._symbols_at_once(len(stream.index), size, len(stream.symbols))
            run = self._run(pool, "features")
            return store_features(stream, folder, at_once=at_once, features=names, extra=extra, run=run)

    def _stream(self, pool: WorkerPool) -> SymbolStream:
        source, loading = self.config.data.origin, self.config.data.loading
        if not isinstance(source, Files):
            raise ConfigError(f"data={self.config.data.source} has no files to read in parts; give a folder or a file")
        # Refused before anything is read; of a folder one file is read at a time, whatever is at once.
        at_once = self._symbols_at_once(source.bars_of_one(), bytes_of_bar(0, FIELDS), len(source.symbol_names()))
        return open_stream(source, loading, at_once, self._run(pool, "moments"))

    def _symbols_at_once(self, bars: int, bytes_of_one: int, symbols: int) -> int:
        """Symbols of so many bars that a process may hold, of `symbols` in all; refuses a budget below one."""
        processes = self.launcher.workers or 1
        others = LIBRARIES_MB if self.launcher.workers else 0  # this process, which waits for its workers
        fixed = others + processes * (LIBRARIES_MB + bars * READ_BYTES / MEGABYTE)
        one, budget = bars * bytes_of_one / MEGABYTE, megabytes(self.memory)
        fitting = int((budget - fixed) / processes / one) if budget > fixed else 0
        if fitting < 1:
            raise ConfigError(
                f"--memory {self.memory} is below one symbol: {bars:,} bars of it take about "
                f"{fixed + processes * one:,.0f} MB with the libraries{_of_workers(self.launcher)}"
            )
        fitting = min(fitting, self.at_once or fitting)
        # Even shares: as many rounds as the budget needs, and in each of them all workers have the same to do.
        rounds = math.ceil(symbols / (fitting * processes))
        return math.ceil(symbols / (rounds * processes))

    # ---- workers ------------------------------------------------------------------------------------------------

    @contextmanager
    def _open_pool(self) -> Iterator[WorkerPool]:
        reset_peak()
        with self.launcher.session() as pool:
            yield pool

    def _run(self, pool: WorkerPool, title: str) -> RunGroups:
        def run(function: Callable[[Symbols], Result], groups: Sequence[Symbols]) -> list[Result]:
            with count_progress(title, sum(map(len, groups)), "symbol") as update:
                jobs = pool.settle(partial(_measure_memory, function), groups, _Watch(update))
            self._note_peak(jobs)
            answers = (job.result for job in jobs if job.result is not None)  # all: an error was raised before
            return [result for result, _ in answers]

        return run

    def _note_peak(self, jobs: Sequence[TrackedTask[Symbols, tuple[Any, float]]]) -> None:
        worst: dict[str, float] = {}
        for job in jobs:
            if job.result is not None:
                worst[job.worker] = max(worst.get(job.worker, 0.0), job.result[1])
        own = peak_mb() if self.launcher.workers else 0.0  # without workers it is the one that was measured
        self.peak_mb = max(self.peak_mb, own + sum(worst.values()))


class _Watch:
    """Raises the first error, and counts the symbols that are done."""

    def __init__(self, update: Callable[[int], None]) -> None:
        self.update, self.done = update, 0

    def __call__(self, jobs: Sequence[TrackedTask[Symbols, Any]]) -> None:
        for job in jobs:
            if job.error is not None:
                raise job.error
        done = sum(len(job.task) for job in jobs if job.state == "done")
        self.update(done - self.done)
        self.done = done


def _measure_memory(function: Callable[[Symbols], Result], symbols: Symbols) -> tuple[Result, float]:
    """The result, and the most memory that this process had in use, in MB."""
    return function(symbols), peak_mb()


def _of_workers(launcher: Launcher) -> str:
    """What to do about it; of several workers each has a symbol of its own."""
    workers = launcher.workers or 1
    return f" in {workers} workers together; raise it, or lower launcher.workers" if workers > 1 else "; raise it"
