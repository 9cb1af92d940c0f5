"""Names for types of arrays; shapes stand in the docstrings of what takes and gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Array", "Booleans", "Dates", "DeviceArray", "Floats", "Integers", "Singles", "Values"]

Array: TypeAlias = NDArray[Any]  # of any kind of number
Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]
Dates: TypeAlias = NDArray[np.datetime64]
DeviceArray: TypeAlias = Array  # memory of a GPU, where it is a torch tensor; both have what is used of them
Values = TypeVar("Values", NDArray[Any], "Tensor")  # for functions that take NumPy arrays and torch tensors alike
