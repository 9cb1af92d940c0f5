"""Prices that no market has: a bar too far from the one before is refused before anything is booked at it."""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.market.bars import Bar
from pacesetter.panel import Panel

__all__ = ["check_jumps"]


def check_jumps(panel: Panel, bars: Array, jump_factor: float, newest: int = 1) -> None:
    """Refuse a price in the `newest` last of `bars` (time, symbol, Bar), the panel's, beyond the close before it.

    That is more than `jump_factor` times that close, or less than such a part. A first price is held against none, and
    0 is not a price.
    """
    tail = bars[-newest - 1 :]
    before, after = tail[:-1, :, Bar.CLOSE], tail[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        # High and low, not the close: stops inside the bar would fill at them.
        factors = np.maximum(after[..., Bar.HIGH] / before, before / after[..., Bar.LOW])
    broken = np.argwhere((before > 0.0) & (after[..., Bar.LOW] > 0.0) & (factors > jump_factor))
    if len(broken):
        row, k = broken[0]
        low, high = after[row, k, Bar.LOW], after[row, k, Bar.HIGH]
        price = high if high / before[row, k] > jump_factor else low
        raise DataError(
            f"'{panel.symbols[k]}' goes from {before[row, k]:g} to {price:g} in bar {panel.index[row - len(after)]}, "
            f"beyond guard.jump_factor={jump_factor:g}, and nothing was traded on it; correct the data, "
            "or raise the factor if the price is right"
        )
