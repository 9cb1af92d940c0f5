"""How much memory was used and is free, so that work that cannot fit is refused in one sentence before it starts."""

from __future__ import annotations

import importlib
import math
import sys
from importlib.util import find_spec
from pathlib import Path

from pacesetter.errors import DataError

try:
    import resource

    HAS_LIMITS = True
except ImportError:  # Windows has none
    HAS_LIMITS = False

__all__ = ["check_memory", "free_bytes", "peak_bytes"]

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")  # of a container


def free_bytes() -> float:
    """Bytes that this process may still take: of the machine, of its container, of its own limit; infinite if unknown.

    Free is what the system could give without swapping, caches of files counted as free.
    """
    return min(_machine(), _container(), _own_limit())


def peak_bytes() -> float:
    """The most memory that this process ever held; 0 where neither the system nor psutil tells."""
    if not HAS_LIMITS:
        if find_spec("psutil") is None:
            return 0.0
        return float(importlib.import_module("psutil").Process().memory_info().peak_wset)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most if sys.platform == "darwin" else most * 1024)  # in bytes there, in KiB elsewhere


def check_memory(needed: float, what: str, instead: str) -> None:
    """Refuse `what` where it needs more bytes than are free; `instead` says what to do."""
    free = free_bytes()
    if needed > free:
        raise DataError(
            f"{what} needs about {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free; {instead}"
        )


def _machine() -> float:
    try:
        fields = dict(line.split(":", 1) for line in MEMINFO.read_text(encoding="utf-8").splitlines())
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return math.inf


def _container() -> float:
    try:
        most, used = ((GROUP / name).read_text(encoding="utf-8") for name in ("memory.max", "memory.current"))
        return float(most) - float(used)  # "max" where there is no limit
    except (OSError, ValueError):
        return math.inf


def _own_limit() -> float:
    if not HAS_LIMITS:
        return math.inf
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return math.inf
    try:
        return float(
            most - int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        )
    except (OSError, ValueError):
        return float(most)
