"""Thin trading: symbols whose prices stand still or bounce, and so seem to follow what trades more often.

A price that was not renewed catches up a bar later: under a common factor such a symbol follows all others although
it could not have been traded. Shares of unchanged closes (and of bars without volume, where known) measure this. A
price that bounces between bid and ask has a negative first autocovariance; Roll's (1984) effective spread is twice the
root of its size, and the size over the variance is the share of the variance that is bounce.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pacesetter.arrays import Array, Floats
from pacesetter.errors import check_range
from pacesetter.leadlag.observed import mean_observed, ratio
from pacesetter.panel import Panel

__all__ = ["ThinTrading", "bounce_share", "stale_share"]


@dataclass(frozen=True)
class ThinTrading:
    """When a symbol counts as thinly traded in a window.

    most_stale      share of its bars with an unchanged close or no volume
    most_bounce     share of its variance that bounces, by Roll's measure
    least_turnover  median close × volume of a bar, where volume is known
    """

    most_stale: float = 0.05
    most_bounce: float = 0.2
    least_turnover: float = 0.0

    def __post_init__(self) -> None:
        check_range(0, 1, owner="lag", most_stale=self.most_stale, most_bounce=self.most_bounce)
        check_range(0, owner="lag", least_turnover=self.least_turnover)

    def flags(self, panel: Panel, increments: Floats) -> dict[str, str]:
        """Symbol → why it is thin over the last bars of the panel, whose increments (time, symbol) are given."""
        flags: dict[str, str] = {}
        for sentence, (values, is_thin) in self._reasons(panel, increments, len(panel) - 1).items():
            for column in np.flatnonzero(is_thin):
                # One reason a symbol is enough for a reader: the first that applies.
                flags.setdefault(panel.symbols[column], sentence.format(values[column]))
        return flags

    def is_thin(self, panel: Panel, increments: Array, end: int) -> Array:
        """(symbol,) whether each is thin, for any reason, over the bars up to `end` whose increments are given."""
        return np.asarray(np.any([is_thin for _, is_thin in self._reasons(panel, increments, end).values()], axis=0))

    def _reasons(self, panel: Panel, increments: Floats, end: int) -> Mapping[str, tuple[Array, Array]]:
        """Sentence → (symbol,) what was measured over the bars up to `end`, and where it makes a symbol thin."""
        bars = slice(end + 1 - len(increments), end + 1)
        volume = np.where(panel.mask[bars], panel["volume"][bars], np.nan) if "volume" in panel.fields else None
        stale, bounce = stale_share(increments, volume), bounce_share(increments)
        turnover = np.full(len(panel.symbols), np.inf)
        if volume is not None and self.least_turnover > 0:  # a median of each window takes long
            turnover = _median(volume * panel.close[bars])
        return {
            "{:.0%} unchanged prices": (stale, stale > self.most_stale),
            "{:.0%} of its variance is bid–ask bounce": (bounce, bounce > self.most_bounce),
            "its median turnover is {:,.0f} a bar": (turnover, turnover < self.least_turnover),
        }


def stale_share(increments: Floats, volume: Array | None = None) -> Floats:
    """(symbol,) share of the observed increments (time, symbol) that are 0, or whose bar has no volume."""
    known = np.isfinite(increments)
    stands = known & (increments == 0)
    if volume is not None:
        stands |= known & (volume == 0)
    return ratio(stands.sum(axis=0), known.sum(axis=0))


def bounce_share(increments: Floats) -> Floats:
    """(symbol,) max(−cov(x(t), x(t−1)), 0) / var(x): Roll's half spread squared as a share of the variance."""
    centred = np.nan_to_num(increments - mean_observed(increments, axis=0))
    covariance = (centred[1:] * centred[:-1]).sum(axis=0)
    return np.asarray(np.nan_to_num(ratio(np.maximum(-covariance, 0.0), (centred**2).sum(axis=0))))


def _median(values: Array) -> Array:
    known = np.isfinite(values).any(axis=0)
    # ∞ where volume is unknown: nothing is called thin for lack of data.
    median = np.full(values.shape[1], np.inf)
    median[known] = np.nanmedian(values[:, known], axis=0)
    return median
