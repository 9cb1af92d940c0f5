"""How the kernel is compiled: helpers that stay plain Python, and the options both compilers share.

Rows are only borrowed, so reference counting is off, divisions are guarded by the code itself, and helpers are
inlined: without these three options a step takes tens of times longer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pacesetter.compiled import before_compiling, njit, register_jitable

__all__ = ["SOURCE_DIGEST", "compile_for_cpu", "jitable", "prefetch", "seldom", "source_digest"]

# numba.cuda, imported by `cuda.py` after this module, asks for a name that NumPy 2.5 has dropped.
vars(np).setdefault("row_stack", np.vstack)

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

Function = TypeVar("Function", bound=Callable[..., object])

jitable: Callable[[Function], Function] = register_jitable(forceinline=True, **_OPTIONS)
# For what most accounts never do: it stays out of their loop.
seldom: Callable[[Function], Function] = register_jitable(**_OPTIONS)


def compile_for_cpu(function: Function, *, parallel: bool = False) -> Function:
    """`function` compiled by numba and cached on disk; a loop over `prange` uses all threads with `parallel`."""
    compiled: Function = njit(cache=True, parallel=parallel, **_OPTIONS)(function)
    return compiled


def prefetch(row: object) -> None:
    """Ask the processor for the memory where an array begins, in a loop that is compiled for the CPU."""


def _prefetch(typing: object, row: Any) -> Any:
    from numba import types

    def emit(context: Any, builder: Any, signature: object, arguments: Any) -> Any:
        cgutils, ir = import_module("numba.core.cgutils"), import_module("llvmlite.ir")  # neither has type hints
        start = builder.bitcast(context.make_array(row)(context, builder, arguments[0]).data, cgutils.voidptr_t)
        whole = ir.IntType(32)
        of_llvm = ir.FunctionType(ir.VoidType(), (start.type, whole, whole, whole))
        call = cgutils.get_or_insert_function(builder.module, of_llvm, "llvm.prefetch.p0")
        builder.call(call, (start, whole(0), whole(3), whole(1)))  # to read, into every level, of data
        return context.get_dummy_value()

    return types.none(row), emit


def _compile_prefetch() -> None:
    from numba.extending import intrinsic, overload

    instruction: Any = intrinsic(_prefetch)
    options: Any = _OPTIONS | {"forceinline": True}
    overload(prefetch, jit_options=options)(lambda row: lambda row: instruction(row))


before_compiling(_compile_prefetch)


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
