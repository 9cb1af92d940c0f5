"""The answer of one window as labelled frames: ranking and links, as `LeadLag` gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.leadlag.answer.answer import Answer, answer_window
from pacesetter.leadlag.answer.gauge import Gauge
from pacesetter.leadlag.answer.links import find_links
from pacesetter.leadlag.structure.ranking import row_mean

__all__ = ["links_frame", "ranking_frame"]

Array = NDArray[Any]


def ranking_frame(window: Array, symbols: tuple[str, ...], gauge: Gauge) -> pd.DataFrame:
    """Symbols in order of leadership: `leadership`, the mean over the others, and `leads`, how many it is ahead of."""
    lead = answer_window(window, symbols, gauge).leadership
    table = pd.DataFrame({"leadership": row_mean(lead), "leads": (lead > 0).sum(axis=1)}, index=list(symbols))
    return table.rename_axis("symbol").sort_values("leadership", ascending=False)


def links_frame(
    window: Array, symbols: tuple[str, ...], gauge: Gauge, *, draws: int, level: float, seed: int
) -> pd.DataFrame:
    """The links that chance does not explain at a family-wise `level`, strongest first."""
    answer = answer_window(window, symbols, gauge)
    links = find_links(window, gauge, answer, draws=draws, level=level, seed=seed)
    # NaN, an unscored pair, compares as not linked.
    rows = [_link(answer, links.p_values, i, j) for i, j in zip(*np.nonzero(links.linked(level)), strict=True)]
    columns = ["leader", "follower", "strength", "relation", "delay", "p_value"]
    return pd.DataFrame(rows, columns=columns).sort_values("strength", ascending=False, ignore_index=True)


def _link(answer: Answer, p_values: Array, i: int, j: int) -> tuple[Any, ...]:
    names = answer.symbols[i], answer.symbols[j]
    return *names, answer.forward[i, j], answer.relation(i, j), answer.delays[i, j], p_values[i, j]
