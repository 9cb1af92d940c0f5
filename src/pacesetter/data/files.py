"""Files as sources: csv and parquet; wide, long, or a folder with one file per symbol. Unreadable bytes are refused."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from pacesetter.data.calendars import infer_calendar, session_closes
from pacesetter.data.source import SOURCES
from pacesetter.errors import DataError, did_you_mean
from pacesetter.frames import Bars, check_columns, read_frame, recognise
from pacesetter.panel import STORED_AS, Panel

__all__ = ["CsvFiles", "ParquetFiles", "file_source"]

Array = NDArray[Any]


@dataclass(frozen=True)
class _Files(ABC):
    """Options of both file sources.

    path       a file, or a folder with one file per symbol (named after it)
    symbols    keep only these, in this order; of a folder only their files are read, of Parquet only their rows
    calendar   exchange calendar; a bar stamped with a date (all are midnights) is known at its session's close.
               `auto` takes 24/7 where weekends have their share of bars and XNYS otherwise
    stamp      whether the file's timestamps are the opens or the closes of bars; auto: opens in a column named so
    bar        length of a bar stamped at its open, e.g. 1h; found from the data when left out
    timezone   of stamps without an offset (UTC by default)
    sha256     hex digest the file must have
    max_mb     refuse larger files
    """

    path: str
    symbols: tuple[str, ...] = ()
    calendar: str = "auto"
    stamp: Literal["auto", "close", "open"] = "auto"
    bar: str | None = None
    timezone: str | None = None
    sha256: str | None = None
    max_mb: int = 2048

    endings: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _table(self, path: Path) -> tuple[pd.DataFrame, Array]:
        """The file as a table, and the number of each of its rows as an editor shows it."""

    def read(self) -> Panel | Bars:
        """Bars with the row of each cell, or the Panel that was stored."""
        files = self._asked(self._files())
        for file in files:
            self._check_bytes(file)
        stored = [file for file in files if self._is_stored_panel(file)]
        if stored and len(files) > 1:
            raise DataError(f"{stored[0].name} is a stored panel among {len(files)} files; give data.path of one")
        if stored:
            panel = Panel.load(stored[0])
            return panel.select(self.symbols) if self.symbols else panel
        parts = [self._read_one(file) for file in files]
        named = {name for part in parts for name in part.symbols}
        if self.symbols and not named.issuperset(self.symbols) and len(files) < len(every := self._files()):
            parts = [self._read_one(file) for file in every]  # a file may name its symbol otherwise than its own name
        return self._chosen(Bars.beside(parts) if len(parts) > 1 else parts[0])

    def origin_files(self) -> list[Path]:
        """The files that `read` reads, by which a cache of panels tells whether anything changed."""
        return self._asked(self._files())

    def symbol_names(self) -> tuple[str, ...]:
        """The symbols there are, without reading their bars: of a folder by the names of its files."""
        if self.symbols:
            return self.symbols
        files = self._files()
        if os.path.isdir(self.path):
            return tuple(self._symbol_of(file) for file in files)
        return self._names_inside(files[0])

    def _names_inside(self, file: Path) -> tuple[str, ...]:
        raise DataError(f"{file.name} must be read whole to know its symbols; name them by data.symbols")

    def _asked(self, files: list[Path]) -> list[Path]:
        """Of a folder only the files named after the symbols, where each has one; otherwise all."""
        by_name = {self._symbol_of(file): file for file in files}
        if self.symbols and len(files) > 1 and set(self.symbols) <= set(by_name):
            return [by_name[name] for name in self.symbols]
        return files

    def _symbol_of(self, file: Path) -> str:
        """The symbol that a file of a folder is named after."""
        ending = next((ending for ending in self.endings if file.name.lower().endswith(ending)), file.suffix)
        return file.name[: len(file.name) - len(ending)]

    def _files(self) -> list[Path]:
        if os.path.isdir(self.path):
            paths = (file for file in sorted(Path(self.path).iterdir()) if not file.name.startswith("."))
            files = [file for file in paths if file.is_file() and file.name.lower().endswith(self.endings)]
            if not files:
                raise DataError(f"folder {self.path} has no {' or '.join(self.endings)} file; give another data.path")
            return files
        if not os.path.exists(self.path):
            raise DataError(f"file {self.path} does not exist; give data.path=…")
        return [Path(self.path)]

    def _check_bytes(self, file: Path) -> None:
        # Checked before reading: an empty or huge file is refused without loading it.
        size = file.stat().st_size
        if size == 0:
            raise DataError(f"{file.name} is empty (0 bytes); write it again")
        self._check_size(size, file)
        if self.sha256 is not None:
            with _opened(file) as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            if digest != self.sha256.lower():
                raise DataError(f"{file.name} has SHA-256 {digest}, not data.sha256; the file was changed or damaged")

    def _check_size(self, size: int, file: Path) -> None:
        if size > self.max_mb * 2**20:
            raise DataError(
                f"{file.name} has {size / 2**20:,.1f} MB, above data.max_mb={self.max_mb}; raise that to allow it"
            )

    def _is_stored_panel(self, file: Path) -> bool:
        return False

    def _read_one(self, file: Path) -> Bars:
        frame, numbers = self._table(file)
        calendar: list[str] = []

        def close_of(dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
            # Remembered, because the calendar inferred from dates is the one the panel must carry.
            calendar.append(self._calendar_of(dates))
            return session_closes(dates, calendar[0])

        bars = read_frame(
            frame,
            symbol=self._symbol_of(file),
            origin=file.name,
            numbers=numbers,
            stamp=self.stamp,
            bar=self.bar,
            timezone=self.timezone,
            close_of=close_of,
        )
        if os.path.isdir(self.path) and len(bars.symbols) != 1:
            raise DataError(f"{file.name} has {len(bars.symbols)} symbols; in a folder each file must have one")
        return replace(bars, calendar=calendar[0] if calendar else self._calendar_of(bars.index))

    def _calendar_of(self, moments: pd.DatetimeIndex) -> str:
        return infer_calendar(moments) if self.calendar == "auto" else self.calendar

    def _chosen(self, bars: Bars) -> Bars:
        if not self.symbols:
            return bars
        places = {name: column for column, name in enumerate(bars.symbols)}
        missing = [name for name in self.symbols if name not in places]
        if missing:
            raise DataError(f"{self.path} has no symbol '{missing[0]}'{did_you_mean(missing[0], places)}")
        columns = [places[name] for name in self.symbols]
        # Problems of symbols that were not asked for must not refuse the load.
        kept = tuple(p for p in bars.problems if p.symbol in (None, "all symbols", *self.symbols))
        return replace(
            bars,
            symbols=self.symbols,
            blocks=bars.blocks[:, :, columns],
            mask=bars.mask[:, columns],
            rows=bars.rows[:, columns],
            origins=tuple(bars.origins[column] for column in columns),
            problems=kept,
        )


@SOURCES.register("csv")
@dataclass(frozen=True)
class CsvFiles(_Files):
    """Text files (`.csv`, `.csv.gz`), comma, semicolon or tab; every line must hold every column."""

    endings: ClassVar[tuple[str, ...]] = (".csv", ".csv.gz", ".txt")

    def _table(self, path: Path) -> tuple[pd.DataFrame, Array]:
        # The text ends in a newline, so the last piece is empty.
        lines = self._text(path).split("\n")[:-1]
        filled = np.array([number for number, line in enumerate(lines, start=1) if line], dtype=int)
        # The header has no numbers, so a decimal comma cannot mislead the count.
        delimiter = max(",;\t", key=lines[filled[0] - 1].count) if len(filled) else ","
        names, heads = _header([_cells(lines[number - 1], delimiter) for number in filled[:3]], path.name)
        check_columns(len(names), path.name)
        numbers, columns = filled[heads:], [str(place) for place in range(len(names))]
        if len(numbers) == 0:
            raise DataError(f"{path.name} is empty: it has a header and no rows")
        rows = "".join(f"{lines[number - 1]}\n" for number in numbers)
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(rows.encode()),
                pa.csv.ReadOptions(column_names=columns),
                pa.csv.ParseOptions(delimiter=delimiter),
                # text throughout: a reader that guesses types takes 0x1F for 31, and the symbol NA for nothing
                pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())),
            )
        except pa.ArrowInvalid as problem:
            raise DataError(_ragged(lines, numbers, delimiter, len(names), path.name)) from problem
        # Row numbers in messages assume one line a row.
        if table.num_rows != len(numbers):
            raise DataError(f"{path.name} has a quoted field that spans lines; write each row on one line")
        return table.to_pandas().set_axis(pd.Index(names, tupleize_cols=False), axis=1), numbers

    def _text(self, path: Path) -> str:
        most = self.max_mb * 2**20
        try:
            with _opened(path) as stream:
                # By gzip's magic number: the ending may say otherwise.
                packed = stream.read(2) == b"\x1f\x8b"
                stream.seek(0)
                # One byte beyond the limit is enough to refuse; a small archive may unpack to anything.
                raw = gzip.GzipFile(fileobj=stream).read(most + 1) if packed else stream.read()
            text = raw.decode("utf-8-sig")
        except (UnicodeDecodeError, EOFError, zlib.error, OSError) as problem:
            raise DataError(
                f"{path.name} is not UTF-8 text ({problem}); it is damaged or has another format"
            ) from problem
        self._check_size(len(raw), path)
        # Only Windows line ends are normal; a lone \r is a sign of damage and is refused below.
        text = text.replace("\r\n", "\n")
        odd = next((letter for letter in ("\x00", "\r") if letter in text), None)
        if odd is not None:
            line = text[: text.index(odd)].count("\n") + 1
            raise DataError(f"{path.name} row {line}: a stray {odd!r}; the file is damaged or has another format")
        # A download cut off inside a number still parses; the missing newline is the only trace.
        if not text.endswith("\n"):
            last = text.count("\n") + 1
            raise DataError(
                f"{path.name} row {last}: the last line has no newline; the file may be truncated, or add a newline"
            )
        return text


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a cell larger than the module's limit
        return []


def _header(rows: list[list[str]], name: str) -> tuple[list[str | tuple[str, str]], int]:
    """Column names, pairs where two levels stand above each other as pandas and yfinance write them; and their rows."""
    first, second, third = (*rows, [], [], [])[:3]
    if len(first) < 2:
        raise DataError(f"{name} has no table: the first line must name at least a timestamp and a close")
    if second[:1] and not second[0][:1].isdigit() and all(map(_is_name, second[1:])):
        if len(second) != len(first):
            raise DataError(f"{name} row 2: {len(second)} columns under a header of {len(first)}; the line is broken")
        below = third[:1] and not any(third[1:])  # pandas puts the index's name into a line of its own
        return [("timestamp", ""), *zip(first[1:], second[1:], strict=True)], 3 if below else 2
    nameless = not first[0].strip() and not any(recognise(cell) == "timestamp" for cell in first)
    return ["timestamp" if nameless else first[0], *first[1:]], 1  # pandas leaves the index without a name


def _is_name(cell: str) -> bool:
    return bool(cell.strip()) and not re.fullmatch(r"[\d.+-][\d.eE+-]*", cell.strip())


def _ragged(lines: list[str], numbers: Array, delimiter: str, width: int, name: str) -> str:
    """The sentence that names the first line with too few or too many columns."""
    for number in numbers:
        count = len(_cells(lines[number - 1], delimiter))
        if count != width:
            return f"{name} row {number}: {count} columns instead of {width} [columns]; the line is truncated or broken"
    return f"{name} has a broken line [columns]; write it again"


def _opened(file: Path) -> BufferedReader:
    try:
        return file.open("rb")
    except OSError as problem:
        raise DataError(f"{file.name} cannot be read ({problem.strerror}); check its permissions") from problem


@SOURCES.register("parquet")
@dataclass(frozen=True)
class ParquetFiles(_Files):
    """Parquet files, also those that `Panel.save` wrote."""

    endings: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def _is_stored_panel(self, file: Path) -> bool:
        return STORED_AS in (_parquet(file, lambda stored: stored.schema_arrow).metadata or {})

    def _table(self, path: Path) -> tuple[pd.DataFrame, Array]:
        return _parquet(path, self._asked_rows)  # type: ignore[no-any-return]

    def _names_inside(self, file: Path) -> tuple[str, ...]:
        names = _parquet(file, _symbols_inside)
        return tuple(names) if names else super()._names_inside(file)

    def _asked_rows(self, stored: pa.parquet.ParquetFile) -> tuple[pd.DataFrame, Array]:
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


def file_source(path: str) -> str:
    """Which source reads a path: by a file's ending, or by the endings of most files in a folder."""
    kinds = {"csv": CsvFiles.endings, "parquet": ParquetFiles.endings}
    names = [file.name for file in Path(path).iterdir()] if os.path.isdir(path) else [path]
    counts = {kind: sum(name.lower().endswith(endings) for name in names) for kind, endings in kinds.items()}
    if not any(counts.values()):
        known = ", ".join(ending for endings in kinds.values() for ending in endings)
        raise DataError(f"{path} is not a file or folder of bars by its ending ({known})")
    return max(counts, key=counts.__getitem__)


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
    stated = pa.compute.unique(stored.read([column])[column].cast(pa.string())).to_pylist()
    return [name.strip() for name in stated if name]


def _frame(table: pa.Table) -> pd.DataFrame:
    """The table in pandas, its columns one by one and each freed as it is taken: there are never two of the whole."""
    frame: pd.DataFrame = table.to_pandas(split_blocks=True, self_destruct=True)
    return frame


def _may_hold(statistics: Any, symbols: Sequence[str]) -> bool:
    """Whether a row group may have one of the symbols, by the least and the greatest in it where they are stored."""
    if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, str):
        return True
    return any(statistics.min <= symbol <= statistics.max for symbol in symbols)


def _parquet(path: Path, take: Callable[[Any], Any]) -> Any:
    """What `take` takes from the opened file; whatever goes wrong inside the library is a damaged file to us."""
    with _opened(path) as stream:
        try:
            # Without checksums a flipped byte inside a page reads as another price.
            return take(pa.parquet.ParquetFile(stream, page_checksum_verification=True))
        except Exception as problem:  # damaged metadata ends in any of a dozen exceptions
            reason = (str(problem).splitlines() or [type(problem).__name__])[0][:120]
            raise DataError(f"{path.name} is not a readable Parquet file ({reason}); it is damaged") from problem
