"""Regime labels from path signatures: windows of log prices clustered by drift, curvature and quadratic variation.

These three are the depth-2 signature of the time-augmented lead–lag path of a window (Chevyrev, Kormilitzin 2016):
its increment, its Lévy area against time, and the area between lead and lag, which is half the quadratic variation.
Clusters are fitted on bars up to a moment; labels of later bars use nothing else of the future, so that they may be
features and tasks of later bars.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pacesetter.errors import DataError, check_range
from pacesetter.panel import Panel

__all__ = ["SignatureRegimes", "path_signature"]

Array = NDArray[Any]
WARMING_UP = -1
SMALLEST = 1e-16  # of a quadratic variation, whose logarithm is taken


def path_signature(log_prices: Array, window: int) -> Array:
    """(time, symbol, 3) increment, Lévy area against time, and quadratic variation of the last `window` moves.

    ∫(t dx − x dt)/2 with t from 0 to 1 and x from the window's first price; NaN before there are as many moves.
    """
    moves = np.diff(log_prices, axis=0)
    signature = np.full((*log_prices.shape, 3), np.nan)
    if len(moves) < window:
        return signature
    each = np.lib.stride_tricks.sliding_window_view(moves, window, axis=0)  # (time, symbol, move)
    before, clock = np.cumsum(each, axis=-1) - each, np.arange(window) / window
    signature[window:, :, 0] = each.sum(-1)
    signature[window:, :, 1] = 0.5 * (clock * each - before / window).sum(-1)
    signature[window:, :, 2] = np.square(each).sum(-1)
    return signature


@dataclass
class SignatureRegimes:
    """Regimes of a panel, named 0, 1 … from the calmest to the wildest cluster.

    window   moves of a signature        kinds   clusters
    """

    window: int = 20
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
        """Signatures in units that compare: drift and area per deviation, and the logarithm of the variation."""
        close = np.where(panel.mask, panel.close, np.nan)
        signature = path_signature(np.log(close), self.window)
        spread = np.sqrt(np.maximum(signature[..., 2:], SMALLEST))
        return np.concatenate([signature[..., :2] / spread, np.log(spread)], axis=-1)
