"""The latest bars of all symbols, and what training would observe at the last of them.

Features are computed by the training table's own code, each on as many bars as its memory needs and no more; what is
older is forgotten. A feature that is unknown at a bar keeps its last known value, as in training.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.envs.tables import ObservationTables
from pacesetter.errors import DataError
from pacesetter.features import FEATURES, FeatureTable
from pacesetter.panel import Panel
from pacesetter.serving.bundle import Bundle, FeatureSpec
from pacesetter.serving.lookback import LeadLagRows

__all__ = ["History"]

Array = NDArray[Any]
GONE_BARS = 20  # without a bar for so long, a symbol is gone and nobody waits for its history
MOST_MEMORIES = 8  # history is cut at so many memories, however many gaps a symbol has


class History:
    """`panel` holds the bars, `observation()` the table entries (symbol, …) at the last of them."""

    def __init__(self, spec: FeatureSpec, symbols: tuple[str, ...], leadlag: LeadLagRows | None = None) -> None:
        self.spec, self.symbols, self._leadlag = spec, symbols, leadlag
        self.panel: Panel | None = None
        self._taken = np.zeros(len(symbols), dtype=np.int64)  # bars of each symbol so far
        self._values = np.full((len(symbols), 1, len(spec.names)), np.nan, np.float32)  # newest row, NaN as last known
        self._windows = deque[Array](maxlen=spec.window_bars)  # of each bar, (symbol, feature)
        self._known = deque[Array](maxlen=spec.window_bars)  # of each bar, (symbol,) whether all features are
        self._context: dict[str, Array] = {}  # of the last bar
        self._features = [FEATURES[name] for name in spec.names if name in FEATURES]

    @classmethod
    def of(cls, bundle: Bundle, symbols: tuple[str, ...]) -> History:
        """An empty history for a bundle's policy."""
        policy = bundle.lookback
        leadlag = None if policy is None else LeadLagRows(bundle.config.features.leadlag, policy)
        return cls(bundle.features, symbols, leadlag)

    def append(self, bars: Panel) -> None:
        """Take newer bars of all symbols; refuses others, and bars that are not newer."""
        if bars.symbols != self.symbols or bars.fields != self.spec.fields:
            raise DataError(f"bars must be of the symbols and fields {', '.join(self.spec.fields)} that are served")
        whole = bars if self.panel is None else self.panel.append(bars)
        if self._leadlag is not None:
            self._leadlag.choose(whole, len(bars))
        keep = self.spec.memory_bars + self.spec.window_bars
        count = len(bars)
        if count > keep:  # older ones reach no row that is observed
            whole, count = whole.rows(_first_row(whole.mask, keep), None), self.spec.window_bars
        self._remember(whole, self._newest_rows(whole, count))
        first = max(_first_row(whole.mask, self.spec.memory_bars), len(whole) - MOST_MEMORIES * keep)
        self.panel = whole.rows(max(first, 0), None)
        self._taken += bars.mask.sum(axis=0)

    def observation(self) -> dict[str, Array]:
        """window (symbol, bar, feature), and regime and leadlag (symbol, ·) where the policy has them."""
        return {"window": np.stack(self._windows, axis=1)} | self._context

    def missing_bars(self) -> int:
        """How many bars at least are missing until some symbol has its whole window of known features."""
        known = int(np.sum(self._known, axis=0).max(initial=0))
        if known > 0:
            return self.spec.window_bars - known
        return self.spec.memory_bars + self.spec.window_bars - (0 if self.panel is None else len(self.panel))

    def waiting(self) -> tuple[str, ...]:
        """Symbols with fewer bars so far than fix their features; decided on, they differ from training's."""
        return tuple(s for s, bars in zip(self.symbols, self._taken, strict=True) if bars < self.spec.memory_bars)

    def _newest_rows(self, panel: Panel, count: int) -> Array:
        """(symbol, count, feature) of the table's newest rows, NaN where the table has it."""
        columns = dict[str, Array]()
        for feature in self._features:
            first = _first_row(panel.mask, self.spec.memory[feature.name] + count - 1)
            columns[feature.name] = feature.since(panel, first)[-count:]
        if self._leadlag is not None:
            columns |= self._leadlag_columns(panel, count)
        with np.errstate(over="ignore"):  # what float32 cannot hold is not finite, and so unknown
            rows = np.stack([columns[name].T for name in self.spec.names], axis=-1).astype(np.float32)
        seen = panel.mask[-count:].T[:, :, None]
        return np.where(seen & np.isfinite(rows), rows, np.float32(np.nan))

    def _leadlag_columns(self, panel: Panel, count: int) -> dict[str, Array]:
        """Name -> (count, symbol) of the lead–lag features; NaN at bars with less than their memory behind them."""
        assert self._leadlag is not None
        behind = np.arange(len(panel) - count, len(panel))[:, None] + 1
        columns = self._leadlag.newest(panel, count)
        return {name: np.where(behind >= self.spec.memory[name], rows, np.nan) for name, rows in columns.items()}

    def _remember(self, panel: Panel, rows: Array) -> None:
        """Observe the newest rows; NaN becomes what was known before."""
        last = self._values[:, 0]
        for row in rows.swapaxes(0, 1):
            row[:] = last = np.where(np.isnan(row), last, row)
        self._values, index = rows[:, -1:], panel.index[len(panel) - rows.shape[1] :]
        table = FeatureTable(index, self.symbols, self.spec.names, rows, self.spec.memory, {})
        tables = ObservationTables.from_table(table)
        self._windows.extend(tables.windows.swapaxes(0, 1))
        self._known.extend(tables.known.T)
        self._context = {entry: tables.context[:, -1, place] for entry, place in tables.places.items()}


def _first_row(mask: Array, bars: int) -> int:
    """The latest row from which on every symbol that is not gone has `bars` observed bars; 0 where one has fewer."""
    if mask[-bars:].all() and len(mask) >= bars:
        return len(mask) - bars
    is_here = mask[-GONE_BARS:].any(axis=0)
    counts = np.cumsum(mask[::-1][:, is_here], axis=0)
    enough = (counts >= bars).all(axis=1)
    return len(mask) - 1 - int(enough.argmax()) if enough.any() else 0
