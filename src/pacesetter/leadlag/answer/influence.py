"""How much of a lead remains without its most influential bar, or day: a lead that one bar makes is not a lead.

A bar is taken away by setting all increments in it to zero, so it neither leads nor follows. For correlations that is
exact in one pass: with p(t) = x_i(t−l)·x_j(t), the bar s takes p(s) and p(s+l) from the sum, and its squares from the
two variances. Other methods are computed again without each of the largest bars.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.leadlag.answer.answer import Answer, answer_window
from pacesetter.leadlag.answer.gauge import Gauge
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.structure.ranking import row_mean

__all__ = ["HALF", "leaders_without_a_bar", "links_without_a_bar"]

Array = NDArray[Any]
HALF = 0.5  # below this share the lead depends on one bar
MOST_BARS = 5  # largest bars that are tried where there is no closed form


def links_without_a_bar(
    window: Array, gauge: Gauge, answer: Answer, pairs: Array, groups: Array | None = None
) -> Array:
    """(pairs,) share of the strength of each of `pairs` (pair, 2) that remains without its most influential bar.

    `groups` (time,) numbers the days: without its most influential day, then.
    """
    if not len(pairs):
        return np.empty(0)
    if not gauge.is_linear:
        return _asked_again(window, gauge, answer, groups, lambda reply: reply.forward[pairs[:, 0], pairs[:, 1]])
    x = _centred(window)
    i, j = pairs.T
    delays = answer.delays[i, j].astype(int)
    return np.array([_pair(x[:, a], x[:, b], lag, groups) for a, b, lag in zip(i, j, delays, strict=True)])


def leaders_without_a_bar(
    window: Array, gauge: Gauge, answer: Answer, symbols: Array, groups: Array | None = None
) -> Array:
    """(symbols,) share of the leader score of the columns `symbols` that remains without one of the largest bars."""
    return _asked_again(window, gauge, answer, groups, lambda reply: row_mean(reply.leadership)[symbols])


def _pair(lead: Array, follow: Array, lag: int, groups: Array | None) -> float:
    """Least share of |corr(lead(t−lag), follow(t))| left by taking away one bar or group."""
    groups = np.arange(len(lead)) if groups is None else groups
    count = int(groups.max()) + 1
    products = lead[: len(lead) - lag] * follow[lag:]
    after, before = groups[lag:], groups[: len(groups) - lag]
    # Without group g every product that involves it is gone, whether g follows (`after`) or leads (`before`); a product
    # with both ends in g is counted once.
    taken = np.bincount(after, products, count)
    taken += np.bincount(before[before != after], products[before != after], count)
    total = products.sum()
    # The variances lose the bar too; without that, a large bar would seem to carry more of the correlation than it
    # does.
    variances = [(part**2).sum() - np.bincount(groups, part**2, count) for part in (lead, follow)]
    left = (total - taken) * np.sqrt(ratio((lead**2).sum() * (follow**2).sum(), variances[0] * variances[1]))
    # Above 1 the bar worked against the lead, below 0 the sign turns: all or nothing is left.
    return float(np.clip(np.nanmin(left / total), 0.0, 1.0)) if total else 0.0


def _asked_again(window: Array, gauge: Gauge, answer: Answer, groups: Array | None, read: Any) -> Array:
    """Least share of what `read` finds in the answer that is left without one of the largest bars or groups."""
    whole = read(answer)
    if not np.size(whole):
        return np.empty(0)
    groups = np.arange(len(window)) if groups is None else groups
    x = _centred(window)
    # Only large moves, each in units of its symbol's variance, can carry a lead; trying every bar would cost a fit
    # each.
    size = np.bincount(groups, (x**2 * ratio(1.0, (x**2).sum(axis=0))).sum(axis=1))
    least = np.ones(len(whole))
    for group in np.argsort(-size)[:MOST_BARS]:
        # Zeroed, not dropped: dropping rows would shorten the delays across the cut.
        without = np.where((groups == group)[:, None], np.where(np.isfinite(window), 0.0, np.nan), window)
        left = read(answer_window(without, answer.symbols, gauge))
        least = np.fmin(least, np.nan_to_num(left / np.where(whole == 0, np.nan, whole)))
    return np.clip(least, 0.0, 1.0)


def _centred(window: Array) -> Array:
    known = np.isfinite(window)
    mean = ratio(np.nansum(window, axis=0), known.sum(axis=0))
    return np.where(known, window - mean, 0.0)
