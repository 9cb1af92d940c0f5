"""What both kinds of files share: a file or a folder with one file per symbol, its options, and what is refused."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from io import BufferedReader
from pathlib import Path
from typing import Annotated, ClassVar

import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data.table_options import TableOptions
from pacesetter.errors import DataError, did_you_mean
from pacesetter.frames import Bars
from pacesetter.panel import Panel

__all__ = ["Files", "open_file"]


@dataclass(frozen=True)
class Files(TableOptions, ABC):
    """Options of both file sources, beside those of any table; of a folder only the files of `symbols` are read."""

    path: Annotated[str, "a file, or a folder with one file per symbol (named after it)"]
    _: KW_ONLY
    calendar: str | None = "auto"
    skip: Annotated[tuple[str, ...], "files of a folder to leave out, by name or symbol, e.g. one that is broken"] = ()
    sha256: Annotated[str | None, "hex digest the file must have"] = None
    max_mb: Annotated[int, "refuse larger files"] = 2048

    endings: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _table(self, path: Path) -> tuple[pd.DataFrame, Array]:
        """The file as a table, and the number of each of its rows as an editor shows it."""

    def read(self) -> Panel | Bars:
        """Bars with the row of each cell, or the Panel that was stored."""
        files = self._select_files(self._files())
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
        return self.select_symbols(Bars.join_symbols(parts) if len(parts) > 1 else parts[0], self.path)

    def pieces(self) -> Iterator[Bars]:
        """The bars of each file that `read` puts side by side, one file in memory at a time; refuses a stored panel."""
        for file in self.origin_files():
            self._check_bytes(file)
            if self._is_stored_panel(file):
                raise DataError(f"{file.name} is a stored panel, which is read whole; give the files it was made of")
            bars = self._read_one(file)
            yield bars if os.path.isdir(self.path) else self.select_symbols(bars, self.path)

    @abstractmethod
    def check_pieces(self) -> None:
        """Refuse what cannot be read some symbols at a time."""

    def bars_of_one(self) -> int:
        """Bars of the longest file at most; of a file with several symbols, of one on average. Nothing is read."""
        return max(self._rows(file) for file in self.origin_files())

    @abstractmethod
    def _rows(self, file: Path) -> int:
        """Rows of a file, for each symbol where it has several."""

    def origin_files(self) -> list[Path]:
        """The files that `read` reads, by which a cache of panels tells whether anything changed."""
        return self._select_files(self._files())

    def symbol_names(self) -> tuple[str, ...]:
        """The symbols there are, without reading their bars: of a folder by the names of its files."""
        if self.symbols:
            return self.symbols
        files = self._files()
        if os.path.isdir(self.path):
            return tuple(self._symbol_of(file) for file in files)
        return self._names_inside(files[0])

    @abstractmethod
    def _names_inside(self, file: Path) -> tuple[str, ...]:
        """The symbols of one file."""

    def _select_files(self, files: list[Path]) -> list[Path]:
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
            return self._drop_skipped(files)
        if not os.path.exists(self.path):
            raise DataError(f"file {self.path} does not exist; give data.path=…")
        return [Path(self.path)]

    def _drop_skipped(self, files: list[Path]) -> list[Path]:
        """The files of a folder without those of `skip`; refuses a name that none has."""
        names = {name: file for file in files for name in (file.name, self._symbol_of(file))}
        unknown = next((name for name in self.skip if name not in names), None)
        if unknown is not None:
            raise DataError(
                f"data.skip names '{unknown}', which {self.path} does not have{did_you_mean(unknown, names)}"
            )
        left_out = {names[name] for name in self.skip}
        if len(left_out) == len(files):
            raise DataError(f"data.skip leaves none of the {len(files)} files of {self.path}")
        return [file for file in files if file not in left_out]

    def _check_bytes(self, file: Path) -> None:
        # Checked before reading: an empty or huge file is refused without loading it.
        size = file.stat().st_size
        if size == 0:
            raise DataError(f"{file.name} is empty (0 bytes); write it again")
        self._check_size(size, file)
        if self.sha256 is not None:
            with open_file(file) as stream:
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
        symbol = self._symbol_of(file)
        in_folder = os.path.isdir(self.path)
        try:
            frame, numbers = self._table(file)
            bars = self.read_table(frame, symbol, file.name, numbers)
        except DataError as problem:
            if not in_folder:
                raise
            raise DataError(f"{problem}; or leave the file out: data.skip=[{symbol}]") from problem
        if in_folder and len(bars.symbols) != 1:
            raise DataError(f"{file.name} has {len(bars.symbols)} symbols; in a folder each file must have one")
        return bars


def open_file(file: Path) -> BufferedReader:
    try:
        return file.open("rb")
    except OSError as problem:
        raise DataError(f"{file.name} cannot be read ({problem.strerror}); check its permissions") from problem
