"""A disk that fails on request, for programs started with `failing_disk.c` before libc; and their children."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from pacesetter.errors import PacesetterError

__all__ = ["FAULTS", "REFUSED", "UNEXPECTED", "arm", "changes_of", "chosen_changes", "in_child", "sentence"]

FAULTS = {"full": (errno.ENOSPC, 0), "broken": (errno.EIO, 1), "read-only": (errno.EROFS, 0)}  # error, only once
REFUSED, UNEXPECTED = 3, 4
library = ctypes.CDLL(None)


def arm(folder: Path, change: int, fault: str) -> None:
    """Let the change of that number below the folder fail, and those after it unless the fault comes once."""
    code, is_once = FAULTS[fault]
    library.disk_arm(str(folder).encode(), ctypes.c_long(change), code, is_once)


def in_child(work: Callable[[], object]) -> int:
    """The exit code of a child process that does the work; refusals in a sentence have a code of their own."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except (PacesetterError, OSError) as problem:
            print(f"{type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
            os._exit(REFUSED)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(UNEXPECTED)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFSIGNALED(status), f"ended by signal {os.WTERMSIG(status)}"
    return os.waitstatus_to_exitcode(status)


def changes_of(folder: Path, work: Callable[[], object]) -> int:
    """How many changes below the folder the work makes on a good disk, in a child process."""
    reader, writer = os.pipe()

    def counted() -> None:
        library.disk_arm(str(folder).encode(), ctypes.c_long(0), 0, 0)
        work()
        os.write(writer, str(library.disk_count()).encode())

    assert in_child(counted) == 0
    return int(os.read(reader, 32))


def chosen_changes(changes: int, most: int) -> Iterator[int]:
    """All changes, or `most` of them, evenly spaced."""
    return iter(range(1, changes + 1)) if most >= changes else (1 + k * changes // most for k in range(most))


def sentence(fault: str, changes: int, ends: Counter[int]) -> str:
    """What was shown of a fault."""
    assert not ends[UNEXPECTED], f"{fault}: {ends[UNEXPECTED]} ended in an error that nobody expects"
    return f"{fault}: {ends.total()} of {changes} changes failed, {ends[REFUSED]} ended there, all equal in the end"
