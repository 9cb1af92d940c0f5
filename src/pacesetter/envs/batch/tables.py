"""Feature tables as observations read them: windows and context apart, without NaN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array, Singles
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.errors import DataError

if TYPE_CHECKING:
    from pacesetter.features.table import FeatureTable

__all__ = ["ObservationTables", "entry_columns", "last_known", "to_observation"]

Names = dict[str, tuple[str, ...]]
CONTEXT = {
    "regime": "regime_",
    "leadlag": "leadlag_",
    "leaders": "leaders_",
}  # entry -> what the names of its features begin with

CHUNK = 2_000_000  # values that are filled forward at a time


@dataclass(frozen=True, eq=False)
class ObservationTables:
    """What observations are gathered from, without NaN.

    windows   (symbol, time, feature) float32
    context   (symbol, time, number) float32: regime, lead–lag and supervised side by side
    names     entry of the observation -> names of its last axis
    places    entry -> its slice of `context`
    known     (symbol, time) True where every feature and probability was known
    """

    windows: Array
    context: Array
    names: Names
    places: dict[str, slice]
    known: Array

    @classmethod
    def from_table(cls, table: FeatureTable, supervised: ArrayLike | None = None) -> ObservationTables:
        """The tables of a feature table and, optionally, of (symbol, time, class) probabilities."""
        columns = entry_columns(table.names)
        parts = {entry: table.values[:, :, places] for entry, places in columns.items() if entry in CONTEXT}
        names: Names = {entry: tuple(table.names[k] for k in places) for entry, places in columns.items()}
        known = table.mask
        if supervised is not None:
            parts["supervised"] = _probabilities(supervised, known.shape)
            names["supervised"] = tuple(f"class_{k}" for k in range(parts["supervised"].shape[2]))
            # Without probabilities a bar cannot start an episode, even where all features are there.
            known = known & np.isfinite(parts["supervised"]).all(axis=2)
        names["position"] = tuple(entry.name.lower() for entry in PositionEntry)
        names["portfolio"] = tuple(entry.name.lower() for entry in PortfolioEntry)
        ends = np.cumsum([0, *(part.shape[2] for part in parts.values())])
        places = {entry: slice(int(ends[k]), int(ends[k + 1])) for k, entry in enumerate(parts)}
        empty = np.zeros((*known.shape, 0), np.float32)
        context = np.concatenate([*parts.values(), empty], axis=2)
        windows = last_known(table.values, columns=columns["window"])
        for values in windows:  # in place: a copy of all of them would double the memory
            values[np.isnan(values)] = 0.0
        return cls(windows, to_observation(last_known(context)), names, places, known)


def entry_columns(names: Sequence[str]) -> dict[str, list[int]]:
    """Entry of the observation -> columns of a feature table with these names that it shows; the window comes first."""
    kinds = [next((entry for entry, prefix in CONTEXT.items() if name.startswith(prefix)), "window") for name in names]
    if "window" not in kinds:
        raise DataError("the feature table has regime and lead–lag features only; a window needs at least one other")
    entries = [entry for entry in ("window", *CONTEXT) if entry in kinds]
    return {entry: [k for k, kind in enumerate(kinds) if kind == entry] for entry in entries}


def _probabilities(values: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = np.asarray(values, dtype=np.float32)
    if array.ndim != 3 or array.shape[:2] != shape or array.shape[2] == 0:
        raise DataError(f"supervised has shape {array.shape}; give (symbol, time, class) with {shape} first")
    return array


def last_known(values: Singles, before: Array | None = None, columns: Sequence[int] | None = None) -> Singles:
    """A copy of (symbol, time, feature) with each NaN replaced by the last value known before it; NaN where none is.

    before    (symbol, feature) last known of the bars before these
    columns   the features that are wanted; None: all
    """
    symbols, bars, features = values.shape
    wanted: Any = slice(None) if columns is None else list(columns)
    width = features if columns is None else len(columns)
    unknown = np.full((symbols, width), np.nan, np.float32) if before is None else before
    filled = np.empty((symbols, bars, width), values.dtype)
    # A few symbols at a time: the places of what is known take several times the memory of the values.
    each = max(CHUNK // max(values[:1].size, 1), 1)
    for start in range(0, symbols, each):
        part = slice(start, start + each)
        filled[part] = _fill_forward(values[part][..., wanted], unknown[part])
    return filled


def _fill_forward(values: Singles, before: Singles) -> Singles:
    bars = np.arange(values.shape[1])[:, None]
    # Forward only: filling backwards would show the future.
    latest = np.maximum.accumulate(np.where(np.isnan(values), -1, bars), axis=1)
    filled = np.take_along_axis(values, np.maximum(latest, 0), axis=1)
    return np.where(latest >= 0, filled, before[:, None])


def to_observation(values: Singles) -> Singles:
    """Last known values as an agent sees them: float32, and 0 where nothing was known yet."""
    return np.ascontiguousarray(np.where(np.isnan(values), np.float32(0), values), dtype=np.float32)
