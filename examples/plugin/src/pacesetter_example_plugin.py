"""A feature from outside: where in its bar a symbol closes, 0 at the low and 1 at the high.

The arguments of the function name the panel fields it reads, as (symbol, bar) arrays of observed bars.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pacesetter.features import symbolwise

__all__ = ["close_in_range"]

Array = NDArray[np.float64]


def position_in_range(high: Array, low: Array, close: Array) -> Array:
    """(close − low) / (high − low); 0.5 for a bar without a range."""
    return np.where(high > low, (close - low) / (high - low), 0.5)


close_in_range = symbolwise("close_in_range", position_in_range, memory_bars=1)
