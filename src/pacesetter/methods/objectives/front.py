"""The front of what weights of objectives come to: points that nothing beats, and the volume that they cover.

All objectives are to be large. Plain NumPy: a report and a dashboard read it without torch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array

__all__ = ["hypervolume", "is_efficient", "spread_preferences"]


def is_efficient(points: ArrayLike) -> Array:
    """(point,) True where no other of the (point, k) points is as good in all objectives and better in one."""
    values = np.asarray(points, dtype=np.float64)
    as_good = np.all(values[None] >= values[:, None], axis=2)
    better = np.any(values[None] > values[:, None], axis=2)
    return np.asarray(~np.any(np.logical_and(as_good, better), axis=1))


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
    """The volume of what (point, k) points dominate above the reference (k,), exactly, by slices of the last objective.

    Its time grows quickly with k: for tens of points of up to six objectives.
    """
    worst = np.asarray(reference, dtype=np.float64)
    values = np.asarray(points, dtype=np.float64).reshape(-1, len(worst))
    # A point that is not above the reference in every objective covers no volume.
    values = values[(values > worst).all(1)]
    if len(values) == 0:
        return 0.0
    values = np.unique(values[is_efficient(values)], axis=0)
    return _volume(values - worst)


def _volume(values: Array) -> float:
    """The same above 0, of points without repeats."""
    if values.shape[1] == 1:
        return float(values.max())
    values = values[np.argsort(-values[:, -1], kind="stable")]
    heights = np.append(values[:, -1], 0.0)
    total = 0.0
    for count in range(1, len(values) + 1):
        # Within this slice of the last objective exactly the first `count` points reach high enough.
        thick = heights[count - 1] - heights[count]
        if thick > 0:
            flat = values[:count, :-1]
            total += thick * _volume(np.unique(flat[is_efficient(flat)], axis=0))
    return total


def spread_preferences(count: int, objectives: int, seed: int = 0) -> Array:
    """(count, objectives) weights over the whole simplex: corners first, then its middle, then drawn evenly.

    Of two objectives all behind the corners lie at equal distances.
    """
    # Corners first: they bound the front, however few points are asked for.
    if objectives == 2:
        first = np.linspace(1.0, 0.0, max(count, 2))
        ordered = np.concatenate([first[[0, -1]], first[1:-1]])
        return np.column_stack([ordered, 1.0 - ordered])[:count]
    fixed = np.vstack([np.eye(objectives), np.full((1, objectives), 1.0 / objectives)])
    more = np.random.default_rng(seed).dirichlet(np.ones(objectives), max(count - len(fixed), 0))
    spread: Array = np.vstack([fixed, more])[:count]
    return spread
