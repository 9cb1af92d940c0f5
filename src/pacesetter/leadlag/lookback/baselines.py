"""Lookback policies to compare an agent with: heuristics, choices by past score, the regime oracle, hindsight.

All keep the protocol `LookbackPolicy`, and all but the last two read bars ≤ t only. A choice at bar t is a function of
the panel and t: asked again, or in another order, it is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.lookback.policy import SHORTEST, ConstantLookback, LookbackPolicy
from pacesetter.leadlag.prediction import window_predictions
from pacesetter.leadlag.strategy import last_moves
from pacesetter.panel import Panel

__all__ = [
    "GRID",
    "CorrelationLookback",
    "CrossValidatedLookback",
    "HindsightLookback",
    "RegimeOracle",
    "ThompsonLookback",
    "VolatilityLookback",
    "WindowScores",
    "baseline_policies",
]

GRID = (10, 20, 60, 120, 250)


def baseline_policies(scores: WindowScores | None = None) -> dict[str, LookbackPolicy]:
    """Every baseline that needs no truth, by name; `scores` says which windows and which estimator."""
    scores = scores or WindowScores()
    bounds = {"shortest": scores.grid[0], "longest": scores.grid[-1]}
    return {
        **{f"constant {bars}": ConstantLookback(bars) for bars in scores.grid},
        "volatility": VolatilityLookback(**bounds),
        "correlation": CorrelationLookback(**bounds),
        "cross-validated": CrossValidatedLookback(scores),
        "thompson": ThompsonLookback(scores),
        "hindsight": HindsightLookback(scores),
    }


# ---- heuristics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bounded(LookbackPolicy):
    """A policy over all windows from `shortest` to `longest`."""

    shortest: int = GRID[0]
    longest: int = GRID[-1]

    def __post_init__(self) -> None:
        if not SHORTEST <= self.shortest <= self.longest:
            bounds = f"shortest={self.shortest} and longest={self.longest}"
            raise ConfigError(f"{bounds} must be {SHORTEST} bars or more, in order")

    def _between(self, share: float) -> int:
        """The window that lies a `share` of the way from shortest to longest on a logarithmic scale."""
        share = min(max(share, 0.0), 1.0)
        return round(float(self.shortest ** (1 - share) * self.longest**share))


@dataclass(frozen=True)
class VolatilityLookback(_Bounded):
    """Short windows in turmoil, long ones in calm: the place between the bounds is where volatility is in its past.

    The mean absolute move of the latest `recent_bars` is ranked within the `history_bars` before.
    """

    recent_bars: int = 20
    history_bars: int = 250

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        levels = _mean_moves(panel)[max(t - self.history_bars, 0) : t + 1]
        if len(levels) < 2 * self.recent_bars:
            return self._between(0.5)
        recent = np.convolve(levels, np.full(self.recent_bars, 1 / self.recent_bars), mode="valid")
        # The share of the past that was rougher: 1 in the calmest bar, which gets the longest window.
        return self._between(float((recent > recent[-1]).mean()))


@dataclass(frozen=True)
class CorrelationLookback(_Bounded):
    """Long windows when assets are highly correlated and leaders hard to identify, short ones when correlation is low.

    The place between the bounds is the share of the variance of the latest `recent_bars` that is common: the variance
    of the mean move over the mean variance.
    """

    recent_bars: int = 60

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        moves = np.nan_to_num(_last_moves(panel)[max(t - self.recent_bars + 1, 0) : t + 1])
        own = float(moves.var(axis=0).mean())
        return self._between(float(moves.mean(axis=1).var()) / own if own > 0 else 0.5)


# ---- by score -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowScores:
    """The predictions of all windows of a grid, computed once per panel.

    grid           windows to choose from, in bars
    method         estimator, with its `options`
    horizon_bars   bars over which followers may respond
    """

    grid: tuple[int, ...] = GRID
    method: str = "ccf_auc"
    horizon_bars: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.grid or min(self.grid) < SHORTEST:
            raise ConfigError(f"grid={self.grid} must have at least one window, of {SHORTEST} bars or more")

    def table(self, panel: Panel) -> Array:
        """(time, window) predictions; row t is known from bar t + 1 + horizon_bars on."""
        return _score_windows(panel, self.grid, self.method, self.horizon_bars, tuple(sorted(self.options.items())))

    def known_scores(self, panel: Panel, t: int, history_bars: int) -> Array:
        """(≤ history_bars, window) the latest predictions whose outcome is known at bar `t`."""
        # Row r is scored by fills up to bar r + 1 + horizon: at bar t the newest known is r = t − 1 − horizon.
        end = t - self.horizon_bars
        return self.table(panel)[max(end - history_bars, 0) : max(end, 0)]


@dataclass(frozen=True)
class _Scored(LookbackPolicy):
    """A policy over the windows of `scores`."""

    scores: WindowScores = field(default_factory=WindowScores)

    @property
    def longest(self) -> int:
        return max(self.scores.grid)


@dataclass(frozen=True)
class CrossValidatedLookback(_Scored):
    """The window that predicted best out-of-sample over the latest `history_bars`; at first the middle of the grid."""

    history_bars: int = 250

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        known = self.scores.known_scores(panel, t, self.history_bars)
        return _best_window(self.scores.grid, _means(known))


@dataclass(frozen=True)
class ThompsonLookback(_Scored):
    """Thompson sampling: each window's mean score is drawn from what is believed of it, and the best draw is taken.

    Beliefs are normal, with the mean and the standard error of the scores known so far, older ones fading with
    `half_life_bars`. The draws of bar t come from `seed` and t.
    """

    half_life_bars: float = 120.0
    seed: int = 0

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        # After eight half-lives a score weighs 1/256; older ones are not read.
        known = self.scores.known_scores(panel, t, int(8 * self.half_life_bars))
        weights = 0.5 ** (np.arange(len(known))[::-1, None] / self.half_life_bars) * np.isfinite(known)
        count = weights.sum(axis=0) + 1  # one score of 0 ± 1 is believed in before any is known
        mean = (weights * np.nan_to_num(known)).sum(axis=0) / count
        variance = ((weights * np.nan_to_num(known - mean) ** 2).sum(axis=0) + 1) / count
        # A generator for each bar, not one that runs on: the choice does not depend on what was asked before.
        draws = np.random.default_rng([self.seed, t]).standard_normal(len(mean))
        return _best_window(self.scores.grid, mean + draws * np.sqrt(variance / count))


# ---- with knowledge no trader has -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegimeOracle(LookbackPolicy):
    """The best window of each regime, `windows[regime]`; the generator of a synthetic market reveals the regime."""

    windows: tuple[int, ...]

    @classmethod
    def fit(cls, panel: Panel, scores: WindowScores) -> RegimeOracle:
        """The windows of `scores` with the best mean prediction in each regime of a synthetic panel."""
        table, regimes = scores.table(panel), _regimes(panel)
        best = [_best_window(scores.grid, _means(table[regimes == regime])) for regime in range(int(regimes.max()) + 1)]
        return cls(tuple(best))

    @property
    def longest(self) -> int:
        return max(self.windows)

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        return self.windows[int(_regimes(panel)[t])]


@dataclass(frozen=True)
class HindsightLookback(_Scored):
    """At every bar the window that will have predicted best: it looks ahead, and no policy can reach it."""

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        return _best_window(self.scores.grid, self.scores.table(panel)[t])


def _regimes(panel: Panel) -> Array:
    if panel.truth is None:
        raise DataError("the regime oracle needs the truth of a synthetic market, which this panel lacks")
    return panel.truth.regimes


def _best_window(grid: tuple[int, ...], means: Array) -> int:
    """The window with the highest mean; the middle one where none is known."""
    if not np.isfinite(means).any():
        return grid[len(grid) // 2]
    return grid[int(np.nanargmax(means))]


def _means(scores: Array) -> Array:
    """(window,) means of the rows that know every window, so that all are compared over the same bars."""
    whole = scores[np.isfinite(scores).all(axis=1)]
    return np.asarray(whole.mean(axis=0)) if len(whole) else np.full(scores.shape[1], np.nan)


@lru_cache(maxsize=4)
def _score_windows(
    panel: Panel, grid: tuple[int, ...], method: str, horizon_bars: int, options: tuple[tuple[str, object], ...]
) -> Array:
    return window_predictions(panel, grid, method, horizon_bars, **dict(options))


@lru_cache(maxsize=4)
def _last_moves(panel: Panel) -> Array:
    return last_moves(panel)


@lru_cache(maxsize=4)
def _mean_moves(panel: Panel) -> Array:
    """(time,) mean absolute move over the observed assets."""
    moves = np.abs(_last_moves(panel))
    is_known = np.isfinite(moves)
    return np.asarray(np.nansum(moves, axis=1) / np.maximum(is_known.sum(axis=1), 1))
