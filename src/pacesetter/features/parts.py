"""Features of more symbols than fit into memory: a few symbols at a time, a stored table for each part.

A table of 500 symbols × 500,000 bars × 33 features has 33 GB. Features of kinds market and leadlag read all symbols at
once and are refused; every other one is the same number as in a table of all symbols.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pacesetter.errors import ConfigError, check_range
from pacesetter.features.feature import FEATURES, default_names
from pacesetter.features.table import FeatureTable, feature_table, forget_tables
from pacesetter.panel import Panel

__all__ = ["FeaturePart", "read_feature_parts", "store_feature_parts"]

READS_ALL = ("market", "leadlag")  # kinds of features
CONTENTS = "parts.json"


class FeaturePart(NamedTuple):
    """A stored table of some symbols, with its bars and features."""

    path: Path
    symbols: tuple[str, ...]
    bars: int
    features: int


def store_feature_parts(
    load: Callable[[tuple[str, ...]], Panel],
    symbols: Sequence[str],
    folder: str | Path,
    *,
    features: Sequence[str] | None = None,
    at_once: int = 10,
) -> Iterator[FeaturePart]:
    """Load and check `at_once` symbols at a time and store their tables; gives each part once it is on disk.

    load   the checked bars of some symbols, e.g. of a folder with one file per symbol, of which only theirs are read
    The contents are written last: a folder without them is not whole.
    """
    check_range(1, at_once=at_once)
    names = list(default_names() if features is None else features)
    wide = next((name for name in names if FEATURES[name].kind in READS_ALL), None)
    if wide is not None:
        raise ConfigError(f"feature '{wide}' reads all symbols at once and cannot be made in parts; leave it out")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[FeaturePart] = []
    for first in range(0, len(symbols), at_once):
        chosen = tuple(symbols[first : first + at_once])
        table = feature_table(load(chosen), names)
        forget_tables()  # they would be kept for a second question, and take the room of the next part
        path = table.save(folder / f"part-{len(parts):04}.npz")
        parts.append(FeaturePart(path, table.symbols, len(table.index), len(table.names)))
        del table
        yield parts[-1]
    contents = [{"file": part.path.name, "symbols": part.symbols} for part in parts]
    (folder / CONTENTS).write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")


def read_feature_parts(folder: str | Path) -> Iterator[FeatureTable]:
    """The tables of a folder that `store_feature_parts` filled, one after another; refuses one that is not whole."""
    path = Path(folder) / CONTENTS
    if not path.is_file():
        raise ConfigError(f"{folder} has no {CONTENTS}: its features are not all stored; make them again")
    for part in json.loads(path.read_text(encoding="utf-8")):
        yield FeatureTable.load(path.with_name(part["file"]))
