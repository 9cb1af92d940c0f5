"""Element-wise functions that mean the same on a float, a NumPy array, a torch tensor, and inside numba.

A reward formula that uses only these and the operators of Python is written once and runs on all four. There is no
`if` on values in it: both sides of `where` are computed, so a divisor must be safe on both. Types are those of one
number, as numba compiles it.
"""

from __future__ import annotations

import math
import sys
from types import ModuleType

import numpy as np

from pacesetter.compiled import before_compiling
from pacesetter.market.jit import jitable

__all__ = ["exp", "has", "log1p", "maximum", "minimum", "namespace", "sqrt", "where"]


def namespace(values: object) -> ModuleType:
    """The module whose functions take `values`: torch for a tensor, NumPy for all else. Never imports torch."""
    # A tensor exists only where torch is loaded, so looking it up is enough and NumPy users never pay for it.
    return sys.modules["torch"] if type(values).__module__.startswith("torch") else np


def where(condition: bool, yes: float, no: float) -> float:
    """`yes` where `condition` holds, `no` elsewhere; two plain numbers give float64."""
    xp = namespace(condition)
    if xp is not np and isinstance(yes, (int, float)):
        yes = xp.full_like(condition, yes, dtype=xp.float64)  # torch would make float32 of two numbers
    chosen: float = xp.where(condition, yes, no)
    return chosen


def exp(values: float) -> float:
    """e^x."""
    result: float = namespace(values).exp(values)
    return result


def log1p(values: float) -> float:
    """log(1 + x)."""
    result: float = namespace(values).log1p(values)
    return result


def sqrt(values: float) -> float:
    """√x."""
    result: float = namespace(values).sqrt(values)
    return result


def has(flags: float, flag: int) -> bool:
    """True where the bit `flag`, a power of two, is set in `flags`, whole numbers stored as floats."""
    # Division instead of `&`: the ledger stores flags as floats.
    return flags // flag % 2 == 1


def _compile_for_one_number() -> None:
    """What numba compiles of each: the outer function takes types, the inner one values."""
    from numba.extending import overload

    overload(where)(lambda condition, yes, no: lambda condition, yes, no: yes if condition else no)
    overload(exp)(lambda values: lambda values: math.exp(values))
    overload(log1p)(lambda values: lambda values: math.log1p(values))
    overload(sqrt)(lambda values: lambda values: math.sqrt(values))
    overload(has)(lambda flags, flag: lambda flags, flag: (int(flags) & flag) != 0)


before_compiling(_compile_for_one_number)


@jitable
def minimum(values: float, high: float) -> float:
    """`values`, at most `high`."""
    return where(values > high, high, values)


@jitable
def maximum(values: float, low: float) -> float:
    """`values`, at least `low`."""
    return where(values < low, low, values)
