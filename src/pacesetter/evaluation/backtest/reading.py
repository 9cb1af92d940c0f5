"""What agents read of a market's bars, many bars at once; each is told a bar's row at that bar, and no later one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pacesetter.arrays import Array
from pacesetter.envs.batch.observation import ObservationBuilder

if TYPE_CHECKING:
    from pacesetter.agents.agent import Agent
    from pacesetter.policies.policy import MarketReader

__all__ = ["MarketReading"]

CHUNK_BARS = 128  # read at once: an agent of 143 symbols takes some 100 MB meanwhile


class MarketReading:
    """The readings of one market for accounts that go through its bars side by side, before bar `last`.

    Of each agent the rows of one chunk are kept, which are read when the first of them is asked for.
    """

    def __init__(self, builder: ObservationBuilder, last: int) -> None:
        self.builder, self.last = builder, last
        self._chunks: dict[Agent, tuple[int, dict[str, Array]]] = {}

    def at(self, t: int) -> MarketReader:
        """What answers at the close of bar t."""
        return partial(self._row, t)

    def _row(self, t: int, agent: Agent) -> Mapping[str, Array]:
        first, rows = self._chunks.get(agent, (t, {}))
        if not rows or not first <= t < first + len(next(iter(rows.values()))):
            first, rows = t, agent.read_market(self.builder.market(0, t, min(t + CHUNK_BARS, self.last)))
            self._chunks[agent] = first, rows
        return {name: values[t - first] for name, values in rows.items()}
