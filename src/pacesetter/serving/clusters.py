"""Symbols that move as one: connected by a correlation of returns above a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

__all__ = ["clusters"]

LEAST_RETURNS = 20  # fewer say nothing about a correlation


def clusters(closes: NDArray[Any], symbols: tuple[str, ...], correlation: float) -> dict[str, int]:
    """Symbol -> number of its cluster, from `closes` (time, symbol); those that stand alone are left out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = np.diff(np.log(closes), axis=0)
    if len(returns) < LEAST_RETURNS:
        return {}
    known = np.isfinite(returns).all(axis=0)
    moving = np.flatnonzero(known & (np.where(known, returns, 0.0).std(axis=0) > 0.0))
    if len(moving) < 2:
        return {}
    linked = np.corrcoef(returns[:, moving].T) > correlation
    np.fill_diagonal(linked, False)
    joined = np.flatnonzero(linked.any(axis=0))
    _, labels = connected_components(linked[np.ix_(joined, joined)], directed=False)
    return {symbols[k]: int(label) for k, label in zip(moving[joined], labels, strict=True)}
