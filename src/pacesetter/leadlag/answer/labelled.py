"""The answer of one window as labelled frames: ranking and links, as `LeadLag` and a study give them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.leadlag.answer.answer import Answer, answer_window
from pacesetter.leadlag.answer.bootstrap import Resampled
from pacesetter.leadlag.answer.links import Links, find_links
from pacesetter.leadlag.answer.strength import StrengthMeasure
from pacesetter.leadlag.structure.intervals import ranking_intervals

__all__ = ["Ranking", "leader_table", "links_frame", "ranking_frame"]

Array = NDArray[Any]
BLOCK_BARS = 20  # drawn together by the bootstrap


class Ranking(pd.DataFrame):
    """Symbols in order of leadership; when printed, a last line says if none is clear of zero."""

    @property
    def _constructor(self) -> type[Ranking]:
        return Ranking

    @property
    def note(self) -> str:
        """What is said of all symbols together; empty where some leads or follows beyond chance."""
        return str(self.attrs.get("note", ""))

    def __repr__(self) -> str:
        return super().__repr__() + (f"\n{self.note}" if self.note else "")

    def _repr_html_(self) -> str:
        return str(self.to_html()) + (f"<p>{self.note}</p>" if self.note else "")


def ranking_frame(
    window: Array, symbols: tuple[str, ...], gauge: StrengthMeasure, *, draws: int, level: float, seed: int
) -> Ranking:
    """Symbols in order of leadership, the row mean of the matrix: see `LeadLag.ranking`."""
    answer = answer_window(window, symbols, gauge)
    links = find_links(window, gauge, answer, draws=draws, level=level, seed=seed)
    table = leader_table(window, gauge, answer, links, draws=draws, level=level, seed=seed)
    leads = pd.Series((answer.leadership > 0).sum(axis=1), list(symbols), name="leads")
    columns = {"score": "leadership", "sure_low": "low", "sure_high": "high"}
    frame = Ranking(table.rename(columns=columns).join(leads)[["leadership", "low", "high", "leads", "role"]])
    if (table["role"] == "–").all():
        frame.attrs["note"] = f"none is clear of zero ({1 - level:.0%}, all symbols together)"
    return frame


def leader_table(
    window: Array, gauge: StrengthMeasure, answer: Answer, links: Links, *, draws: int, level: float, seed: int
) -> pd.DataFrame:
    """Leader scores with intervals (`ranking_intervals`), `p_value` by the null of the links, and the `role`.

    A symbol is a leader or a follower only when both say so for all symbols together: the interval, that the sign of
    its score is sure; the null, that so large a score is rare where nothing leads.
    """
    table = ranking_intervals(
        window,
        answer.symbols,
        gauge.leadership,
        resampled=Resampled(window, gauge) if gauge.is_linear else None,
        block_bars=min(BLOCK_BARS, len(window)),
        draws=draws,
        level=1 - level,
        seed=seed,
    )
    table = table.join(pd.Series(links.leader_p, answer.symbols, name="p_value"))
    rare = table["p_value"] <= level
    roles = [rare & (table["sure_low"] > 0), rare & (table["sure_high"] < 0)]
    table["role"] = np.select(roles, ["leader", "follower"], "–")
    return table


def links_frame(
    window: Array, symbols: tuple[str, ...], gauge: StrengthMeasure, *, draws: int, level: float, seed: int
) -> pd.DataFrame:
    """The links that chance does not explain at a family-wise `level`, strongest first."""
    answer = answer_window(window, symbols, gauge)
    links = find_links(window, gauge, answer, draws=draws, level=level, seed=seed)
    # NaN, an unscored pair, compares as not linked.
    rows = [_link(answer, links.p_values, i, j) for i, j in zip(*np.nonzero(links.mask_linked(level)), strict=True)]
    columns = ["leader", "follower", "strength", "relation", "delay", "p_value"]
    return pd.DataFrame(rows, columns=columns).sort_values("strength", ascending=False, ignore_index=True)


def _link(answer: Answer, p_values: Array, i: int, j: int) -> tuple[Any, ...]:
    names = answer.symbols[i], answer.symbols[j]
    return *names, answer.forward[i, j], answer.relation(i, j), answer.delays[i, j], p_values[i, j]
