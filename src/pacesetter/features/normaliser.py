"""Normalisers: fitted on the training set only, they remember until when, carry a hash, and reload bit for bit."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError
from pacesetter.features.table import FeatureTable
from pacesetter.panel import utc_index
from pacesetter.registry import Registry, configure

__all__ = ["NORMALISERS", "MinMax", "Normaliser", "Robust", "RunningWelford", "ZScore"]


class Normaliser(ABC):
    """x ↦ (x − centre_) / scale_ per feature, over (…, feature) arrays; NaN is neither counted nor filled.

    A feature that never varied has scale 1. `fitted_until_` is the last moment it has seen, None when unknown.
    """

    kind: ClassVar[str]
    learned: ClassVar[tuple[str, ...]] = ("centre_", "scale_")  # arrays that are stored
    centre_: Array
    scale_: Array
    is_fitted_: bool = False
    fitted_until_: pd.Timestamp | None = None

    def fit(self, values: FeatureTable | ArrayLike, until: str | pd.Timestamp | None = None) -> Self:
        """Learn from the bars of a table known by `until` (all if None), or from a whole (…, feature) array.

        For an array `until` only records what it covers. Refuses a feature without one finite value.
        """
        # `fitted_until_` is what lets a backtest refuse bars that the normaliser has already seen.
        rows, self.fitted_until_ = _training_part(values, until)
        self._learn(rows)
        self.is_fitted_ = True
        return self

    @abstractmethod
    def _learn(self, rows: Array) -> None:
        """Set what is learned from (row, feature) values."""

    def transform(self, values: FeatureTable | ArrayLike) -> Array:
        """Normalised values in the shape and float type of what is given."""
        array = self._check_values(values)
        return ((array - self.centre_) / self.scale_).astype(array.dtype, copy=False)

    def inverse_transform(self, values: ArrayLike) -> Array:
        """Raw values from normalised ones."""
        array = self._check_values(values)
        return (array * self.scale_ + self.centre_).astype(array.dtype, copy=False)

    def _check_values(self, values: FeatureTable | ArrayLike) -> Array:
        self._check_fitted()
        array = _as_array(values)
        if array.shape[-1:] != self.centre_.shape:
            raise DataError(f"values have shape {array.shape}; the last axis must have {len(self.centre_)} features")
        return array

    def _check_fitted(self) -> None:
        if not self.is_fitted_:
            raise ConfigError(f"the {self.kind} normaliser is not fitted; call fit on the training set first")

    # ---- storing --------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, object]:
        """Kind, options and learned numbers as JSON; Python writes floats so that they read back exactly."""
        self._check_fitted()
        return {
            "kind": self.kind,
            # Options are part of the hash: two normalisers with equal numbers but other rules are not the same.
            "options": asdict(self),  # type: ignore[call-overload]  # every registered kind is a dataclass
            "fitted_until": None if self.fitted_until_ is None else self.fitted_until_.isoformat(),
            "learned": {name: vars(self)[name].tolist() for name in self.learned},
        }

    @property
    def fingerprint_(self) -> str:
        """Hash of kind, options and everything learned."""
        return _digest(self._state())

    def save(self, path: str | Path) -> Path:
        """Write a JSON file that `Normaliser.load` gives back bit for bit."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        state = self._state()
        path.write_text(json.dumps(state | {"fingerprint": _digest(state)}, indent=1), encoding="utf-8")
        return path

    @staticmethod
    def load(path: str | Path) -> Normaliser:
        """The normaliser that `save` wrote, of whichever kind; refuses a file that was changed since."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
            # The hash is of everything but itself.
            fingerprint = state.pop("fingerprint")
            changed = fingerprint != _digest(state)
            kind, options, learned, until = (state[key] for key in ("kind", "options", "learned", "fitted_until"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise DataError(f"{path} is not a stored normaliser ({type(problem).__name__}); fit it again") from problem
        if changed:
            raise DataError(f"{path} was changed after it was stored: its hash differs; fit the normaliser again")
        normaliser = configure(NORMALISERS[kind], options, kind)
        for name, numbers in learned.items():
            setattr(normaliser, name, np.array(numbers))
        normaliser.is_fitted_ = True
        normaliser.fitted_until_ = None if until is None else pd.Timestamp(until)
        return normaliser


class _Batch(Normaliser):
    """A normaliser that looks at each feature's finite values once."""

    def _learn(self, rows: Array) -> None:
        centres, scales = zip(
            *(self._centre_and_scale(_finite_rows(rows, k)) for k in range(rows.shape[1])), strict=True
        )
        self.centre_ = np.array(centres)
        self.scale_ = _without_zeros(np.array(scales))

    @abstractmethod
    def _centre_and_scale(self, column: Array) -> tuple[float, float]:
        """What is subtracted and what divides, from one feature's finite float64 values."""


NORMALISERS: Registry[type[Normaliser]] = Registry("normaliser")


@NORMALISERS.register("zscore")
@dataclass
class ZScore(_Batch):
    """Mean 0 and deviation 1 over the training set."""

    kind: ClassVar[str] = "zscore"

    def _centre_and_scale(self, column: Array) -> tuple[float, float]:
        deviations = column - column[0]  # from a value of its own, so that a constant has deviation 0 exactly
        return float(column[0] + deviations.mean()), float(deviations.std())


@NORMALISERS.register("minmax")
@dataclass
class MinMax(_Batch):
    """The training set's smallest value to 0, its largest to 1; later values may be outside."""

    kind: ClassVar[str] = "minmax"

    def _centre_and_scale(self, column: Array) -> tuple[float, float]:
        return float(column.min()), float(column.max() - column.min())


@NORMALISERS.register("robust")
@dataclass
class Robust(_Batch):
    """Median to 0, the distance between two quantiles to 1: outliers do not move it."""

    lower: float = 0.25
    upper: float = 0.75
    kind: ClassVar[str] = "robust"

    def __post_init__(self) -> None:
        if not 0 <= self.lower < self.upper <= 1:
            raise ConfigError(f"robust.lower={self.lower}, robust.upper={self.upper}: use 0 ≤ lower < upper ≤ 1")

    def _centre_and_scale(self, column: Array) -> tuple[float, float]:
        low, middle, high = np.quantile(column, [self.lower, 0.5, self.upper])
        return float(middle), float(high - low)


@NORMALISERS.register("welford")
@dataclass
class RunningWelford(Normaliser):
    """Running mean and deviation, batch by batch, by the pairwise update of Chan, Golub and LeVeque.

    `count_`, `centre_` and `squares_` are (feature,): values seen, their mean, their squared deviations summed. A
    feature not seen yet has centre 0 and scale 1.
    """

    kind: ClassVar[str] = "welford"
    learned: ClassVar[tuple[str, ...]] = ("count_", "centre_", "squares_", "scale_")

    def update(self, values: FeatureTable | ArrayLike, until: str | pd.Timestamp | None = None) -> Self:
        """Take in one more (…, feature) batch, or the bars of a table known by `until`."""
        rows, moment = _training_part(values, until)
        if not self.is_fitted_:
            self._forget(rows.shape[1])
        self._absorb(*_moments(rows), moment)
        return self

    def merge(self, other: RunningWelford) -> Self:
        """Take in what another one has seen, e.g. in another process."""
        other._check_fitted()
        if not self.is_fitted_:
            self._forget(len(other.centre_))
        self._check_values(other.centre_)
        self._absorb(other.count_, other.centre_, other.squares_, other.fitted_until_)
        return self

    def _learn(self, rows: Array) -> None:
        self._forget(rows.shape[1])
        self._absorb(*_moments(rows), self.fitted_until_)

    def _forget(self, features: int) -> None:
        self.is_fitted_ = True
        self.count_ = np.zeros(features, dtype=np.int64)
        self.centre_, self.squares_, self.scale_ = np.zeros(features), np.zeros(features), np.ones(features)

    def _absorb(self, count: Array, mean: Array, squares: Array, moment: pd.Timestamp | None) -> None:
        """δ = mean_b − mean_a; mean += δ·n_b/n; squares += squares_b + δ²·n_a·n_b/n."""
        total = self.count_ + count
        share = count / np.maximum(total, 1)
        # Merging means and squared deviations, not Σx and Σx², keeps digits when the mean is far from 0.
        apart = mean - self.centre_
        self.squares_ = self.squares_ + squares + apart**2 * self.count_ * share
        self.centre_ = self.centre_ + apart * share
        self.count_ = total
        self.scale_ = _without_zeros(np.sqrt(self.squares_ / np.maximum(total, 1)))
        self.fitted_until_ = max((m for m in (self.fitted_until_, moment) if m is not None), default=None)


def _moments(rows: Array) -> tuple[Array, Array, Array]:
    """Per feature: finite values, their mean, their squared deviations summed; exactly 0 for a constant."""
    rows = rows.astype(np.float64)
    finite = np.isfinite(rows)
    count = finite.sum(axis=0)
    first = rows[finite.argmax(axis=0), np.arange(rows.shape[1])] if len(rows) else np.zeros(rows.shape[1])
    # Distances from the first finite value: a constant feature then has squared deviations of exactly 0.
    origin = np.where(count > 0, first, 0.0)
    away = np.where(finite, rows - origin, 0.0)
    shift = away.sum(axis=0) / np.maximum(count, 1)
    return count, origin + shift, np.square(away - shift, where=finite, out=np.zeros(rows.shape)).sum(axis=0)


def _training_part(
    values: FeatureTable | ArrayLike, until: str | pd.Timestamp | None
) -> tuple[Array, pd.Timestamp | None]:
    """(row, feature) values to learn from, and the last moment they cover; a bare date covers its whole day."""
    if not isinstance(values, FeatureTable):
        array = _as_array(values)
        return array.reshape(-1, array.shape[-1]), None if until is None else utc_index([until])[0]
    try:
        # The cut is by the moment a bar is known, so no later bar can enter the statistics.
        part = values.index.slice_indexer(end=until)
    except (ValueError, TypeError) as problem:
        raise ConfigError(f"until={until!r} is not a time; write 2016-12-30 or 2016-12-30T21:00Z") from problem
    if not part.stop:
        raise DataError(f"no bar of the table is known by {until}; its first is {values.index[0]}")
    return values.values[:, part].reshape(-1, len(values.names)), values.index[part][-1]


def _as_array(values: FeatureTable | ArrayLike) -> Array:
    """Floats as they are, anything else as float64; refuses a single number."""
    array = values.values if isinstance(values, FeatureTable) else np.asarray(values)
    if array.ndim == 0:
        raise DataError(f"values must be an array (…, feature), not the number {array}")
    return array if np.issubdtype(array.dtype, np.floating) else array.astype(np.float64)


def _finite_rows(rows: Array, feature: int) -> Array:
    column = rows[:, feature].astype(np.float64)
    finite = column[np.isfinite(column)]
    if not len(finite):
        raise DataError(
            f"feature {feature} has no finite value in the training set; leave it out or train on more bars"
        )
    return finite


def _without_zeros(scale: Array) -> Array:
    return np.where(scale > 0, scale, 1.0)


def _digest(state: dict[str, object]) -> str:
    return hashlib.blake2b(json.dumps(state, sort_keys=True).encode(), digest_size=16).hexdigest()
