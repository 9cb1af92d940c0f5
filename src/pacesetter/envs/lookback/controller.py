"""A controller that learns which setting serves its lower agent best, regime by regime, while that agent learns.

A bandit with a context: the regime at the first bar of each interval. Its reward is what the lower agent earned over
the interval by the configured reward, less what a window drawn at random earns at the same bars: most of the noise is
of the market, and settings differ by little. With S and n the sum and the number of bars of a regime under a setting,
M_k the mean of setting k over all regimes, s² the variance of a bar and N the bars of an interval,

    mean_ck = (S_ck + N·M_k) / (n_ck + N),        μ_ck ~ N(mean_ck, s² / (n_ck + N))

Training plays the setting of the highest drawn μ_ck (Thompson 1933), everything else the one of the highest mean. What
was seen counts less the longer ago it was, since the lower agent changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pacesetter.arrays import Array
from pacesetter.features.regime import REGIMES

__all__ = ["ControllerLearner"]


class ControllerLearner:
    """What each setting was worth in each regime.

    counts   (3, regime, setting) bars, sums of their gains, sums of their squares
    every    bars of an interval, which is also what the mean over all regimes weighs
    memory   bars after which what was seen counts a third
    """

    def __init__(self, settings: int, every: int, memory: int) -> None:
        self.every, self.memory = every, memory
        self.counts = np.zeros((3, len(REGIMES), settings))

    def means(self) -> Array:
        """(regime, setting) expected gains of a bar; those of a regime that was hardly seen are near the others'."""
        bars, sums, _ = self.counts
        overall = sums.sum(axis=0) / np.maximum(bars.sum(axis=0), 1.0)
        return np.asarray((sums + self.every * overall) / (bars + self.every))

    def best(self) -> Array:
        """(regime,) places of the settings that are worth most; the first of equal ones."""
        return np.asarray(self.means().argmax(axis=1))

    def draw(self, regimes: Array, generators: Sequence[np.random.Generator]) -> Array:
        """(row,) places of the settings to be tried in these regimes, each row with its own random numbers."""
        bars, sums, squares = (part.sum() for part in self.counts)
        # Before anything is known all settings are alike, and any deviation draws them evenly.
        variance = max(squares / bars - (sums / bars) ** 2, 1e-12) if bars else 1.0
        spread = np.sqrt(variance / (self.counts[0] + self.every))
        noise = np.stack([generator.standard_normal(spread.shape[1]) for generator in generators])
        return np.asarray((self.means()[regimes] + spread[regimes] * noise).argmax(axis=1))

    def observe(self, regimes: Array, settings: Array, gains: Array) -> None:
        """Take note of what bars (row,) in these regimes gained under these settings."""
        self.counts *= (1.0 - 1.0 / self.memory) ** len(gains)
        for part, values in zip(self.counts, (np.ones_like(gains), gains, gains**2), strict=True):
            np.add.at(part, (regimes, settings), values)
