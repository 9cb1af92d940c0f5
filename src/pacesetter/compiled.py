"""Functions that numba compiles at their first call: numba, which takes a fifth of a second, is imported then only.

`njit`, `prange` and `register_jitable` mean what they do in numba. A function that is to be compiled is a `LateKernel`
until it is called; then numba is imported, and told of all that waits for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property, update_wrapper
from threading import RLock
from typing import Any, TypeVar

__all__ = ["LateKernel", "before_compiling", "load_numba", "njit", "prange", "register_jitable"]

Function = TypeVar("Function", bound=Callable[..., object])

_WAITING: list[Callable[[], object]] = []  # what numba is told before it compiles anything
_LOADING = RLock()


def prange(*bounds: int) -> range:
    """A range whose steps threads share where a function is compiled with `parallel`."""
    return range(*bounds)


class LateKernel:
    """A function that is compiled when it is first called; whatever else is asked of it, numba's dispatcher answers."""

    def __init__(self, function: Callable[..., object], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._function, self._options = function, options

    @cached_property
    def dispatcher(self) -> Any:
        """What numba makes of the function."""
        numba, names = load_numba(), self._function.__globals__
        if names.get("prange") is prange:
            names["prange"] = numba.prange  # which its compiler knows
        return numba.njit(**self._options)(self._function)

    def __call__(self, *args: object) -> object:
        return self.dispatcher(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of Python's own protocols, such as copying
            raise AttributeError(name)
        return getattr(self.dispatcher, name)


def njit(**options: Any) -> Callable[[Function], Function]:
    """Have a function compiled for the processor at its first call, with numba's options, e.g. `cache=True`."""

    def wait(function: Function) -> Function:
        kernel: Any = LateKernel(function, options)
        return kernel  # type: ignore[no-any-return]

    return wait


def register_jitable(**options: Any) -> Callable[[Function], Function]:
    """Let kernels call a function, which stays plain Python for everyone else."""

    def register(function: Function) -> Function:
        def tell() -> None:
            from numba.extending import register_jitable as register_with_numba

            (register_with_numba(**options) if options else register_with_numba)(function)

        before_compiling(tell)
        return function

    return register


def before_compiling(tell: Callable[[], object]) -> None:
    """Call `tell` before the first kernel is compiled: now, where numba is there already."""
    with _LOADING:
        _WAITING.append(tell)
    if "numba" in sys.modules:
        load_numba()


def load_numba() -> Any:
    """numba, told of all that waited for it."""
    import numba

    with _LOADING:
        while _WAITING:
            _WAITING.pop(0)()
    return numba


def _let_kernels_call_kernels() -> None:
    """Have numba take a kernel that another one names for its dispatcher."""
    from numba import types
    from numba.extending import typeof_impl

    typeof_impl.register(LateKernel)(lambda kernel, context: types.Dispatcher(kernel.dispatcher))


before_compiling(_let_kernels_call_kernels)
