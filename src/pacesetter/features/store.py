"""Features of more symbols than fit into memory, in one table on disk: 500 symbols × 500,000 bars × 33 take 33 GB.

A feature of a symbol's own bars is computed with some symbols at a time. One that reads all symbols (kinds market and
leadlag) is computed before, for some bars at a time with the bars that it remembers. The numbers are those of a table
in memory; only lead–lag features may differ by the rounding of sums that begin at another bar.

    values.npy   (symbol, time, feature) float32
    index.npy    (time,) int64 nanoseconds at which the bars are known
    about.json   names, and a hash of each symbol's values; written last: a folder without it is not whole
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data.files.stream import RunGroups, SymbolStream, groups, one_by_one
from pacesetter.errors import ConfigError, DataError, check_range
from pacesetter.features.causality import check_plugins
from pacesetter.features.feature import FEATURES, Feature
from pacesetter.features.table import FeatureTable, choose_features, feature_column
from pacesetter.panel import Panel

__all__ = ["bytes_of_bar", "read_features", "store_features"]

READS_ALL = ("market", "leadlag")  # kinds of features
VALUES, INDEX, ABOUT, SCRATCH = "values.npy", "index.npy", "about.json", "scratch"
ROOM = 1.02  # of what the table takes on disk
BLOCK = 8192  # bars that are turned from columns into rows at once, so that they stay in the cache


def bytes_of_bar(features: int, fields: int) -> int:
    """Memory that one bar of a symbol takes while its features are computed: columns, bars twice, intermediates."""
    return 4 * features + 2 * 8 * fields + 80


@dataclass(frozen=True)
class _Plan:
    """What a worker needs to store some symbols."""

    stream: SymbolStream
    folder: Path
    names: tuple[str, ...]
    wide: tuple[str, ...]


def store_features(
    stream: SymbolStream,
    folder: str | Path,
    *,
    at_once: int,
    features: Sequence[str] | None = None,
    extra: Sequence[Feature] = (),
    run: RunGroups = one_by_one,
) -> FeatureTable:
    """The table of all symbols in `folder`, with `at_once` of them in memory; values stay on disk and are read there.

    extra   features that read all symbols, e.g. of lead–lag; others must be registered, so that workers know them
    """
    check_range(1, at_once=at_once)
    kept, left_out = choose_features(stream.fields, features, extra)
    wide = tuple(feature for feature in kept if feature.kind in READS_ALL)
    unknown = next((feature.name for feature in extra if feature not in wide), None)
    if unknown is not None:
        raise ConfigError(f"feature '{unknown}' is not registered; add it to FEATURES to compute it in parts")
    folder = Path(folder)
    plan = _Plan(stream, folder, tuple(feature.name for feature in kept), tuple(feature.name for feature in wide))
    shape = (len(stream.symbols), len(stream.moments), len(kept))
    _begin(folder, shape)
    with _scratch(folder):
        if wide:
            _store_wide(plan, wide, at_once, run)
        digests = run(partial(_store_symbols, plan), groups(stream.symbols, at_once))
    about = {
        "symbols": stream.symbols,
        "names": plan.names,
        "memory": {feature.name: feature.memory_bars for feature in kept},
        "left_out": left_out,
        "digests": [digest for part in digests for digest in part],
    }
    np.save(folder / INDEX, stream.moments.asi8)
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return read_features(folder)


def read_features(folder: str | Path, *, verify: bool = False) -> FeatureTable:
    """The table of a folder that `store_features` filled; values are read from disk where they are looked at.

    verify   read all of them once, and refuse a symbol whose values no longer have their hash
    """
    folder = Path(folder)
    if not (folder / ABOUT).is_file():
        raise ConfigError(f"{folder} has no {ABOUT}: its features are not all stored; make them again")
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        index = pd.DatetimeIndex(np.load(folder / INDEX), tz="UTC").as_unit("ns")
        values = np.load(folder / VALUES, mmap_mode="r")
        names = tuple(about["symbols"]), tuple(about["names"])
        table = FeatureTable(index, *names, values, about["memory"], about["left_out"])
        digests = about["digests"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise DataError(
            f"{folder} is not a stored feature table ({type(problem).__name__}); make it again"
        ) from problem
    for name, rows, digest in zip(table.symbols, values, digests, strict=True) if verify else ():
        if _digest(rows) != digest:
            raise DataError(f"features of {name} in {folder} were changed after they were stored; make them again")
    return table


# ---- some symbols at a time ------------------------------------------------------------------------------------------


def _store_symbols(plan: _Plan, symbols: tuple[str, ...]) -> list[str]:
    """Compute and write the features of some symbols; gives the hash of each one's values."""
    panel, first = plan.stream.panel(symbols), plan.stream.symbols.index(symbols[0])
    known = dict(zip(plan.wide, _open_stored(plan, plan.wide, first, len(symbols)), strict=True))
    check_plugins(panel, [FEATURES[name] for name in plan.names if name not in known])
    columns = [known[name] if name in known else feature_column(panel, FEATURES[name]) for name in plan.names]
    digests = []
    for place in range(len(symbols)):
        rows = np.load(plan.folder / VALUES, mmap_mode="r+")[first + place]
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            np.stack([column[part, place] for column in columns], axis=-1, out=rows[part])
        digests.append(_digest(rows))
        del rows
    return digests


def _digest(rows: Array) -> str:
    return hashlib.blake2b(np.ascontiguousarray(rows).data, digest_size=16).hexdigest()


def _begin(folder: Path, shape: tuple[int, int, int]) -> None:
    """An empty table of the shape; refuses a disk without room, and takes the place of an older one."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; name a folder for the features")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ABOUT).unlink(missing_ok=True)
    (folder / VALUES).unlink(missing_ok=True)
    needed, free = ROOM * 4 * float(np.prod(shape, dtype=np.float64)), shutil.disk_usage(folder).free
    if needed > free:
        raise ConfigError(
            f"the features take {needed / 1e9:,.1f} GB and {folder} has {free / 1e9:,.1f} GB free; name fewer features "
            "or symbols, or another folder"
        )
    _create(folder / VALUES, shape, np.float32)


def _create(path: Path, shape: tuple[int, ...], kind: type[np.generic]) -> None:
    """An array of zeros on disk whose room is reserved: a disk that fills up would kill a process that writes there."""
    np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape).flush()
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


# ---- features that read all symbols: some bars at a time -------------------------------------------------------------


@contextmanager
def _scratch(folder: Path) -> Iterator[None]:
    """A folder for what is between the two passes; removed at the end."""
    (folder / SCRATCH).mkdir(exist_ok=True)
    try:
        yield
    finally:
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)


def _store_wide(plan: _Plan, wide: tuple[Feature, ...], at_once: int, run: RunGroups) -> None:
    """Write each feature's (symbol, time) values into the scratch folder, from a copy of the bars it reads there."""
    stream, scratch = plan.stream, plan.folder / SCRATCH
    shape = (len(stream.symbols), len(stream.moments))
    fields = tuple(dict.fromkeys(field for feature in wide for field in ("close", *feature.needs)))
    for field in fields:
        _create(scratch / f"bars-{field}.npy", shape, np.float64)
    _create(scratch / "mask.npy", shape, np.bool_)
    for feature in wide:
        _create(scratch / f"{feature.name}.npy", shape, np.float32)
    run(partial(_copy_bars, plan, fields), groups(stream.symbols, at_once))
    mask, longest = np.load(scratch / "mask.npy", mmap_mode="r"), max(feature.memory_bars for feature in wide)
    # As many cells as a group of symbols has.
    size = max(at_once * shape[1] // shape[0], 1)
    for first in range(0, shape[1], size):
        last = min(first + size, shape[1])
        before = _memory_start(mask, first, last, longest)
        bars = (np.load(scratch / f"bars-{field}.npy", mmap_mode="r")[:, before:last].T for field in fields)
        part = stream.moments[before:last], stream.symbols, fields, np.stack(list(bars)), mask[:, before:last].T.copy()
        panel = Panel(*part)
        for feature in wide:
            out = np.load(scratch / f"{feature.name}.npy", mmap_mode="r+")
            out[:, first:last] = feature_column(panel, feature)[first - before :].T


def _memory_start(mask: Array, first: int, last: int, memory_bars: int) -> int:
    """The bar from which all must be known: each symbol of the block has its latest `memory_bars` bars since then."""
    alive = np.flatnonzero(mask[:, first:last].any(axis=1))
    begin = first
    for row in (mask[place] for place in alive):
        # From the block back, in steps: most symbols have these bars right before it.
        reach = memory_bars
        while reach < first and np.count_nonzero(row[first - reach : first]) < memory_bars:
            reach *= 2
        if reach >= first:  # the rest of its life, however long ago that began
            observed = np.flatnonzero(row[:first])
            reach = first - int(observed[-memory_bars:][0]) if len(observed) else 0
        begin = min(begin, first - reach)
    return begin


def _copy_bars(plan: _Plan, fields: tuple[str, ...], symbols: tuple[str, ...]) -> None:
    panel, first = plan.stream.panel(symbols), plan.stream.symbols.index(symbols[0])
    where, scratch = slice(first, first + len(symbols)), plan.folder / SCRATCH
    np.load(scratch / "mask.npy", mmap_mode="r+")[where] = panel.mask.T
    for field in fields:
        np.load(scratch / f"bars-{field}.npy", mmap_mode="r+")[where] = panel[field].T


def _open_stored(plan: _Plan, names: tuple[str, ...], first: int, count: int) -> list[Array]:
    """The (time, symbol) values of features that were stored before, of some symbols."""
    files = (np.load(plan.folder / SCRATCH / f"{name}.npy", mmap_mode="r") for name in names)
    return [file[first : first + count].T for file in files]
