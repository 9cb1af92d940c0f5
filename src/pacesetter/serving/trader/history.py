"""The latest bars of all symbols, and what training would observe at the last of them.

Features are computed by the training table's own code, each on as many bars as its memory needs and no more; what is
older is forgotten. A feature that is unknown at a bar keeps its last known value, as in training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.features import FEATURES
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import LatestRows
from pacesetter.serving.bundle.bundle import Bundle, FeatureSpec
from pacesetter.serving.trader.lookback import LeadLagRows
from pacesetter.serving.trader.probabilities import SUPERVISED, ServedClassifier

__all__ = ["GONE_BARS", "History"]

GONE_BARS = 20  # without a bar for so long, a symbol counts as delisted and its history is not waited for
MOST_MEMORIES = 8  # history is cut at so many memories, however many gaps a symbol has


class History:
    """`panel` holds the bars, `observation()` the table entries (symbol, …) at the last of them."""

    def __init__(
        self,
        spec: FeatureSpec,
        symbols: tuple[str, ...],
        leadlag: LeadLagRows | None = None,
        classifier: ServedClassifier | None = None,
    ) -> None:
        self.spec, self.symbols, self._leadlag, self._classifier = spec, symbols, leadlag, classifier
        # The classifier may see more bars than the policy does.
        self._window_bars = max(spec.window_bars, 0 if classifier is None else classifier.window_bars)
        self.panel: Panel | None = None
        self._blocks, self._mask = np.empty((0, 0, 0)), np.empty((0, 0), bool)  # the panel's bars, and room behind them
        self._stop = 0  # row of theirs behind the panel's last
        self._first = 0  # row of the panel's first bar that a feature may still read
        self._taken = np.zeros(len(symbols), dtype=np.int64)  # bars of each symbol so far
        self._whole = dict.fromkeys(spec.fields, 0)  # latest bars that have a field of all symbols
        self._rows = LatestRows(spec.names, len(symbols), self._window_bars)
        measured = [k for entry in ("leadlag", "leaders") for k in self._rows.columns.get(entry, [])]
        others = measured if leadlag is not None else []
        self._features = [(k, FEATURES[name]) for k, name in enumerate(spec.names) if k not in others]

    @classmethod
    def of(cls, bundle: Bundle, symbols: tuple[str, ...]) -> History:
        """An empty history for a bundle's policy."""
        policy = bundle.lookback
        leadlag = None if policy is None else LeadLagRows(bundle.config.features.leadlag, policy)
        return cls(bundle.features, symbols, leadlag, bundle.classifier)

    def append(self, bars: Panel) -> None:
        """Take newer bars of all symbols; refuses others, none, and bars that are not newer."""
        if bars.symbols != self.symbols or bars.fields != self.spec.fields:
            raise DataError(f"bars must be of the symbols and fields {', '.join(self.spec.fields)} that are served")
        if len(bars) == 0:
            raise DataError("there is no bar; give at least one")
        panel = bars if self.panel is None else self._append_bars(self.panel, bars)
        if self._leadlag is not None:
            # Before rows are computed: a window is chosen once, at its bar, and never again.
            self._leadlag.choose(panel, len(bars))
        whole, count = self._whole_with(bars), len(bars)
        keep = self.spec.memory_bars + self._window_bars
        if count > keep:  # older ones reach no row that is observed
            panel, count = panel.rows(_first_rows(panel.mask)(keep), None), self._window_bars
        first_row = _first_rows(panel.mask)
        self._rows.append(self._newest_rows(panel, count, whole, first_row))
        self.panel, self._whole = panel, whole
        # Gaps make a symbol's memory reach further back; the cap keeps a symbol that hardly trades from holding all
        # bars.
        self._first = max(first_row(self.spec.memory_bars), len(panel) - MOST_MEMORIES * keep)
        self._stop += len(bars)
        self._taken += bars.mask.sum(axis=0)

    def observation(self) -> dict[str, Array]:
        """window (symbol, bar, feature), and regime, leadlag and supervised (symbol, ·) where the policy has them."""
        entries = self._rows.entries()
        if self._classifier is None:
            return entries
        probabilities = self._classifier(entries, self._rows.known)
        return {**entries, "window": entries["window"][:, -self.spec.window_bars :], SUPERVISED: probabilities}

    def missing_bars(self) -> int:
        """How many bars at least are missing until some symbol has its whole window of known features."""
        known = int(self._rows.known.sum(axis=1).max(initial=0))
        if known > 0:
            return self._window_bars - known
        return self.spec.memory_bars + self._window_bars - (0 if self.panel is None else len(self.panel))

    def waiting(self) -> tuple[str, ...]:
        """Symbols with too few bars so far to determine their features, which would differ from those of training."""
        return tuple(s for s, is_short in zip(self.symbols, self.is_short, strict=True) if is_short)

    @property
    def is_short(self) -> Array:
        """(symbol,) True where a symbol has too few bars, see `waiting`."""
        return self._taken < self.spec.memory_bars

    def _append_bars(self, panel: Panel, bars: Panel) -> Panel:
        """What features read of the panel, with newer bars after it; arrays handed out before do not change."""
        if bars.index.asi8[0] <= panel.index.asi8[-1]:
            raise DataError(
                f"the new bar {bars.index[0]} is not after the last one {panel.index[-1]}; history is never rewritten"
            )
        first, kept = self._first, len(panel) - self._first
        if self._stop + len(bars) > len(self._mask):  # once in as many bars as are kept
            room = ((0, kept + len(bars)), (0, 0))
            self._blocks = np.pad(panel.blocks[:, first:], ((0, 0), *room))
            self._mask, self._stop = np.pad(panel.mask[first:], room), kept
        fresh, part = (slice(self._stop - back, self._stop + len(bars)) for back in (0, kept))
        self._blocks[:, fresh], self._mask[fresh] = bars.blocks, bars.mask
        blocks, mask, causal = self._blocks[:, part], self._mask[part], panel.causal and bars.causal
        index = cast(pd.DatetimeIndex, panel.index[first:].append(bars.index))
        return replace(panel, index=index, blocks=blocks, mask=mask, causal=causal, truth=None)

    def _whole_with(self, bars: Panel) -> dict[str, int]:
        """Field -> latest bars, these included, in which every symbol was observed with it."""
        is_known = bars.mask & np.isfinite(bars.blocks)
        is_whole = np.logical_and.reduce(is_known, axis=2)[:, ::-1]  # (field, bar), the latest bar first
        runs = np.where(is_whole.all(axis=1), len(bars), is_whole.argmin(axis=1)).tolist()
        return {f: run + (self._whole[f] if run == len(bars) else 0) for f, run in zip(bars.fields, runs, strict=True)}

    def _newest_rows(
        self, panel: Panel, count: int, whole: Mapping[str, int], first_row: Callable[[int], int]
    ) -> Array:
        """(symbol, count, feature) of the table's newest rows, NaN where the table has it."""
        rows = np.full((len(self.symbols), count, len(self.spec.names)), np.nan, np.float32)
        with np.errstate(all="ignore"):  # what float32 cannot hold is not finite, and so unknown
            for column, feature in self._features:
                # The first of `count` rows needs its whole memory before it.
                bars = self.spec.memory[feature.name] + count - 1
                is_whole = all(whole.get(field, 0) >= bars for field in feature.needs)
                rows[:, :, column] = feature.compute_since(panel, first_row(bars), is_whole)[-count:].T
            if self._leadlag is not None and len(panel) > 1:  # one bar has no lag yet
                for name, values in self._leadlag_columns(panel, count).items():
                    rows[:, :, self.spec.names.index(name)] = values.T
        rows[~(panel.mask[-count:].T[:, :, None] & np.isfinite(rows))] = np.nan
        return rows

    def _leadlag_columns(self, panel: Panel, count: int) -> dict[str, Array]:
        """Name -> (count, symbol) of the lead–lag features; NaN at bars with less history than their memory."""
        assert self._leadlag is not None
        behind = np.arange(len(panel) - count, len(panel))[:, None] + 1
        columns = self._leadlag.newest_rows(panel, count)
        return {name: np.where(behind >= self.spec.memory[name], rows, np.nan) for name, rows in columns.items()}


def _first_rows(mask: Array) -> Callable[[int], int]:
    """bars -> the latest row from which each symbol that is not gone has that many observed; 0 where one has fewer."""
    if mask.all():
        return lambda bars: max(len(mask) - bars, 0)
    is_here = mask[-GONE_BARS:].any(axis=0)
    # Counted from the newest bar back, so it rises and can be searched.
    fewest = np.cumsum(mask[::-1, is_here], axis=0).min(axis=1, initial=len(mask))  # of a symbol, since each row
    return lambda bars: max(len(mask) - 1 - int(fewest.searchsorted(bars)), 0)
