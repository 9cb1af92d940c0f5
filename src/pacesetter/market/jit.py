"""How the kernel is compiled: helpers that stay plain Python, and the options both compilers share.

Rows are only borrowed, so reference counting is off, divisions are guarded by the code itself, and helpers are
inlined: without these three options a step takes tens of times longer.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

__all__ = ["SOURCE_DIGEST", "compile_for_cpu", "jitable", "source_digest"]

# numba.cuda, imported by `cuda.py` after this module, asks for a name that NumPy 2.5 has dropped.
vars(np).setdefault("row_stack", np.vstack)

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

jitable = register_jitable(forceinline=True, **_OPTIONS)


def compile_for_cpu(function: Any, *, parallel: bool = False) -> Any:
    """`function` compiled by numba and cached on disk; a loop over `prange` uses all threads with `parallel`."""
    return njit(cache=True, parallel=parallel, **_OPTIONS)(function)


def source_digest(*paths: Path) -> int:
    """A number that changes with any line of the given files.

    numba's cache looks only at the file of the compiled function, not at the helpers it calls; a closure over this
    number makes it part of the cache key, so that an edited kernel is never run from an old cache.
    """
    digest = hashlib.blake2b(digest_size=6)
    for path in paths:
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest(), "little")


SOURCE_DIGEST = source_digest(*sorted(Path(__file__).parent.glob("*.py")))
