"""Fields of a result that are mostly one value, kept without those bars: most accounts do not trade at every bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from pacesetter.arrays import Array

__all__ = ["keep_sparse"]

DENSE = 0.5  # share of the bars from which leaving out the rest saves too little

Result = TypeVar("Result")


def keep_sparse(**empty: float) -> Callable[[type[Result]], type[Result]]:
    """Keep the named fields (bar, …) of a dataclass as their bars that are not all `empty`, a number or NaN.

    They are given and read as arrays, with the same values bit for bit but that −0 is 0. Where bars were left out each
    reading makes a new array.
    """

    def keep(kind: type[Result]) -> type[Result]:
        for name, value in empty.items():
            setattr(kind, name, _Sparse(f"_{name}", value))
        return kind

    return keep


class _Sparse:
    """One of the fields, kept under another name."""

    def __init__(self, name: str, empty: float) -> None:
        self.name, self.empty = name, empty

    def __get__(self, result: object, kind: type) -> Array:
        shape, places, rows = vars(result)[self.name]
        values: Array = rows
        if places is not None:
            values = np.full(shape, self.empty, rows.dtype)
            values[places] = rows
        return values

    def __set__(self, result: object, values: Array) -> None:
        is_said = ~np.isnan(values) if np.isnan(self.empty) else values != self.empty
        places = np.flatnonzero(is_said.reshape(len(values), -1).any(axis=1))
        is_dense = len(places) >= DENSE * len(values)
        vars(result)[self.name] = values.shape, *((None, values) if is_dense else (places, values[places]))
