"""Shaping of component values: normalisation by running statistics, and smoothing. NumPy and torch alike.

The statistics are over all environments and all steps up to and including the current one, never later ones. They are
a plain (statistic, component) float64 array, so that they are stored as they are and those of two workers merge.
"""

from __future__ import annotations

from enum import IntEnum

from pacesetter.arrays import Values
from pacesetter.rewards.elementwise import namespace

__all__ = ["NO_STATISTICS", "Statistic", "merge", "normalise", "smooth", "summarise"]


class Statistic(IntEnum):
    """Rows of the statistics of each component."""

    COUNT = 0
    MEAN = 1
    SQUARES = 2  # squared deviations from the mean, summed
    LOW = 3
    HIGH = 4


NO_STATISTICS = (0.0, 0.0, 0.0, float("inf"), float("-inf"))


def summarise(values: Values) -> Values:
    """(statistic, component) of one batch of (component, env) values."""
    xp = namespace(values)
    mean = values.mean(1)
    squares = ((values - mean[:, None]) ** 2).sum(1)
    statistics: Values = xp.stack(
        [xp.full_like(mean, values.shape[1]), mean, squares, xp.amin(values, 1), xp.amax(values, 1)]
    )
    return statistics


def merge(first: Values, second: Values) -> Values:
    """The statistics of two sets of values together, by the pairwise update of Chan, Golub and LeVeque.

    n = n_a + n_b, δ = mean_b − mean_a, mean = mean_a + δ·n_b/n, squares = squares_a + squares_b + δ²·n_a·n_b/n.
    """
    xp = namespace(first)
    count = first[Statistic.COUNT] + second[Statistic.COUNT]
    share = second[Statistic.COUNT] / xp.where(count > 0, count, 1.0)
    apart = second[Statistic.MEAN] - first[Statistic.MEAN]
    merged: Values = xp.stack(
        [
            count,
            first[Statistic.MEAN] + apart * share,
            first[Statistic.SQUARES] + second[Statistic.SQUARES] + apart**2 * first[Statistic.COUNT] * share,
            xp.minimum(first[Statistic.LOW], second[Statistic.LOW]),
            xp.maximum(first[Statistic.HIGH], second[Statistic.HIGH]),
        ]
    )
    return merged


def normalise(values: Values, statistics: Values, is_zscore: Values, is_minmax: Values) -> Values:
    """(component, env) values, each component as the (component,) masks ask.

    zscore: (x − mean) / deviation. minmax: the lowest value to −1, the highest to 1. Neither: x itself. What never
    varied gives 0.
    """
    xp = namespace(values)
    low, high = statistics[Statistic.LOW], statistics[Statistic.HIGH]
    deviation = xp.sqrt(statistics[Statistic.SQUARES] / statistics[Statistic.COUNT])
    # All kinds at once by masks, instead of a loop over components.
    centre = xp.where(is_zscore, statistics[Statistic.MEAN], xp.where(is_minmax, (low + high) / 2, 0.0))
    scale = xp.where(is_zscore, deviation, xp.where(is_minmax, (high - low) / 2, 1.0))
    # What never varied equals its centre, so any scale gives 0.
    normalised: Values = (values - centre[:, None]) / xp.where(scale > 0, scale, 1.0)[:, None]
    return normalised


def smooth(values: Values, before: Values, rates: Values) -> Values:
    """Moving averages s ← rate·x + (1 − rate)·s of (component, env) values; the first value where `before` is NaN."""
    xp = namespace(values)
    rates = rates[:, None]
    # Starting from the first value, not from 0, the average has no warm-up bias.
    smoothed: Values = rates * values + (1.0 - rates) * xp.where(xp.isnan(before), values, before)
    return smoothed
