"""Symbols that move as one: connected by a correlation of returns above a threshold."""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array

__all__ = ["clusters"]

LEAST_RETURNS = 20  # fewer say nothing about a correlation


def clusters(closes: Array, symbols: tuple[str, ...], correlation: float) -> dict[str, int]:
    """Symbol -> number of its cluster, from `closes` (time, symbol); those that stand alone are left out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = np.diff(np.log(closes), axis=0)
    if len(returns) < LEAST_RETURNS:
        return {}
    # A symbol with a gap counts as not moving, and so joins no cluster.
    centred = np.where(np.isfinite(returns).all(axis=0), returns, 0.0)
    centred -= centred.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    moving = np.flatnonzero(length > 0.0)
    unit = centred[:, moving] / length[moving]
    products = np.einsum("ti,tj->ij", unit, unit)  # not by BLAS: its threads go on spinning for longer than this takes
    linked = np.minimum(products, 1.0) > correlation
    np.fill_diagonal(linked, True)
    joined = np.flatnonzero(linked.sum(axis=0) > 1)
    labels = _lowest_reached(linked[np.ix_(joined, joined)])
    return {symbols[k]: label for k, label in zip(moving[joined], labels.tolist(), strict=True)}


def _lowest_reached(linked: Array) -> Array:
    """(node,) lowest number of a node that each one reaches over links (node, node), symmetric and with itself."""
    count = len(linked)
    lowest, before = np.arange(count), np.full(count, -1)
    while (lowest != before).any():
        # Each round hands the lowest number one link further, until nothing changes: connected components.
        lowest, before = np.where(linked, lowest, count).min(axis=1, initial=count), lowest
    return lowest
