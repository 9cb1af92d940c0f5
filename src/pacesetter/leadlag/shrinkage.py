"""What is left of a correlation that may be noise: each is shrunk towards 0 by a level that falls with the window."""

from __future__ import annotations

import math
from typing import Final

from pacesetter.compiled import njit

__all__ = ["DEFAULT_SHRINKAGE", "SHRINKAGE", "noise_level", "shrink"]

SHRINKAGE = ("hard", "soft", "garrote")
DEFAULT_SHRINKAGE: Final = "soft"  # of features, their configuration and what is worked out from either
HARD, SOFT = 0, 1  # places in SHRINKAGE, as compiled code reads them


def noise_level(lags: int, symbols: int, lookback: int) -> float:
    """About the largest of all correlations of pure noise with a symbol: Donoho and Johnstone's universal threshold."""
    return math.sqrt(2 * math.log(max(lags * (symbols - 1), 1)) / lookback)


@njit(cache=True)
def shrink(correlation: float, level: float, shrinkage: int) -> float:
    """What is left of a correlation: 0 up to the level and where it is NaN; above it, by the place in SHRINKAGE,

    hard      all of it
    soft      what is above the level, since the largest of them owe that to chance
    garrote   c·(1 − level²/c²), so that large ones are hardly changed (Breiman 1995)
    """
    if not abs(correlation) > level:
        return 0.0
    if shrinkage == HARD:
        return correlation
    if shrinkage == SOFT:
        return math.copysign(abs(correlation) - level, correlation)
    return correlation - level**2 / correlation
