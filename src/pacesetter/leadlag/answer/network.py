"""The significant links of an answer as a graph, each with strength, delay, sign, p-value and what weakens it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.leadlag.answer.answer import Answer
from pacesetter.leadlag.answer.influence import HALF
from pacesetter.leadlag.answer.links import Links
from pacesetter.leadlag.structure.ranking import ranks, row_mean

if TYPE_CHECKING:
    import networkx

__all__ = ["link_network"]

Array = NDArray[Any]


def link_network(
    answer: Answer,
    links: Links,
    pairs: Array,
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
