"""Feeds: where new bars come from, and the clock that goes with them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
import pandas as pd

from pacesetter.data.loading import load
from pacesetter.errors import DataError, RunError
from pacesetter.panel import Panel

__all__ = [
    "Feed",
    "FeedClock",
    "LiveClock",
    "OnlineFeed",
    "ReplayClock",
    "ReplayFeed",
    "complete_fields",
    "find_adjustments",
]

OVERLAP_DAYS = 7  # asked for again with every poll: longer than holidays, short enough to poll
SPLIT_FRACTION = 0.05  # from which a re-adjusted history is a split; below it is a dividend
SAME_PRICE = 1e-4  # relative, up to which two downloads of a price are the same
MOST_SILENT = 3  # symbols in a row without bars, and none with, after which the source counts as down
SETTLED = ("funding_rate", "mark_price")  # what a venue settles by itself, and network sources do not have
MOST_DRIFT_SECONDS = 5.0  # between the wall clock and the monotonic one, which cannot be set


class FeedClock(Protocol):
    """What time it is, as UTC seconds."""

    def now(self, bar: pd.Timestamp) -> float:
        """Now, while `bar` is the latest one; refuses a clock that jumped."""
        ...

    def sleep(self, seconds: float) -> None: ...


class ReplayClock:
    """It is always the moment at which the latest bar became known, so that a replay repeats."""

    def now(self, bar: pd.Timestamp) -> float:
        return bar.timestamp()

    def sleep(self, seconds: float) -> None:
        """Nothing new comes by waiting."""


@dataclass
class LiveClock:
    """The computer's clock, held against its monotonic one: a jump, or a bar from the future, is refused."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _offset: float = field(init=False)

    def __post_init__(self) -> None:
        self._offset = self.wall() - self.monotonic()

    def now(self, bar: pd.Timestamp) -> float:
        now = self.wall()
        # Setting the clock moves the wall time alone.
        jump = now - self.monotonic() - self._offset
        if abs(jump) > MOST_DRIFT_SECONDS:
            raise RunError(f"the clock jumped by {jump:+.1f} s; set the clock, then resume")
        if bar.timestamp() > now + MOST_DRIFT_SECONDS:
            raise RunError(f"bar {bar} is in the future of this clock; set the clock, then resume")
        return now


class Feed(Protocol):
    """Bars in order of time; stored ones wait for a person, a market does not."""

    @property
    def clock(self) -> FeedClock: ...

    @property
    def is_stored(self) -> bool: ...

    @property
    def bars_left(self) -> int | None:
        """Bars from the first decision to its end; None of a market, which has no end."""

    def history(self, until: pd.Timestamp | None) -> Panel:
        """All bars known at `until`; at the start of a run (None) those before its first decision, and that bar."""
        ...

    def after(self, last: pd.Timestamp) -> Panel | None:
        """Bars after `last`, maybe none yet; None when there will never be more. Refuses what the source refuses.

        Their notes that the history does not have are what went wrong for some symbols, which are missing then.
        """
        ...

    def digest(self, until: pd.Timestamp) -> str:
        """Hash of all bars up to `until`, which a restart must find again; empty where a source may revise them."""
        ...


class ReplayFeed:
    """Stored bars one by one; the first decision is at the close of bar `first`."""

    is_stored = True

    @property
    def bars_left(self) -> int:
        return len(self.panel) - self.first

    def __init__(self, panel: Panel, first: int) -> None:
        if not 0 <= first < len(panel) - 1:
            raise DataError(f"first={first} leaves no bar to replay; give 0 to {len(panel) - 2}")
        # Without its truth: a policy must not find the planted relations in the bars that it is shown.
        self.panel, self.first, self.clock = replace(panel, truth=None), first, ReplayClock()
        self._digest, self._hashed = hashlib.sha256(), 0

    def history(self, until: pd.Timestamp | None) -> Panel:
        return self.panel.rows(0, self.first + 1) if until is None else self.panel.between(None, until)

    def after(self, last: pd.Timestamp) -> Panel | None:
        row = int(self.panel.index.searchsorted(last, side="right"))
        return self.panel.rows(row, row + 1) if row < len(self.panel) else None

    def digest(self, until: pd.Timestamp) -> str:
        """The hash of the bars up to one; bars that were hashed before are not hashed again."""
        row = int(self.panel.index.searchsorted(until, side="right"))
        if row < self._hashed:
            self._digest, self._hashed = hashlib.sha256(), 0
        if row > self._hashed:
            part = self.panel.rows(self._hashed, row)
            values = np.where(np.isnan(part.blocks), np.nan, part.blocks) + 0.0  # one NaN pattern, one zero
            numbers = np.ascontiguousarray(values.swapaxes(0, 1)).reshape(len(part), -1)
            self._digest.update(np.column_stack([part.index.asi8, numbers.view(np.int64)]).tobytes())
            self._hashed = row
        return self._digest.hexdigest()


class OnlineFeed:
    """A registered network source, polled for finished bars.

    One symbol that vanished, or a broken or doubled bar, does not stop the others: it is missing, and a note says so
    once. A poll overlaps the bars before: where the source re-based them, as for a split, it is refused.
    Of `fields` those that a venue settles by itself are unknown where the source lacks them.
    """

    is_stored = False
    bars_left = None

    def __init__(
        self, source: str, options: Mapping[str, Any], clock: FeedClock | None = None, fields: Sequence[str] = ()
    ) -> None:
        self.source, self.options, self.clock, self.fields = source, dict(options), clock or LiveClock(), fields
        self._known: Panel | None = None  # the latest bars that were given
        self._problems: dict[str, str] = {}  # of symbols that the last poll lacked

    def history(self, until: pd.Timestamp | None) -> Panel:
        # A run that is resumed has positions to look after: one symbol's trouble does not keep it from starting.
        self._known = (self._load() if until is None else self._poll()).between(None, until)
        return self._known

    def after(self, last: pd.Timestamp) -> Panel | None:
        panel = self._poll(start=f"{last - pd.Timedelta(days=OVERLAP_DAYS):%Y-%m-%d}")
        row = int(panel.index.searchsorted(last, side="right"))
        notes = self._check_overlap(panel.rows(0, row))
        new = panel.rows(row, None)
        if self._known is not None and self._known.symbols == panel.symbols:
            self._known = panel if len(panel) else self._known
        return new.noting(*notes)

    def _poll(self, **changed: Any) -> Panel:
        """The bars of all symbols; those of which the source has none, or none that are sound, are missing."""
        try:
            panel = self._load(**changed)
            self._problems = {}
            return panel
        except DataError:
            symbols = tuple(self.options.get("symbols", ()))
            if not symbols:
                raise
        parts: dict[str, Panel] = {}
        problems: dict[str, str] = {}
        for symbol in symbols:
            try:
                parts[symbol] = self._load(**changed, symbols=(symbol,))
            except DataError as problem:
                problems[symbol] = str(problem)
                with suppress(DataError):  # what was downloaded, without the bars that are broken or come twice
                    allow = (*self.options.get("allow", ()), "order", "duplicate")
                    lenient = {"symbols": (symbol,), "fill": "drop", "allow": allow, "refresh": False}
                    parts[symbol] = self._load(**(changed | lenient))
            if len(problems) >= MOST_SILENT and not parts:
                break
        if not parts:
            raise DataError(next(iter(problems.values())))
        fresh = [f"'{each}' has missing bars: {text}" for each, text in problems.items() if each not in self._problems]
        self._problems = problems
        return _join_symbols(parts, symbols).noting(*fresh)

    def _check_overlap(self, again: Panel) -> list[str]:
        """Refuse bars that the source has re-based since they were given; gives a sentence for each dividend."""
        if self._known is None:
            return []
        factors = find_adjustments(self._known, again)
        splits = {symbol: factor for symbol, factor in factors.items() if abs(factor - 1.0) > SPLIT_FRACTION}
        for symbol, factor in splits.items():
            raise RunError(
                f"{self.source} has re-based the history of '{symbol}' by {factor:.6g}, as for a split; nothing was "
                "traded on it: resume and start again, and the book is rescaled"
            )
        return [
            f"{self.source} has re-adjusted the history of '{symbol}' by {factor - 1.0:+.2%}, as for a dividend; the "
            "books keep the prices at which they were traded"
            for symbol, factor in factors.items()
        ]

    def digest(self, until: pd.Timestamp) -> str:
        return ""

    def _load(self, **changed: Any) -> Panel:
        return complete_fields(load(self.source, **{**self.options, "refresh": True, **changed}), self.fields)


def complete_fields(panel: Panel, fields: Sequence[str]) -> Panel:
    """The panel in the order of `fields`, funding and mark price unknown where it lacks no others; else as it is."""
    lacking = [name for name in fields if name not in panel.fields]
    if not lacking or set(panel.fields) - set(fields) or not set(lacking) <= set(SETTLED):
        return panel
    unknown = np.full(panel.mask.shape, np.nan)
    blocks = [unknown if name in lacking else panel[name] for name in fields]
    return replace(panel, fields=tuple(fields), blocks=np.stack(blocks))


def find_adjustments(before: Panel, after: Panel) -> dict[str, float]:
    """Symbol -> by what the closes of the bars that both have were multiplied, where they were."""
    if before.symbols != after.symbols:
        return {}
    rows, same = before.index.get_indexer(after.index), np.arange(len(after))
    rows, same = rows[rows >= 0], same[rows >= 0]
    is_known = before.mask[rows] & after.mask[same]
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.where(is_known, after.close[same] / before.close[rows], np.nan)
    # The median: a single bar that one of two downloads had wrong re-bases nothing.
    factors = {s: ratios[:, k][is_known[:, k]] for k, s in enumerate(before.symbols) if is_known[:, k].any()}
    medians = {symbol: float(np.median(each)) for symbol, each in factors.items()}
    return {symbol: factor for symbol, factor in medians.items() if abs(factor - 1.0) > SAME_PRICE}


def _join_symbols(parts: Mapping[str, Panel], symbols: tuple[str, ...]) -> Panel:
    """Panels of single symbols as one of all `symbols`, on the union of their moments; the others are missing."""
    first = next(iter(parts.values()))
    index = reduce(lambda one, other: one.union(other), (part.index for part in parts.values()))
    blocks = np.full((len(first.fields), len(index), len(symbols)), np.nan)
    mask = np.zeros((len(index), len(symbols)), bool)
    for symbol, part in parts.items():
        at, column = index.get_indexer(part.index), symbols.index(symbol)
        blocks[:, at, column], mask[at, column] = part.blocks[:, :, 0], part.mask[:, 0]
    return Panel(index, symbols, first.fields, blocks, mask, calendar=first.calendar, notes=first.notes)
