"""The feature table: every feature of every symbol at every bar, computed once per panel; a window is a view."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from pacesetter.arrays import Array, Booleans, Singles
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.features.causality import check_plugins, is_own
from pacesetter.features.feature import FEATURES, Feature, default_names
from pacesetter.panel import Panel

__all__ = ["FeatureTable", "choose_features", "feature_column", "feature_table", "forget_tables"]

_CACHED_TABLES = 2
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTable:
    """Raw feature values.

    index      (time,) moments at which the bars are known
    values     (symbol, time, feature) float32, read-only; NaN while warming up and where no bar was observed
    memory     bars of history per feature name
    left_out   features the panel cannot give, with the reason
    """

    index: pd.DatetimeIndex
    symbols: tuple[str, ...]
    names: tuple[str, ...]
    values: Array
    memory: Mapping[str, int]
    left_out: Mapping[str, str]

    def __post_init__(self) -> None:
        shape = (len(self.symbols), len(self.index), len(self.names))
        if self.values.shape != shape or self.values.dtype != np.float32:
            raise DataError(f"feature values are {self.values.dtype} {self.values.shape}, not float32 {shape}")
        self.values.flags.writeable = False
        object.__setattr__(self, "memory", MappingProxyType(dict(self.memory)))
        object.__setattr__(self, "left_out", MappingProxyType(dict(self.left_out)))

    def __reduce__(self) -> tuple[object, ...]:
        """Plain mappings, so that a table travels to worker processes."""
        parts = (self.index, self.symbols, self.names, self.values, dict(self.memory), dict(self.left_out))
        return FeatureTable, parts

    def __repr__(self) -> str:
        return f"FeatureTable({len(self.symbols)} symbols × {len(self.index)} bars × {len(self.names)} features)"

    @property
    def memory_bars(self) -> int:
        """Latest observed bars of a symbol that fix its whole newest row."""
        return max(self.memory.values())

    @cached_property
    def mask(self) -> Booleans:
        """(symbol, time) True where every feature is finite."""
        known: Array = np.logical_and.reduce(np.isfinite(self.values), axis=2)
        known.flags.writeable = False
        return known

    @cached_property
    def fingerprint(self) -> str:
        """Content hash of values, names, symbols and moments."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(json.dumps([self.symbols, self.names, dict(self.memory)]).encode())
        digest.update(self.index.asi8.tobytes())
        # NaN has many bit patterns; one of them, so that equal tables hash alike.
        digest.update(np.where(np.isnan(self.values), np.float32(np.nan), self.values).tobytes())
        return digest.hexdigest()

    def position(self, symbol: str | int) -> int:
        """Row of a symbol given by name or by position."""
        if isinstance(symbol, str):
            if symbol not in self.symbols:
                raise DataError(f"the table has no symbol '{symbol}'{did_you_mean(symbol, self.symbols)}")
            return self.symbols.index(symbol)
        if not 0 <= symbol < len(self.symbols):
            raise DataError(f"the table has no symbol {symbol}; positions run from 0 to {len(self.symbols) - 1}")
        return symbol

    def window(self, symbol: str | int, t: int, bars: int) -> Array:
        """(bars, feature) view of the latest `bars` bars at bar `t`, `t` included."""
        if not 1 <= bars <= t + 1 <= len(self.index):
            raise DataError(
                f"no window of {bars} bars ends at bar {t}; use bars ≥ 1 and t from bars−1 to {len(self.index) - 1}"
            )
        view: Array = self.values[self.position(symbol), t - bars + 1 : t + 1]
        return view

    def to_frame(self) -> pd.DataFrame:
        """Wide table: a row for each bar, (feature, symbol) columns.

        >>> import pacesetter as ps
        >>> market = ps.load("synthetic", symbols=2, bars=100, seed=1)
        >>> ps.feature_table(market, ["return_1"]).to_frame().columns.tolist()
        [('return_1', 'S0'), ('return_1', 'S1')]
        """
        columns = pd.MultiIndex.from_product([self.names, self.symbols], names=["feature", "symbol"])
        flat = self.values.transpose(1, 2, 0).reshape(len(self.index), -1)
        return pd.DataFrame(flat, index=self.index, columns=columns)

    def windows_missing(self, bars: int, limit: float = 0.1) -> Array:
        """(symbol, time) True where a window ending there misses more than `limit` of its rows, or has no room."""
        if not (bars >= 1 and 0 <= limit <= 1):
            raise ConfigError(f"bars={bars}, limit={limit}: use bars ≥ 1 and a limit in [0, 1]")
        missing: Array = np.cumsum(~self.mask, axis=1)
        # A difference of running counts; the copy, because the subtraction overwrites what it reads.
        missing[:, bars:] -= missing[:, :-bars].copy()
        marked: Array = missing > limit * bars
        # A window that would begin before the first bar.
        marked[:, : bars - 1] = True
        return marked

    def save(self, path: str | Path) -> Path:
        """Write one .npz file, without pickle, that `FeatureTable.load` gives back bit for bit."""
        about = {
            "symbols": self.symbols,
            "names": self.names,
            "memory": dict(self.memory),
            "left_out": dict(self.left_out),
            "fingerprint": self.fingerprint,
        }
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:  # a file object keeps numpy from adding a suffix of its own
            np.savez(file, values=self.values, index=self.index.asi8, about=np.array(json.dumps(about)))
        return path

    @classmethod
    def load(cls, path: str | Path) -> FeatureTable:
        """Read a table that `save` wrote; refuses a file whose content no longer has its fingerprint."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                about = json.loads(str(stored["about"]))
                index = pd.DatetimeIndex(stored["index"], tz="UTC").as_unit("ns")
                names = tuple(about["symbols"]), tuple(about["names"])
                table = cls(index, *names, stored["values"], about["memory"], about["left_out"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BadZipFile, EOFError) as problem:
            raise DataError(
                f"{path} is not a stored feature table ({type(problem).__name__}); compute it again"
            ) from problem
        if table.fingerprint != about["fingerprint"]:
            raise DataError(f"{path} was changed after it was stored: its content hash differs; compute it again")
        return table


def feature_table(panel: Panel, features: Sequence[str] | None = None, extra: Sequence[Feature] = ()) -> FeatureTable:
    """The table of the named features (the default ones if None), then of `extra` ones, in this order.

    Features whose fields the panel lacks are left out, with a notice and under `left_out`. The latest tables are kept,
    so that asking again for the same panel costs nothing.
    """
    kept, left_out = choose_features(panel.fields, features, extra)
    return _compute_table(panel, kept, tuple(left_out.items()))


def choose_features(
    fields: Sequence[str], features: Sequence[str] | None = None, extra: Sequence[Feature] = ()
) -> tuple[tuple[Feature, ...], dict[str, str]]:
    """The features that panels with these fields can give, and the reason for each that they cannot."""
    wanted = _select_features(features, extra)
    lacking = {feature.name: [field for field in feature.needs if field not in fields] for feature in wanted}
    left_out = {name: f"needs {', '.join(missing)}" for name, missing in lacking.items() if missing}
    for name, reason in left_out.items():
        _log.info("feature %s is left out: it %s, which the panel lacks", name, reason)
    kept = tuple(feature for feature in wanted if feature.name not in left_out)
    if not kept:
        raise DataError(f"no feature is left: {', '.join(lacking) or 'none'} requested, fields {', '.join(fields)}")
    return kept, left_out


def forget_tables() -> None:
    """Free the tables that are kept for those who ask again."""
    _kept.clear()


def _select_features(names: Sequence[str] | None, extra: Sequence[Feature]) -> list[Feature]:
    """The features by name, then the extra ones; refuses a name that appears twice and what is not a Feature."""
    chosen = default_names() if names is None else [names] if isinstance(names, str) else names
    wanted = [FEATURES[name] for name in chosen] + list(extra)
    listed: set[str] = set()
    for feature in wanted:
        if not isinstance(feature, Feature):
            raise ConfigError(f"{feature!r} is not a Feature; a plugin's entry point must name one")
        if feature.name in listed:
            raise ConfigError(f"feature '{feature.name}' is requested twice; each feature has one column")
        listed.add(feature.name)
    return wanted


class _Kept(NamedTuple):
    """A table, and what it was computed from."""

    panel: Panel
    features: tuple[Feature, ...]
    table: FeatureTable

    def holds(self, panel: Panel, feature: Feature) -> bool:
        """Whether the table has what a feature is of a panel: of the same bars, or of the first of them.

        Fewer bars of lead–lag, whose windows are measured together, and of plugins, which may round otherwise, are not
        taken from there.
        """
        if feature not in self.features or not _begins_with(self.panel, panel):
            return False
        can_cut = feature.kind != "leadlag" and is_own(feature.indicator or feature.compute)
        return can_cut or len(panel) == len(self.panel)


_kept: list[_Kept] = []  # the latest last


def _compute_table(panel: Panel, features: tuple[Feature, ...], left_out: tuple[tuple[str, str], ...]) -> FeatureTable:
    """The table of features that the panel can give; columns that a kept table has are taken from it."""
    memory = {feature.name: feature.memory_bars for feature in features}
    for kept in reversed(_kept):
        if kept.features == features and all(kept.holds(panel, feature) for feature in features):
            _keep(kept)
            if len(panel) == len(kept.panel):
                return (
                    kept.table
                    if kept.table.left_out == dict(left_out)
                    else replace(kept.table, left_out=dict(left_out))
                )
            # A row of a causal table does not depend on later bars.
            values = kept.table.values[:, : len(panel)]
            return FeatureTable(panel.index, panel.symbols, tuple(memory), values, memory, dict(left_out))
    check_plugins(panel, features)
    columns = np.stack([_column_rows(panel, feature) for feature in features])
    values = np.ascontiguousarray(np.moveaxis(columns, 0, -1))  # one transposition beats a strided write per feature
    table = FeatureTable(panel.index, panel.symbols, tuple(memory), values, memory, dict(left_out))
    _keep(_Kept(panel, features, table))
    return table


def _keep(used: _Kept) -> None:
    """The latest tables, of which `used` is the last that was asked for."""
    _kept[:] = [*(kept for kept in _kept if kept is not used), used][-_CACHED_TABLES:]


def _column_rows(panel: Panel, feature: Feature) -> Singles:
    """(symbol, time) values of one feature, of a kept table where one has them."""
    for kept in reversed(_kept):
        if kept.holds(panel, feature):
            column: Singles = kept.table.values[:, : len(panel), kept.features.index(feature)]
            return column
    return feature_column(panel, feature).T


def _begins_with(whole: Panel, panel: Panel) -> bool:
    """Whether a panel has the first bars of another, or all of them; equal content is looked at for whole ones only."""
    if panel is whole:
        return True
    if whole.symbols != panel.symbols or whole.fields != panel.fields or len(panel) > len(whole):
        return False
    if len(panel) == len(whole):
        return panel == whole
    if not np.array_equal(whole.moments[: len(panel)], panel.moments):
        return False  # the same prices under other stamps
    # The same memory, which may not be written to: comparing bars would take as long as a feature of them.
    return all(
        _start(one) == _start(other) and one.strides == other.strides
        for one, other in ((panel.blocks, whole.blocks), (panel.mask, whole.mask))
    )


def _start(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def feature_column(panel: Panel, feature: Feature) -> Singles:
    """(time, symbol) float32 values of one feature; what is not finite or not observed is NaN."""
    values = np.asarray(feature.compute(panel))
    if values.shape != panel.mask.shape:
        raise ConfigError(f"feature '{feature.name}' gave shape {values.shape}, not {panel.mask.shape} (time, symbol)")
    # Beyond float32 a value becomes infinite, and then NaN below.
    with np.errstate(over="ignore"):
        column = values.astype(np.float32)
    column[~(panel.mask & np.isfinite(column))] = np.nan
    return column
