"""Actions by name, as a configuration's task has them: orders, windows, or ranges of a continuous order."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from pacesetter.market.orders import Discrete

__all__ = ["action_names"]


def action_names(task: Mapping[str, Any], count: int, bounds: tuple[float, float] | None = None) -> list[str]:
    """Names of `count` actions; `bounds` are those of a continuous action that was counted in as many equal ranges."""
    windows = task.get("windows") or {}
    is_absolute = windows.get("action", "absolute") == "absolute"
    grid = windows.get("grid" if is_absolute else "deltas") or ()
    if bounds is None and len(grid) == count and windows.get("space", "discrete") == "discrete":
        return [f"{bars} bars" if is_absolute else f"{bars:+d} bars" for bars in grid]
    if bounds is None and count == len(Discrete) and task.get("problem") != "lookback":
        return [order.name.lower().replace("_", " ") for order in Discrete]
    if bounds is not None:
        edges = np.linspace(*bounds, count + 1)
        return [f"orders {low:+.1f} to {high:+.1f}" for low, high in pairwise(edges)]
    return [f"action {place + 1}" for place in range(count)]
