"""One writer to a folder: a lock that the system gives back however its holder ends, with a note of who that is."""

from __future__ import annotations

import errno
import json
import logging
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from pacesetter.errors import RunError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["LOCK", "hold"]

LOCK = ".lock"  # in the folder; it is there while somebody writes, and after a holder that was killed
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)  # e.g. a network drive
log = logging.getLogger(__name__)


@contextmanager
def hold(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Be the only one to write to a folder; refuses at once, by process, host and time, where somebody else is.

    A lock that a killed process left is taken over, and said.
    """
    if fcntl is None:
        yield  # type: ignore[unreachable]  # on Windows it is reached
        return
    path = folder / name
    descriptor = _locked(path)
    try:
        _tell_stale(path, descriptor)
        _sign(descriptor)
        yield
    finally:
        with suppress(OSError):  # while it is still ours, so that no other process's file is removed
            path.unlink()
        os.close(descriptor)


def _locked(path: Path) -> int:
    """An open lock file that is ours; one that its holder removed meanwhile is created again."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(descriptor, path)
            if _is_there(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        raise RunError(
            f"{path.parent} is in use by {_holder(descriptor) or 'another process'}; wait for it to end, or end it"
        ) from problem
    except OSError as problem:
        if problem.errno not in WITHOUT_LOCKS:
            raise
        log.warning("%s cannot be locked here (%s); see to it that only one process writes", path, problem.strerror)


def _is_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _tell_stale(path: Path, descriptor: int) -> None:
    holder = _holder(descriptor)
    if holder:
        log.warning("%s was left by %s, which did not end by itself; it is taken over", path, holder)


def _sign(descriptor: int) -> None:
    words = " ".join((Path(sys.argv[0]).name, *sys.argv[1:]))[:200]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    note = {"process": os.getpid(), "host": platform.node(), "since": now, "command": words}
    with suppress(OSError):  # a full disk: the lock holds without its note
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(note).encode(), 0)


def _holder(descriptor: int) -> str:
    """Who signed the lock; empty if unsigned."""
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {note['process']} on {note['host']} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
