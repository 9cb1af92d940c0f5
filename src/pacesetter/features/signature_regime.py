"""Regime labels from path signatures: windows of log prices clustered by drift, curvature and quadratic variation.

These three are the depth-2 signature of the time-augmented lead–lag path of a window (Chevyrev, Kormilitzin 2016):
its increment, its Lévy area against time, and the area between lead and lag, which is half the quadratic variation.
`SignatureRegimes` fits its clusters on bars up to a moment; labels of later bars use nothing else of the future. The
feature `signature_regime` clusters each symbol's latest windows again at every bar, so that a server which keeps these
bars gives the same label. It is in a table only where it is named, since it costs more than the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import DataError, check_range
from pacesetter.features.feature import FEATURES, symbolwise
from pacesetter.features.rolling import compiled, run_kernel
from pacesetter.panel import Panel

__all__ = ["SIGNATURE_REGIME", "SignatureRegimes", "path_signature", "signature_regime"]

WARMING_UP = -1
SMALLEST = 1e-16  # of a quadratic variation, whose logarithm is taken
SIGNATURE_REGIME = "signature_regime"
WINDOW = 20  # moves of a signature
HISTORY, STEP = 250, 5  # bars whose windows the feature clusters, one window in so many: neighbours overlap anyway
KINDS = 3  # calm, between, wild: with four, labels of a random walk change at two bars in five
ROUNDS = 10  # of Lloyd's algorithm; from groups by variation, 50 windows hardly move after that


def path_signature(log_prices: Array, window: int) -> Array:
    """(time, symbol, 3) increment, Lévy area against time, and quadratic variation of the last `window` moves.

    ∫(t dx − x dt)/2 with t from 0 to 1 and x from the window's first price; NaN before there are as many moves.
    """
    moves = np.diff(log_prices, axis=0)
    signature = np.full((*log_prices.shape, 3), np.nan)
    if len(moves) < window:
        return signature
    position, area, variation = np.zeros((3, len(moves) - window + 1, *log_prices.shape[1:]))
    for k in range(window):  # move by move, so that a window's sums do not depend on the bars around it
        move = moves[k : k + len(position)]
        area += 0.5 / window * (k * move - position)
        position += move
        variation += move * move
    signature[window:] = np.stack([position, area, variation], axis=-1)
    return signature


def signature_coordinates(close: Array, window: int) -> Array:
    """(time, symbol, 3) signatures in units that compare: drift and area per deviation, log of the deviation."""
    signature = path_signature(np.log(close), window)
    spread = np.sqrt(np.maximum(signature[..., 2:], SMALLEST))
    return np.concatenate([signature[..., :2] / spread, np.log(spread)], axis=-1)


@dataclass
class SignatureRegimes:
    """Regimes of a panel, named 0, 1 … from the calmest to the wildest cluster.

    window   moves of a signature        kinds   clusters
    """

    window: int = WINDOW
    kinds: int = 4
    seed: int = 0
    centres_: Array = field(default_factory=lambda: np.zeros((0, 3)), init=False, repr=False)
    scale_: tuple[Array, Array] = field(default_factory=lambda: (np.zeros(3), np.ones(3)), init=False, repr=False)

    def __post_init__(self) -> None:
        check_range(2, window=self.window, kinds=self.kinds)

    def fit(self, panel: Panel) -> Self:
        """Cluster the windows of all symbols; give the training bars alone. Refuses too few of them."""
        from sklearn.cluster import KMeans

        rows = self._inputs(panel).reshape(-1, 3)
        rows = rows[np.isfinite(rows).all(axis=1)]
        if len(rows) < 10 * self.kinds:
            raise DataError(
                f"{self.kinds} regimes need {10 * self.kinds} whole windows of {self.window} bars, and the training "
                f"bars have {len(rows)}; give more bars or fewer kinds"
            )
        self.scale_ = rows.mean(axis=0), rows.std(axis=0) + 1e-12
        clusters = KMeans(self.kinds, n_init=5, random_state=self.seed).fit((rows - self.scale_[0]) / self.scale_[1])
        self.centres_ = clusters.cluster_centers_[np.argsort(clusters.cluster_centers_[:, 2])]
        return self

    def labels(self, panel: Panel) -> Array:
        """(time, symbol) int8 regime of each bar by the bars up to it; −1 before a whole window was observed."""
        if not len(self.centres_):
            raise DataError("the regimes are not fitted; call fit with the training bars")
        inputs = (self._inputs(panel) - self.scale_[0]) / self.scale_[1]
        distances = np.square(inputs[:, :, None] - self.centres_).sum(-1)
        is_known = np.isfinite(inputs).all(axis=-1)
        return np.where(is_known, np.nan_to_num(distances).argmin(-1), WARMING_UP).astype(np.int8)

    def _inputs(self, panel: Panel) -> Array:
        return signature_coordinates(np.where(panel.mask, panel.close, np.nan), self.window)


def signature_regime(close: Array) -> Array:
    """(symbol, bar) regime of the latest window among those of the last 250 bars: 0 the calmest … 1 the wildest."""
    drift, area, spread = signature_coordinates(close.T, WINDOW).T
    return run_kernel(_rank_regimes, (drift, area, spread), HISTORY // STEP, STEP, KINDS)


@compiled
def _rank_regimes(drift: Array, area: Array, spread: Array, count: int, step: int, kinds: int, out: Array) -> None:
    """Rank of the cluster of each (bar, symbol) cell within `count` windows, every `step` bars back from it."""
    points = np.empty((count, 3))
    for t in range(len(out)):
        for k in range(out.shape[1]):
            out[t, k] = np.nan
            if t < (count - 1) * step:
                continue
            for row in range(count):
                back = t - row * step
                points[row, 0], points[row, 1], points[row, 2] = drift[back, k], area[back, k], spread[back, k]
            if np.isfinite(points).all():
                out[t, k] = _rank_of_first(points, kinds) / (kinds - 1)


@compiled
def _rank_of_first(points: Array, kinds: int) -> int:
    """How many of the clusters of the (row, 3) points have less variation than the first row's; scales the points."""
    count = len(points)
    for axis in range(3):
        points[:, axis] = (points[:, axis] - points[:, axis].mean()) / (points[:, axis].std() + 1e-12)
    nearest, centres = np.empty(count, np.int64), np.zeros((kinds, 3))
    # Groups of equal size by variation: no chance in the start, and so the same clusters from the same bars.
    nearest[np.argsort(points[:, 2], kind="mergesort")] = np.arange(count) * kinds // count
    for _ in range(ROUNDS):
        _move_centres(points, nearest, centres)
        if not _assign(points, centres, nearest):
            break
    return int((centres[:, 2] < centres[nearest[0], 2]).sum())


@compiled
def _move_centres(points: Array, nearest: Array, centres: Array) -> None:
    """Put each centre at the mean of its points; one without points stays where it was."""
    members, sums = np.zeros(len(centres)), np.zeros(centres.shape)
    for row in range(len(points)):
        members[nearest[row]] += 1
        for axis in range(3):
            sums[nearest[row], axis] += points[row, axis]
    for kind in range(len(centres)):
        for axis in range(3 if members[kind] else 0):
            centres[kind, axis] = sums[kind, axis] / members[kind]


@compiled
def _assign(points: Array, centres: Array, nearest: Array) -> bool:
    """Write the centre nearest to each point; whether one of them changed."""
    is_changed = False
    for row in range(len(points)):
        best, least = 0, np.inf
        for kind in range(len(centres)):
            distance = 0.0
            for axis in range(3):
                distance += (points[row, axis] - centres[kind, axis]) ** 2
            if distance < least:
                best, least = kind, distance
        is_changed |= best != nearest[row]
        nearest[row] = best
    return is_changed


_FEATURE = symbolwise(SIGNATURE_REGIME, signature_regime, HISTORY - STEP + WINDOW + 1, kind="regime")
FEATURES.add(SIGNATURE_REGIME, replace(_FEATURE, is_default=False))
