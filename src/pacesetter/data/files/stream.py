"""Bars of more symbols than fit into memory: some symbols at a time, on the moments and fields of all of them.

The files are read twice: once for the moments at which any symbol has a bar, and once for the bars. A finding, a
repaired gap or a coarse bar is then the same as where all symbols were read at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data.files.folder import Files
from pacesetter.data.loading import Loading, apply_allowances, apply_loading, validate_bars
from pacesetter.data.quality import Examined, Readiness, examine_bars, whole_readiness
from pacesetter.data.source import Source
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.frames import Bars
from pacesetter.panel import Panel, utc_index

__all__ = ["RunGroups", "SymbolStream", "check_stream", "groups", "one_by_one", "open_stream"]

Symbols = tuple[str, ...]
Result = TypeVar("Result")


class RunGroups(Protocol):
    """Calls a function with each of some symbols, here or by workers; the results are in the order of the groups."""

    def __call__(self, function: Callable[[Symbols], Result], groups: Sequence[Symbols]) -> list[Result]: ...


def one_by_one(function: Callable[[Symbols], Result], groups: Sequence[Symbols]) -> list[Result]:
    """Each group in this process."""
    return [function(group) for group in groups]


def groups(symbols: Symbols, at_once: int) -> list[Symbols]:
    """The symbols in runs of `at_once`."""
    return [symbols[first : first + at_once] for first in range(0, len(symbols), at_once)]


@dataclass(frozen=True)
class SymbolStream:
    """Files of which any symbols can be read alone.

    index      moments at which any symbol has a bar
    fields     that any symbol has
    calendar   that all symbols follow; None where they differ
    """

    origin: Files
    loading: Loading
    symbols: Symbols
    index: pd.DatetimeIndex
    fields: tuple[str, ...]
    calendar: str | None

    def bars(self, symbols: Symbols) -> Bars:
        """The raw bars of some symbols on all moments; besides them, those of one file are in memory."""
        placed = Bars.from_parts(_pieces(self.origin, symbols), self.index, self.fields, len(symbols))
        return replace(placed, calendar=self.calendar)

    def panel(self, symbols: Symbols) -> Panel:
        """The checked bars of some symbols: their columns in the panel that `load` gives of all."""
        return validate_bars(self.bars(symbols), self.loading, self.origin.path)

    @cached_property
    def moments(self) -> pd.DatetimeIndex:
        """The moments of the loaded panel, after resampling and cutting."""
        unseen = np.zeros((len(self.index), 1), bool)
        empty = Panel(self.index, ("none",), ("close",), np.full((1, len(self.index), 1), np.nan), unseen)
        return apply_loading(empty, replace(self.loading, fill="none", membership=None)).index


class _Survey(NamedTuple):
    """What a survey keeps of some symbols."""

    stamps: Array
    fields: tuple[str, ...]
    calendars: frozenset[str | None]


def open_stream(source: Source, loading: Loading, at_once: int, run: RunGroups = one_by_one) -> SymbolStream:
    """Survey the files of a source, `at_once` symbols at a time; refuses a source without files."""
    if not isinstance(source, Files):
        raise ConfigError("this source has no files to read in parts; give a folder or a file by data=PATH")
    if loading.fill == "drop":
        raise ConfigError("data.fill=drop asks all symbols at once and cannot be made in parts; use forward")
    symbols = _names(source)
    surveys = run(partial(_survey, source), groups(symbols, at_once))
    calendars = frozenset().union(*(part.calendars for part in surveys))
    if len(calendars) > 1 and not os.path.isdir(source.path):
        # The dates of a file are moved to the closes of one calendar, which a part of its symbols cannot know.
        raise DataError(f"symbols of {source.path} follow {len(calendars)} calendars; name one by data.calendar")
    return SymbolStream(
        source,
        loading,
        symbols,
        utc_index(_union([part.stamps for part in surveys]).view("M8[ns]")),
        tuple(dict.fromkeys(field for part in surveys for field in part.fields)),
        next(iter(calendars)) if len(calendars) == 1 else None,
    )


def check_stream(stream: SymbolStream, at_once: int, run: RunGroups = one_by_one) -> Readiness:
    """What `check` says of all symbols, some of them examined at a time."""
    parts = run(partial(_examine, stream), groups(stream.symbols, at_once))
    report = whole_readiness(parts, stream.index, stream.fields, stream.calendar)
    return replace(report, findings=apply_allowances(report.findings, stream.loading))


def _examine(stream: SymbolStream, symbols: Symbols) -> Examined:
    return examine_bars(stream.bars(symbols), stream.loading.quality)


def _names(source: Files) -> Symbols:
    """The symbols to read; of a folder each must have its file."""
    source.check_pieces()
    names = source.symbol_names()
    is_named = bool(source.symbols) and os.path.isdir(source.path)
    known = replace(source, symbols=()).symbol_names() if is_named else names
    missing = next((name for name in names if name not in known), None)
    if missing is not None:
        raise DataError(f"{source.path} has no symbol '{missing}'{did_you_mean(missing, known)}")
    return names


def _survey(source: Files, symbols: Symbols) -> _Survey:
    stamps: list[Array] = []
    fields: dict[str, None] = {}
    calendars: set[str | None] = set()
    for part in _pieces(source, symbols):
        stamps = [_union([*stamps, part.index.asi8])]
        fields |= dict.fromkeys(part.fields)
        calendars.add(part.calendar)
    return _Survey(stamps[0], tuple(fields), frozenset(calendars))


def _pieces(source: Files, symbols: Symbols) -> Iterator[Bars]:
    """The bars of some symbols, file by file."""
    places = iter(symbols)
    for bars in replace(source, symbols=symbols).pieces():
        for symbol in bars.symbols:
            if symbol != (name := next(places)):
                raise DataError(
                    f"the file of {name} calls its symbol '{symbol}'; name the file after it to read it in parts"
                )
        yield bars


def _union(stamps: Sequence[Array]) -> Array:
    """Sorted moments of all; equal ones, as most symbols have them, cost a comparison."""
    whole = stamps[0]
    for each in stamps[1:]:
        whole = whole if np.array_equal(whole, each) else np.union1d(whole, each)
    return whole
