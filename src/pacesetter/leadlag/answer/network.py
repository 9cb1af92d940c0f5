"""The significant links of an answer as a graph, each with strength, delay, sign, p-value and what weakens it.

A lead that one bar, or day, makes is not a lead: each link says how much of it remains without that one.
A bar is taken away by setting all increments in it to zero, so it neither leads nor follows. For correlations that is
exact in one pass, at the delay l of the pair: with p(t) = x_i(t−l)·x_j(t), the bar s takes p(s) and p(s+l) from the
sum of products, and itself from the sums and squares of x_i and of x_j over their overlap. Other methods are computed
again without each of the largest bars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pacesetter.arrays import Array, Floats, Integers
from pacesetter.leadlag.answer.answer import Answer, StrengthMeasure, answer_window
from pacesetter.leadlag.answer.links import Links
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.structure.ranking import ranks, row_mean

if TYPE_CHECKING:
    import networkx

__all__ = ["HALF", "leaders_without_a_bar", "link_network", "links_without_a_bar"]

HALF = 0.5  # below this share the lead depends on one bar
MOST_BARS = 5  # largest bars that are tried where there is no closed form


def link_network(
    answer: Answer,
    links: Links,
    pairs: Integers,
    remains: Mapping[str, Array],
    thin: Mapping[str, str],
    level: float,
) -> networkx.DiGraph:
    """A graph with an edge from leader to follower for each of `pairs` (pair, 2).

    Nodes are all symbols with `score` (row mean of leadership), `rank` and `thin` (why it is, or ""). Edges carry
    `weight` (leadership), `forward`, `backward`, `delay` (bars, NaN without), `sign`, `relation`, `p_value`,
    `remains_bar` and `remains_day` (share left without the most influential one), and `flags`, empty where it is firm.
    """
    import networkx

    graph = networkx.DiGraph(level=level, method=answer.method)
    scores = row_mean(answer.leadership)
    for symbol, score, rank in zip(answer.symbols, scores, ranks(scores), strict=True):
        graph.add_node(symbol, score=float(score), rank=float(rank), thin=thin.get(symbol, ""))
    for row, (i, j) in enumerate(pairs):
        left = {name: float(shares[row]) for name, shares in remains.items()}
        graph.add_edge(
            answer.symbols[i],
            answer.symbols[j],
            weight=float(answer.leadership[i, j]),
            forward=float(answer.forward[i, j]),
            backward=float(answer.forward[j, i]),
            delay=float(answer.delays[i, j]),
            sign=int(np.nan_to_num(answer.signs[i, j])),
            relation=answer.relation(i, j),
            p_value=float(links.p_values[i, j]),
            remains_bar=left["bar"],
            remains_day=left.get("day", left["bar"]),
            flags=_flags(left, [name for name in (answer.symbols[i], answer.symbols[j]) if name in thin]),
        )
    return graph


def _flags(left: Mapping[str, float], thin: list[str]) -> str:
    """What speaks against a link, or nothing."""
    fragile = [f"depends on one {name}" for name, share in left.items() if share < HALF][:1]
    return "; ".join([*fragile, *(f"{name} trades thinly" for name in thin)])


# ---- without its most influential bar -------------------------------------------------------------------------------


def links_without_a_bar(
    window: Floats, gauge: StrengthMeasure, answer: Answer, pairs: Integers, groups: Array | None = None
) -> Floats:
    """(pairs,) share of the strength of each of `pairs` (pair, 2) that remains without its most influential bar.

    `groups` (time,) numbers the days: without its most influential day, then. For correlations the share is that of
    the one at the pair's delay.
    """
    if not len(pairs):
        return np.empty(0)
    if not gauge.is_linear:
        return _least_remaining_share(
            window, gauge, answer, groups, lambda reply: reply.forward[pairs[:, 0], pairs[:, 1]]
        )
    x = np.nan_to_num(window)
    i, j = pairs.T
    delays = answer.delays[i, j].astype(int)
    return np.array([_pair(x[:, a], x[:, b], lag, groups) for a, b, lag in zip(i, j, delays, strict=True)])


def leaders_without_a_bar(
    window: Floats, gauge: StrengthMeasure, answer: Answer, symbols: Integers, groups: Array | None = None
) -> Floats:
    """(symbols,) share of the leader score of the columns `symbols` that remains without one of the largest bars."""
    return _least_remaining_share(window, gauge, answer, groups, lambda reply: row_mean(reply.leadership)[symbols])


def _pair(lead: Floats, follow: Floats, lag: int, groups: Array | None) -> float:
    """Least share of corr(lead(t−lag), follow(t)) left by setting one bar or group to zero."""
    groups = np.arange(len(lead)) if groups is None else groups
    count, bars = int(groups.max()) + 1, len(lead) - lag
    x, y = lead[:bars], follow[lag:]
    before, after = groups[:bars], groups[lag:]
    # Without group g every product that involves it is gone, whether g follows (`after`) or leads (`before`); a product
    # with both ends in g is counted once.
    taken = np.bincount(after, x * y, count)
    taken += np.bincount(before[before != after], (x * y)[before != after], count)
    # The means and variances lose the bar too; without that, a large bar would seem to carry more of the correlation
    # than it does.
    moments = [(before, x), (before, x * x), (after, y), (after, y * y)]
    whole = np.nan_to_num(_correlation(bars, (x * y).sum(), *(values.sum() for _, values in moments)))
    left = _correlation(
        bars,
        (x * y).sum() - taken,
        *(values.sum() - np.bincount(groups_of, values, count) for groups_of, values in moments),
    )
    # Above 1 the bar worked against the lead, below 0 the sign turns: all or nothing is left.
    return float(np.clip(np.nanmin(left / whole), 0.0, 1.0)) if whole else 0.0


def _correlation(bars: int, xy: Floats, x: Floats, xx: Floats, y: Floats, yy: Floats) -> Floats:
    """The correlation over so many bars from the sums of products, values and squares; NaN where one is constant."""
    return ratio(bars * xy - x * y, np.sqrt(np.maximum(bars * xx - x * x, 0.0) * np.maximum(bars * yy - y * y, 0.0)))


def _least_remaining_share(
    window: Floats, gauge: StrengthMeasure, answer: Answer, groups: Array | None, read: Callable[[Answer], Floats]
) -> Floats:
    """Least share of what `read` finds in the answer that is left without one of the largest bars or groups."""
    whole = read(answer)
    if not np.size(whole):
        return np.empty(0)
    groups = np.arange(len(window)) if groups is None else groups
    x = _centre_window(window)
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


def _centre_window(window: Floats) -> Floats:
    known = np.isfinite(window)
    mean = ratio(np.nansum(window, axis=0), known.sum(axis=0))
    return np.where(known, window - mean, 0.0)
