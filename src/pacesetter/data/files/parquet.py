"""Parquet files as a source, read by row groups and columns."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from pacesetter.arrays import Array
from pacesetter.data.files.folder import Files, open_file
from pacesetter.data.files.kinds import ENDINGS
from pacesetter.errors import DataError
from pacesetter.frames import recognise
from pacesetter.panel import STORED_AS

__all__ = ["ParquetFiles"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ParquetFiles(Files):
    """Parquet files, also those that `Panel.save` wrote."""

    endings: ClassVar[tuple[str, ...]] = ENDINGS["parquet"]

    def _is_stored_panel(self, file: Path) -> bool:
        return STORED_AS in (_parquet(file, lambda stored: stored.schema_arrow).metadata or {})

    def _table(self, path: Path) -> tuple[pd.DataFrame, Array]:
        return _parquet(path, self._read_symbols_asked)  # type: ignore[no-any-return]

    def check_pieces(self) -> None:
        """Refuse rows without a symbol, which would be in no piece; by the statistics of row groups, where stored."""
        if os.path.isdir(self.path):
            return
        name = Path(self.path).name
        if _parquet(Path(self.path), _has_nameless):
            raise DataError(f"{name} has rows without a symbol [symbol]; name the symbol in each row")
        if _parquet(Path(self.path), _is_by_time):
            log.warning("%s is not sorted by symbol, so each part reads all of it; sort it to read it once", name)

    def _rows(self, file: Path) -> int:
        rows: int = _parquet(file, lambda stored: stored.metadata.num_rows)
        symbols = 1 if os.path.isdir(self.path) else max(len(_parquet(file, _symbols_inside)), 1)
        return -(-rows // symbols)

    def _names_inside(self, file: Path) -> tuple[str, ...]:
        names = _parquet(file, _symbols_inside)
        if names:
            return tuple(names)
        # Columns name the symbols of a wide file, and a file of one symbol is named after it: any rows will do.
        first = _parquet(file, lambda stored: _frame(stored.read_row_group(0)))
        return replace(self, stamp="close", calendar=None).read_table(first, self._symbol_of(file), file.name).symbols

    def _read_symbols_asked(self, stored: pa.parquet.ParquetFile) -> tuple[pd.DataFrame, Array]:
        """The table of the symbols alone, with the numbers of its rows; of the whole file where one is absent."""
        names = stored.schema_arrow.names
        column = next((name for name in names if recognise(name) == "symbol"), None)
        if self.symbols and column is not None:
            table, numbers = _rows_of(stored, column, self.symbols)
            if set(pa.compute.unique(table[column]).to_pylist()) >= set(self.symbols):
                return _frame(table), numbers
        elif self.symbols and len(self.symbols) < len(names) and set(self.symbols) <= set(names):
            others = {name for name in names if recognise(name) == "timestamp" or name.startswith("__index")}
            wide: pd.DataFrame = stored.read([name for name in names if name in others | set(self.symbols)]).to_pandas()
            return wide, np.arange(len(wide))
        frame = _frame(stored.read())
        return frame, np.arange(len(frame))


def _rows_of(stored: pa.parquet.ParquetFile, column: str, symbols: Sequence[str]) -> tuple[pa.Table, Array]:
    """The rows of a long file whose symbol is one of these; row groups that can hold none of them are not read."""
    place = next(k for k in range(stored.metadata.num_columns) if stored.schema.column(k).path == column)
    wanted, tables, numbers, first = pa.array(symbols, pa.string()), [], [], 0
    for group in range(stored.metadata.num_row_groups):
        facts = stored.metadata.row_group(group)
        if _may_hold(facts.column(place).statistics, symbols):
            table = stored.read_row_group(group)
            is_wanted = pa.compute.is_in(table[column].cast(pa.string()), value_set=wanted)
            tables.append(table.filter(is_wanted))
            numbers.append(first + np.flatnonzero(is_wanted.to_numpy(zero_copy_only=False)))
        first += facts.num_rows
    empty = stored.schema_arrow.empty_table()
    rows = np.concatenate([*numbers, np.zeros(0, np.int64)]).astype(np.int64)
    return pa.concat_tables(tables) if tables else empty, rows


def _symbols_inside(stored: pa.parquet.ParquetFile) -> list[str]:
    """The names in the column of symbols, in order of appearance; none where there is no such column."""
    column = next((name for name in stored.schema_arrow.names if recognise(name) == "symbol"), None)
    if column is None:
        return []
    names: dict[str, None] = {}
    # One row group at a time: the column of a file of many symbols may be larger than memory.
    for group in range(stored.metadata.num_row_groups):
        stated = stored.read_row_group(group, [column])[column].cast(pa.string())
        names |= dict.fromkeys(name.strip() for name in pa.compute.unique(stated).to_pylist() if name)
    return list(names)


def _symbol_facts(stored: pa.parquet.ParquetFile) -> list[Any]:
    """What each row group knows of its symbols; nothing without such a column."""
    place = next((k for k, name in enumerate(stored.schema.names) if recognise(name) == "symbol"), None)
    groups = range(stored.metadata.num_row_groups) if place is not None else ()
    return [stored.metadata.row_group(group).column(place).statistics for group in groups]


def _has_nameless(stored: pa.parquet.ParquetFile) -> bool:
    return any(fact is not None and fact.has_null_count and fact.null_count for fact in _symbol_facts(stored))


def _is_by_time(stored: pa.parquet.ParquetFile) -> bool:
    """Whether most of several row groups may hold the first symbol."""
    facts = _symbol_facts(stored)
    first = facts[0].min if facts and facts[0] is not None and facts[0].has_min_max else ""
    return len(facts) > 3 and 2 * sum(_may_hold(fact, [first]) for fact in facts) > len(facts)


def _frame(table: pa.Table) -> pd.DataFrame:
    """The table in pandas, its columns one by one and each freed as it is taken: there are never two of the whole."""
    frame: pd.DataFrame = table.to_pandas(split_blocks=True, self_destruct=True)
    return frame


def _may_hold(statistics: Any, symbols: Sequence[str]) -> bool:
    """Whether a row group may have one of the symbols, by the least and the greatest in it where they are stored."""
    if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, str):
        return True
    return any(statistics.min <= symbol <= statistics.max for symbol in symbols)


def _parquet(path: Path, take: Callable[[Any], object]) -> Any:
    """What `take` takes from the opened file; whatever goes wrong inside the library is a damaged file to us."""
    with open_file(path) as stream:
        try:
            # Without checksums a flipped byte inside a page reads as another price.
            return take(pa.parquet.ParquetFile(stream, page_checksum_verification=True))
        except Exception as problem:  # damaged metadata ends in any of a dozen exceptions
            reason = (str(problem).splitlines() or [type(problem).__name__])[0][:120]
            raise DataError(f"{path.name} is not a readable Parquet file ({reason}); it is damaged") from problem
