"""Numbers of the components that numba compiles, and the decorator that registers one.

A compiled function picks a formula by its number, because numba keeps a compiled function between processes only when
what it calls is fixed in the source.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias, TypeVar

from pacesetter.market.jit import jitable
from pacesetter.rewards.component import REWARDS, component

__all__ = ["Code", "Remembered", "register_formula"]

Formula = TypeVar("Formula", bound=Callable[..., object])
# what a formula with a state gives: its value, and the state of the next bar
Remembered: TypeAlias = tuple[float, tuple[float, ...]]


class Code(IntEnum):
    """The compiled components; the lower-case name is the registered one."""

    PNL = 0
    REALISED_PNL = 1
    COST = 2
    TIME = 3
    DIFFERENTIAL_SHARPE = 4
    DRAWDOWN = 5
    SIZING = 6
    HOLD = 7
    SIZE_MULTIPLIER = 8
    STAGED_EXIT = 9
    PYRAMIDING = 10
    CONTEXT_HOLD = 11
    REPETITION = 12
    PROFIT = 13
    RISK = 14
    ACTIVITY = 15
    TIMING = 16
    EXPLORATION = 17
    CONSISTENCY = 18
    MEAN_VARIANCE = 19
    VARIANCE = 20


def register_formula(*initial: float) -> Callable[[Formula], Formula]:
    """Decorator that registers a formula under its own name, with the state a fresh account has."""

    def file(formula: Formula) -> Formula:
        name = formula.__name__
        REWARDS.add(name, component(formula, initial, Code[name.upper()]))
        jitable(formula)
        return formula

    return file
