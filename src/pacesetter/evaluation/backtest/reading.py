"""What agents read of a market's bars, many bars at once; each is told a bar's row at that bar, and no later one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING
from weakref import ref

from pacesetter.arrays import Array
from pacesetter.envs.batch.observation import ObservationBuilder

if TYPE_CHECKING:
    from pacesetter.agents.agent import Agent
    from pacesetter.policies.policy import MarketReader

__all__ = ["MarketReading", "share_readings"]

CHUNK_BARS = 128  # read at once: an agent of 143 symbols takes some 100 MB meanwhile
MOST_KEPT = 64 * 2**20  # bytes of readings of one market; what is beyond them is read again

Chunks = dict[tuple["Agent", int, int, int], dict[str, Array]]  # by agent, bars of a window, first and last bar
_shared: ContextVar[Readings | None] = ContextVar("shared readings", default=None)


class Readings:
    """What agents read of markets, as long as the tables of a market are there."""

    def __init__(self) -> None:
        self._markets: dict[tuple[int, int], tuple[tuple[ref[Array], ref[Array]], Chunks]] = {}

    def of(self, builder: ObservationBuilder) -> Chunks:
        """The chunks of a market: by its tables, since each set of rules has a bank of its own around them."""
        tables = builder.bank.windows, builder.bank.context
        key = id(tables[0]), id(tables[1])
        if key not in self._markets:
            windows, context = (ref(table, lambda _: self._markets.pop(key, None)) for table in tables)
            self._markets[key] = (windows, context), {}
        return self._markets[key][1]


@contextmanager
def share_readings() -> Iterator[None]:
    """Let accounts on one market have what an agent read of it for others, while no agent learns."""
    token = _shared.set(Readings())
    try:
        yield
    finally:
        _shared.reset(token)


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
            first, rows = t, self._read(t, agent)
            self._chunks[agent] = first, rows
        return {name: values[t - first] for name, values in rows.items()}

    def _read(self, t: int, agent: Agent) -> dict[str, Array]:
        """The rows of bars from t on; the very same chunk, or its last digits may differ."""
        end, shared = min(t + CHUNK_BARS, self.last), _shared.get()
        kept = {} if shared is None else shared.of(self.builder)
        key = agent, self.builder.window_bars, t, end
        if key not in kept:
            rows = agent.read_market(self.builder.market(0, t, end))
            if shared is None or (len(kept) + 1) * sum(values.nbytes for values in rows.values()) > MOST_KEPT:
                return rows
            kept[key] = rows
        return kept[key]
