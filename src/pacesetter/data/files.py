"""Files as sources: csv and parquet; wide, long, or a folder of one file a symbol. Unreadable bytes are refused."""

from __future__ import annotations

import csv
import hashlib
import io
from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pacesetter.data.calendars import infer_calendar, session_closes
from pacesetter.data.source import SOURCES
from pacesetter.errors import DataError
from pacesetter.frames import Bars, read_frame, recognise
from pacesetter.panel import STORED_AS, Panel

__all__ = ["CsvFiles", "ParquetFiles"]


@dataclass(frozen=True)
class _Files:
    """Options of both file sources.

    path       a file, or a folder with one file a symbol (named after it)
    symbols    keep only these, in this order
    calendar   exchange calendar of bare dates; `auto` takes 24/7 when there are weekends and XNYS otherwise
    stamp      whether the file's time stamps are the opens or the closes of bars
    bar        length of a bar stamped at its open, e.g. 1h; found from the data when left out
    timezone   of stamps without an offset (UTC by default)
    sha256     hex digest the file must have
    max_mb     refuse larger files
    """

    path: str
    symbols: tuple[str, ...] = ()
    calendar: str = "auto"
    stamp: Literal["close", "open"] = "close"
    bar: str | None = None
    timezone: str | None = None
    sha256: str | None = None
    max_mb: int = 2048

    endings: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _table(self, path: Path) -> tuple[pd.DataFrame, int]:
        """The file as a table, and the number of its first data row as an editor shows it."""

    def read(self) -> Panel | Bars:
        """Bars with the row of each cell, or the Panel that was stored."""
        files = self._files()
        for file in files:
            self._check_bytes(file)
        if len(files) == 1 and self._is_stored_panel(files[0]):
            return Panel.load(files[0])
        parts = [self._read_one(file, named=len(files) > 1 or Path(self.path).is_dir()) for file in files]
        return self._chosen(Bars.beside(parts) if len(parts) > 1 else parts[0])

    def _files(self) -> list[Path]:
        root = Path(self.path)
        if root.is_dir():
            files = sorted(file for file in root.iterdir() if file.name.lower().endswith(self.endings))
            if not files:
                raise DataError(f"folder {root} holds no {' or '.join(self.endings)} file")
            return files
        if not root.exists():
            raise DataError(f"there is no file {root}; give data.path=…")
        return [root]

    def _check_bytes(self, file: Path) -> None:
        size = file.stat().st_size
        if size == 0:
            raise DataError(f"{file.name} is empty (0 bytes)")
        if size > self.max_mb * 2**20:
            raise DataError(f"{file.name} has {size / 2**20:,.0f} MB; allow it with data.max_mb={-(-size // 2**20)}")
        if self.sha256 is not None:
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            if digest != self.sha256.lower():
                raise DataError(f"{file.name} has SHA-256 {digest}, not data.sha256; the file was changed or damaged")

    def _is_stored_panel(self, file: Path) -> bool:
        return False

    def _read_one(self, file: Path, named: bool) -> Bars:
        frame, first_row = self._table(file)
        symbol = file.name.split(".")[0]
        calendar: list[str] = []

        def close_of(dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
            calendar.append(infer_calendar(dates) if self.calendar == "auto" else self.calendar)
            return session_closes(dates, calendar[0])

        bars = read_frame(
            frame,
            symbol=symbol,
            origin=file.name,
            first_row=first_row,
            stamp=self.stamp,
            bar=self.bar,
            timezone=self.timezone,
            close_of=close_of,
        )
        if named and len(bars.symbols) != 1:
            raise DataError(f"{file.name} holds {len(bars.symbols)} symbols; in a folder each file holds one")
        if not calendar:
            calendar.append(infer_calendar(bars.index) if self.calendar == "auto" else self.calendar)
        return replace(bars, calendar=calendar[0], symbols=(symbol,) if named else bars.symbols)

    def _chosen(self, bars: Bars) -> Bars:
        if not self.symbols:
            return bars
        panel_columns = {name: column for column, name in enumerate(bars.symbols)}
        missing = [name for name in self.symbols if name not in panel_columns]
        if missing:
            raise DataError(f"{Path(self.path).name} has no symbol '{missing[0]}'; it has {len(bars.symbols)} others")
        columns = [panel_columns[name] for name in self.symbols]
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

    def _table(self, path: Path) -> tuple[pd.DataFrame, int]:
        text = self._text(path)
        header, heads = _header(text, path.name)
        delimiter = max(",;\t", key=heads[0].count)
        kinds = {name: pa.string() for name in header if recognise(name) in ("timestamp", "symbol")}
        parse = pa.csv.ParseOptions(delimiter=delimiter)
        read = pa.csv.ReadOptions(column_names=header, skip_rows=len(heads))
        source = text.encode()
        try:
            convert = pa.csv.ConvertOptions(column_types=kinds)
            table = pa.csv.read_csv(pa.BufferReader(source), read, parse, convert)
        except pa.ArrowInvalid as problem:
            if "columns" in str(problem):
                raise DataError(_ragged(text, delimiter, len(header), len(heads), path.name)) from problem
            strings = pa.csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=True)
            table = pa.csv.read_csv(pa.BufferReader(source), read, parse, strings)
        frame = table.to_pandas()
        if len(heads) == 2:
            frame.columns = pd.Index([tuple(name.split("\x1f")) if "\x1f" in name else name for name in frame.columns])
        return frame, len(heads) + 1

    def _text(self, path: Path) -> str:
        try:
            with pa.input_stream(str(path), compression="detect") as stream:
                raw = stream.read()
            text = bytes(raw).decode("utf-8-sig")
        except (UnicodeDecodeError, pa.ArrowException, OSError) as problem:
            raise DataError(
                f"{path.name} is no UTF-8 text ({problem}); it is damaged or of another format"
            ) from problem
        if "\x00" in text:
            raise DataError(f"{path.name} holds a NUL byte; it is damaged or of another format")
        if not text.endswith("\n"):
            last = text.count("\n") + 1
            raise DataError(
                f"{path.name} row {last}: the last line does not end; the file may be cut, end it with a newline"
            )
        return text


def _header(text: str, name: str) -> tuple[list[str], list[str]]:
    """Column names, and the one or two header lines they stand in (two: field over symbol, as pandas writes them)."""
    lines = text.split("\n", 2)
    delimiter = max(",;\t", key=lines[0].count)
    first = next(csv.reader(io.StringIO(lines[0]), delimiter=delimiter), [])
    if len(lines) < 2 or len(first) < 2:
        raise DataError(f"{name} has no table: the first line must name at least a time stamp and a close")
    if len(set(first[1:])) == len(first) - 1:
        return first, lines[:1]
    second = next(csv.reader(io.StringIO(lines[1]), delimiter=delimiter), [])
    if len(second) != len(first):
        raise DataError(f"{name} row 2: {len(second)} columns under a header of {len(first)}")
    return ["timestamp", *(f"{a}\x1f{b}" for a, b in zip(first[1:], second[1:], strict=True))], lines[:2]


def _ragged(text: str, delimiter: str, width: int, skip: int, name: str) -> str:
    """The sentence that names the first line with too few or too many columns."""
    for line, cells in enumerate(csv.reader(io.StringIO(text), delimiter=delimiter), start=1):
        if line > skip and cells and len(cells) != width:
            return f"{name} row {line}: {len(cells)} columns instead of {width} [columns]; the line is cut or broken"
    return f"{name} has lines of different length [columns]"


@SOURCES.register("parquet")
@dataclass(frozen=True)
class ParquetFiles(_Files):
    """Parquet files, also those that `Panel.save` wrote."""

    endings: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def _is_stored_panel(self, file: Path) -> bool:
        return STORED_AS in (_parquet(file, pa.parquet.read_schema).metadata or {})

    def _table(self, path: Path) -> tuple[pd.DataFrame, int]:
        return _parquet(path, pa.parquet.read_table).to_pandas(), 0


def _parquet(path: Path, read: Any) -> Any:
    try:
        return read(str(path))
    except (pa.ArrowException, OSError, ValueError) as problem:
        reason = str(problem).splitlines()[0][:120]
        raise DataError(f"{path.name} is no readable Parquet file ({reason}); it is cut or damaged") from problem
