"""A process beside the server that answers one call at a time, within a time and a memory that are given."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import TimeoutError as Late
from importlib import import_module
from threading import Lock
from typing import Any

from pacesetter.errors import ConfigError, PacesetterError
from pacesetter.learning.workers import ProcessWorker

__all__ = ["BoundedWorker"]

START_SECONDS = 300.0  # for imports on a busy machine; they read nothing of the user's
GIB = 2**30


class BoundedWorker:
    """Calls functions in a worker that is ended when it takes too long, and started again for the next call.

    seconds   of one call        memory   bytes of the worker's data, 0 for no limit; only where the system limits it
    imports   a module that the worker imports before either is counted
    """

    def __init__(self, seconds: float, memory: int, imports: str = __name__) -> None:
        self.seconds, self.memory, self.imports = seconds, memory, imports
        self._one_at_a_time = Lock()
        self._worker: ProcessWorker | None = None
        self._scratch = tempfile.TemporaryDirectory(prefix="pacesetter-mcp-")

    def call(self, function: Callable[..., dict[str, Any]], *arguments: object) -> dict[str, Any]:
        """What the function gives; refuses in a sentence what it refuses, and what goes beyond a bound."""
        with self._one_at_a_time:
            try:
                kind, answer = self._ready().submit(_attempt, function, *arguments).result(self.seconds)
            except Late:
                self._end()
                raise ConfigError(
                    f"the call took longer than {self.seconds:g} s and was stopped; give fewer bars, symbols or "
                    "copies, or start the server with a larger --seconds"
                ) from None
            except EOFError:
                self._end()
                kind, answer = "refused", "the call ended without an answer, as where memory runs out; give fewer bars"
        if kind == "memory":
            raise ConfigError(
                f"the call needs more memory than the {self.memory / GIB:g} GB it may have; give fewer bars or "
                "symbols, or start the server with a larger --memory"
            )
        if kind == "refused":
            raise ConfigError(str(answer))
        assert isinstance(answer, dict)
        return answer

    def close(self) -> None:
        """End the worker, whatever it does, and remove what it wrote."""
        self._end()
        self._scratch.cleanup()

    def _ready(self) -> ProcessWorker:
        if self._worker is None:
            worker = ProcessWorker()
            try:
                worker.submit(_settle, self.memory, self._scratch.name, self.imports).result(START_SECONDS)
            except BaseException:  # one without its bounds must not answer
                worker.dismiss()
                raise
            self._worker = worker
        return self._worker

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.dismiss()
            self._worker = None


def _settle(memory: int, folder: str, imports: str) -> None:
    """Make a process quiet, which has the protocol's own output, and keep it in its folder and its memory."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.chdir(folder)
    tempfile.tempdir = folder  # what a call that is stopped leaves behind goes with the folder
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    import_module(imports)
    if memory and sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _attempt(function: Callable[..., dict[str, Any]], *arguments: object) -> tuple[str, Any]:
    """Its answer, or the sentence of what it refused: an exception of a library may not survive the way back."""
    try:
        return "answer", function(*arguments)
    except PacesetterError as problem:
        return "refused", str(problem)
    except MemoryError:
        return "memory", None
    except RuntimeError as problem:  # compiled libraries have no MemoryError of their own
        return ("memory", None) if "memory" in str(problem) or "alloc" in str(problem) else ("refused", _name(problem))
    except Exception as problem:
        return "refused", _name(problem)


def _name(problem: Exception) -> str:
    return f"{type(problem).__name__}: {next(iter(str(problem).splitlines()), '')[:200]}"
