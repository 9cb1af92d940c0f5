"""What a window's increments become before they are compared: less a common factor, less autocorrelation.

Everything here is fitted on the rows of the window itself, so no bar outside it has a say. A missing increment is NaN
and stays NaN.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from pacesetter.arrays import Array, Floats, Integers, Singles
from pacesetter.compiled import njit
from pacesetter.errors import ConfigError
from pacesetter.leadlag.observed import ratio

__all__ = ["Autocorrelation", "Preparation", "prewhiten", "shared_autocorrelation"]


@dataclass(frozen=True)
class Preparation:
    """What is taken off a window's increments.

    residual    `none`; `market`: less what the mean of the other symbols explains; `pca(k)`: less k components
    """

    residual: str = "none"

    def __post_init__(self) -> None:
        self.components  # noqa: B018  (refuses what it cannot read)

    @property
    def components(self) -> int:
        """Principal components taken off; 0 without."""
        if self.residual in ("none", "market"):
            return 0
        match = re.fullmatch(r"pca\(?(\d*)\)?", self.residual)
        if match is None or match[1] == "0":
            raise ConfigError(f"lag.residual='{self.residual}' is unknown; use none, market or pca(k), e.g. pca(1)")
        return int(match[1] or 1)

    @property
    def is_plain(self) -> bool:
        """Whether a window's increments are those of the whole history, so that windows can share running sums."""
        return self.residual == "none"

    def window(self, increments: Floats) -> Floats:
        """(time, symbol) prepared increments of one window of raw ones."""
        prepared = np.asarray(increments, dtype=np.float64)
        if self.residual == "market":
            prepared = _without_market(prepared)
        elif self.components:
            prepared = _without_components(prepared, self.components)
        return prepared


def _standardise(increments: Floats) -> tuple[Array, Array]:
    """Increments in deviations from their means, 0 where missing or constant; and the deviations."""
    known = np.isfinite(increments)
    count = known.sum(axis=0)
    mean = ratio(np.nansum(increments, axis=0), count)
    centred = np.where(known, increments - mean, 0.0)
    deviation = np.sqrt(ratio((centred**2).sum(axis=0), count))
    return np.nan_to_num(centred * ratio(1.0, deviation)), np.nan_to_num(deviation)


def _without_market(increments: Array) -> Array:
    """Residuals of each symbol on the mean of the others, a beta each: a symbol does not explain itself."""
    z, deviation = _standardise(increments)
    # Standardised first, so that the mean is not that of the most volatile symbols.
    others = (z.sum(axis=1, keepdims=True) - z) / max(z.shape[1] - 1, 1)
    beta = np.nan_to_num(ratio((others * z).sum(axis=0), (others**2).sum(axis=0)))
    return np.where(np.isfinite(increments), (z - beta * others) * deviation, np.nan)


def _without_components(increments: Array, count: int) -> Array:
    """Less the `count` leading principal components of the window's correlation matrix."""
    if count >= increments.shape[1]:
        raise ConfigError(f"lag.residual=pca({count}) leaves nothing of {increments.shape[1]} symbols; use fewer")
    z, deviation = _standardise(increments)
    # eigh sorts eigenvalues upwards: the leading components come last.
    vectors = np.linalg.eigh(z.T @ z)[1][:, -count:]
    return np.where(np.isfinite(increments), (z - z @ vectors @ vectors.T) * deviation, np.nan)


def prewhiten(increments: Floats, most: int = 5) -> tuple[Array, Array]:
    """(time, symbol) increments without autocorrelation, and the (symbol,) order of autoregression that BIC chose.

    For each symbol BIC chooses an order from 0 … `most`; where all are 0, no autocorrelation was found and nothing
    changes. Otherwise all are filtered with the largest of these orders: filters of different lengths on symbols that
    share a factor would make one lead the other.
    """
    z, deviation = _standardise(increments)
    moments = _autocovariances(z, most)
    coefficients, errors = _levinson(moments)
    order = _choose_order(errors, len(z))
    chosen = coefficients[order.max(initial=0)]
    return np.where(np.isfinite(increments), _filter(z, chosen) * deviation, np.nan), order


@dataclass(frozen=True, eq=False)
class Autocorrelation:
    """Autocorrelation by which no symbol leads: of the first principal component, and one shared by all the rest.

    Lagged covariances that are the same both ways, however strong, are kept. Filters of each symbol's own would make
    the one that answers slowly follow all others.

    innovations  (time, symbol + 1) what is left without it, of the rest and of the component
    filters      (lag, symbol + 1) autoregression of each
    vector       (symbol,) of the component
    """

    innovations: Singles
    filters: Singles
    vector: Singles

    def flip(self, flips: Singles) -> Singles:
        """(draw, time, symbol) increments whose innovations are flipped by `flips` (draw, time)."""
        drawn = flips[:, :, None] * self.innovations
        if self.filters.any():
            _recolour(drawn, self.filters)
        return np.asarray(drawn[:, :, :-1] + drawn[:, :, -1:] * self.vector)


def shared_autocorrelation(increments: Floats, most: int = 5) -> Autocorrelation:
    """The shared autocorrelation of (time, symbol) increments in deviations, its order by BIC as in `prewhiten`."""
    z = _standardise(increments)[0]
    bars, symbols = z.shape
    # The smaller of the two Gram matrices has the same first component.
    gram = z.T @ z if symbols <= bars else z @ z.T
    first = np.linalg.eigh(gram)[1][:, -1]
    vector = first if symbols <= bars else z.T @ first
    vector = vector * np.nan_to_num(ratio(1.0, np.linalg.norm(vector)))
    component = z @ vector
    parts = np.column_stack([z - component[:, None] * vector, component])
    moments = _autocovariances(_standardise(parts)[0], most)
    own = _choose_order(_levinson(np.column_stack([_autocovariances(z, most), moments]))[1], bars)
    shared = np.column_stack([moments[:, :-1].mean(axis=1), moments[:, -1]])
    coefficients = _levinson(shared)[0][own.max(initial=0)]
    filters = np.column_stack([np.repeat(coefficients[:, :1], symbols, axis=1), coefficients[:, 1]])
    return Autocorrelation(*(each.astype(np.float32) for each in (_filter(parts, filters), filters, vector)))


def _filter(z: Floats, coefficients: Floats) -> Floats:
    """(time, column) less what the autoregressions (lag, column) expect."""
    white = z.copy()
    for lag, each in enumerate(coefficients, 1):
        # The first bars are filtered with the lags that exist; dropping them would shift the window.
        white[lag:] -= each * z[: len(z) - lag]
    return white


@njit(cache=True)
def _recolour(drawn: Array, filters: Array) -> None:
    """Add what the autoregressions (lag, column) expect to innovations (draw, time, column), in place."""
    draws, bars, columns = drawn.shape
    for draw in range(draws):
        for t in range(bars):
            for lag in range(1, min(len(filters), t) + 1):
                for column in range(columns):
                    drawn[draw, t, column] += filters[lag - 1, column] * drawn[draw, t - lag, column]


def _autocovariances(z: Floats, most: int) -> Floats:
    """(lag, column) autocovariances of 0 … `most` bars, with ten bars for each at least."""
    bars = len(z)
    most = max(min(most, bars // 10), 0)
    # Over `bars`, not over the overlap: such autocovariances are positive semidefinite, so error variances stay
    # positive.
    return np.stack([(z[: bars - lag] * z[lag:]).sum(axis=0) / bars for lag in range(most + 1)])


def _choose_order(errors: Floats, bars: int) -> Integers:
    """(column,) order of the smallest BIC = n·log(error variance) + order·log n; errors (order, column)."""
    price = np.log(bars) * np.arange(len(errors))[:, None]
    return np.asarray((bars * np.log(np.maximum(errors, 1e-12)) + price).argmin(axis=0))


def _levinson(moments: Floats) -> tuple[Array, Array]:
    """Yule–Walker coefficients (order, lag, symbol) and error variances (order, symbol) of orders 0 … most."""
    most, symbols = len(moments) - 1, moments.shape[1]
    coefficients = np.zeros((most + 1, most, symbols))
    errors = np.empty((most + 1, symbols))
    errors[0] = moments[0]
    for order in range(1, most + 1):
        before = coefficients[order - 1, : order - 1]
        # Durbin–Levinson: the reflection is the partial autocorrelation at this order, and each order follows from the
        # last.
        left = moments[order] - (before * moments[order - 1 : 0 : -1]).sum(axis=0)
        reflection = np.nan_to_num(ratio(left, errors[order - 1]))
        coefficients[order, : order - 1] = before - reflection * before[::-1]
        coefficients[order, order - 1] = reflection
        errors[order] = errors[order - 1] * (1 - reflection**2)
    return coefficients, errors
