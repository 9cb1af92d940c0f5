"""Fields of a result that are mostly one value, kept without it: few accounts trade every symbol at every bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from pacesetter.arrays import Array

__all__ = ["keep_sparse"]

DENSE = 0.5  # share of bars and symbols from which leaving out the rest saves too little

Result = TypeVar("Result")


def keep_sparse(**empty: float) -> Callable[[type[Result]], type[Result]]:
    """Keep the named fields (bar, symbol, …) of a dataclass where they are not all `empty`, a number or NaN.

    They are given and read as arrays, with the same values bit for bit but that −0 is 0. Where something was left out
    each reading makes a new array. A field that is None stays None.
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

    def __get__(self, result: object, kind: type) -> Array | None:
        kept = vars(result)[self.name]
        if kept is None:
            return None
        shape, places, cells = kept
        values: Array = cells
        if places is not None:
            values = np.full(shape, self.empty, cells.dtype)
            values.reshape(-1, *shape[2:])[places] = cells
        return values

    def __set__(self, result: object, values: Array | None) -> None:
        if values is None:
            vars(result)[self.name] = None
            return
        is_said = ~np.isnan(values) if np.isnan(self.empty) else values != self.empty
        cells = values.reshape(-1, *values.shape[2:])
        places = np.flatnonzero(is_said.reshape(len(cells), -1).any(axis=1))
        is_dense = len(places) >= DENSE * len(cells)
        vars(result)[self.name] = values.shape, *((None, values) if is_dense else (places, cells[places]))
