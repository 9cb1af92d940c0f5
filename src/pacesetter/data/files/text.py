"""Text files as a source: every line must hold every column; unreadable bytes are refused."""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from pacesetter.arrays import Array
from pacesetter.data.files.folder import Files, open_file
from pacesetter.data.files.kinds import ENDINGS
from pacesetter.errors import DataError
from pacesetter.frames import check_columns, recognise

__all__ = ["CsvFiles"]

UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # first bytes of Excel's "Unicode text"
SHORTEST_ROW = 16  # bytes: a date and a price


@dataclass(frozen=True)
class CsvFiles(Files):
    """Text files (`.csv`, `.csv.gz`), comma, semicolon, tab or |; every line must hold every column."""

    endings: ClassVar[tuple[str, ...]] = ENDINGS["csv"]

    def check_pieces(self) -> None:
        if not os.path.isdir(self.path):
            name = Path(self.path).name
            raise DataError(f"{name} is text and read whole; store it as Parquet, or as a folder of a file per symbol")

    def _names_inside(self, file: Path) -> tuple[str, ...]:
        raise DataError(f"{file.name} must be read whole to know its symbols; name them by data.symbols")

    def _rows(self, file: Path) -> int:
        return file.stat().st_size // SHORTEST_ROW + 1

    def _table(self, path: Path) -> tuple[pd.DataFrame, Array]:
        # The text ends in a newline, so the last piece is empty.
        lines = self._text(path).split("\n")[:-1]
        filled = np.array([number for number, line in enumerate(lines, start=1) if line], dtype=int)
        # The header has no numbers, so a decimal comma cannot mislead the count.
        delimiter = max(",;\t|", key=lines[filled[0] - 1].count) if len(filled) else ","
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
            raise DataError(_describe_ragged_line(lines, numbers, delimiter, len(names), path.name)) from problem
        # Row numbers in messages assume one line a row.
        if table.num_rows != len(numbers):
            raise DataError(f"{path.name} has a quoted field that spans lines; write each row on one line")
        return table.to_pandas().set_axis(pd.Index(names, tupleize_cols=False), axis=1), numbers

    def _text(self, path: Path) -> str:
        most = self.max_mb * 2**20
        try:
            with open_file(path) as stream:
                # By gzip's magic number: the ending may say otherwise.
                packed = stream.read(2) == b"\x1f\x8b"
                stream.seek(0)
                # One byte beyond the limit is enough to refuse; a small archive may unpack to anything.
                raw = gzip.GzipFile(fileobj=stream).read(most + 1) if packed else stream.read()
            text = raw.decode("utf-16" if raw[:2] in UTF_16 else "utf-8-sig")
        except (UnicodeDecodeError, EOFError, zlib.error, OSError) as problem:
            raise DataError(
                f"{path.name} is not UTF-8 text ({problem}); save it as UTF-8; it is damaged or has another format"
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
    if all(cell.strip() and not _is_name(cell) for cell in first):
        raise DataError(
            f"{name} has no line of names, it begins with {', '.join(first[:3])} …; write one above, e.g. "
            "timestamp,open,high,low,close,volume"
        )
    if second[:1] and not second[0][:1].isdigit() and all(map(_is_name, second[1:])):
        if len(second) != len(first):
            raise DataError(f"{name} row 2: {len(second)} columns under a header of {len(first)}; the line is broken")
        below = third[:1] and not any(third[1:])  # pandas puts the index's name into a line of its own
        return [("timestamp", ""), *zip(first[1:], second[1:], strict=True)], 3 if below else 2
    nameless = not first[0].strip() and not any(recognise(cell) == "timestamp" for cell in first)
    return ["timestamp" if nameless else first[0], *first[1:]], 1  # pandas leaves the index without a name


def _is_name(cell: str) -> bool:
    return bool(cell.strip()) and not re.fullmatch(r"[\d.+-][\d.eE+-]*", cell.strip())


def _describe_ragged_line(lines: list[str], numbers: Array, delimiter: str, width: int, name: str) -> str:
    """The sentence that names the first line with too few or too many columns."""
    for number in numbers:
        count = len(_cells(lines[number - 1], delimiter))
        if count != width:
            return f"{name} row {number}: {count} columns instead of {width} [columns]; the line is truncated or broken"
    return f"{name} has a broken line [columns]; write it again"
