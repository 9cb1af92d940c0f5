"""One writer to a folder: a lock that the system gives back however its holder ends, with a note of who that is."""

from __future__ import annotations

import errno
import json
import logging
import os
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from pacesetter.errors import RunError

__all__ = ["LOCK", "NOTE", "hold"]

LOCK = ".lock"  # in the folder; it is there while somebody writes, and after a holder that was killed
NOTE = ".holder"  # ends the name of the file beside it that says who holds it: a locked file cannot be read on Windows
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)  # e.g. a network drive
log = logging.getLogger(__name__)


@contextmanager
def hold(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Be the only one to write to a folder; refuses at once, by process, host and time, where somebody else is.

    A lock that a killed process left is taken over, and said.
    """
    with warnings.catch_warnings():  # where the system has no locks, filelock says that the file alone is one
        warnings.simplefilter("ignore")
        from filelock import FileLock, Timeout  # 40 ms that commands without a lock need not pay
    path, note = folder / name, folder / f"{name}{NOTE}"
    lock = FileLock(path, timeout=0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lock.acquire()
    except Timeout:
        raise RunError(
            f"{folder} is in use by {_holder(note) or 'another process'}; wait for it to end, or end it"
        ) from None
    except OSError as problem:
        if problem.errno not in WITHOUT_LOCKS:
            raise
        log.warning("%s cannot be locked here (%s); see to it that only one process writes", path, problem.strerror)
    try:
        _warn_of_stale(path, note)
        _sign(note)
        yield
    finally:
        for file in (note, path):
            with suppress(OSError):  # while it is still ours, so that no other process's file is removed
                file.unlink()
        lock.release()
        if os.name == "nt":  # where a file that is open stays
            with suppress(OSError):
                path.unlink()


def _warn_of_stale(path: Path, note: Path) -> None:
    holder = _holder(note)
    if holder:
        log.warning("%s was left by %s, which did not end by itself; it is taken over", path, holder)


def _sign(note: Path) -> None:
    words = " ".join((Path(sys.argv[0]).name, *sys.argv[1:]))[:200]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"process": os.getpid(), "host": platform.node(), "since": now, "command": words}
    with suppress(OSError):  # a full disk: the lock holds without its note
        note.write_text(json.dumps(content), encoding="utf-8")


def _holder(note: Path) -> str:
    """Who signed the lock; empty if unsigned."""
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
        return f"process {content['process']} on {content['host']} since {content['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
