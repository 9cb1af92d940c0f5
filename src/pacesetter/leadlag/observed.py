"""Arithmetic over what was observed: NaN marks an absent asset and never spreads to the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array, Booleans, Floats

__all__ = ["mean_observed", "observed_assets", "ratio"]


def observed_assets(matrices: Floats) -> Booleans:
    """(…, N) True where an asset has a finite score with at least one other asset, in matrices (…, N, N)."""
    observed: Array = np.isfinite(matrices).sum(axis=-1) > 1  # an observed asset has its own diagonal too
    return observed


def ratio(numerator: ArrayLike, denominator: ArrayLike) -> Floats:
    """`numerator` / `denominator` where the latter is above zero, NaN elsewhere."""
    over, under = np.broadcast_arrays(numerator, denominator)
    quotient: Array = np.divide(over, under, out=np.full(over.shape, np.nan), where=under > 0)
    return quotient


def mean_observed(values: Floats, axis: int) -> Floats:
    """The mean over the finite values along `axis`, NaN where there is none."""
    return ratio(np.nansum(values, axis=axis), np.isfinite(values).sum(axis=axis))
