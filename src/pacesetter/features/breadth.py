"""Market breadth: how many symbols take part in a move. One number a bar, the same for every symbol.

It is not in the table by default, since it needs a market of several symbols: name it by `features.names`.
"""

from __future__ import annotations

import warnings

import numpy as np

from pacesetter.arrays import Array
from pacesetter.features.feature import FEATURES, Feature
from pacesetter.panel import Panel

__all__ = ["BREADTH", "market_breadth"]

BREADTH = "market_breadth"
BARS = 20


def market_breadth(panel: Panel) -> Array:
    """(time, symbol) share of the observed symbols whose close is above its mean of 20 bars; [0, 1], NaN before them.

    A symbol counts where it was observed now and in half of the 20 bars; a bar without one is NaN.
    """
    close = np.where(panel.mask, panel.close, np.nan)
    known = np.isfinite(close)
    sums, counts = (_rolling_sums(values) for values in (np.nan_to_num(close), known.astype(np.float64)))
    counts_ok = known & (counts >= BARS / 2)
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    above = np.where(counts_ok, close > means, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a bar at which no symbol was observed
        share = np.nanmean(above, axis=1)
    share[: BARS - 1] = np.nan
    return np.where(known, share[:, None], np.nan)


def _rolling_sums(values: Array) -> Array:
    """(time, symbol) sums over the last 20 rows, fewer at the start; summed afresh, so that no error accumulates."""
    # One row more than the first window needs, so that a panel without bars has a window to cut off, too.
    padded = np.concatenate([np.zeros((BARS, values.shape[1])), values])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, BARS, axis=0)[1:].sum(axis=-1))


FEATURES.add(BREADTH, Feature(BREADTH, ("close",), BARS, market_breadth, kind="market", is_default=False))
