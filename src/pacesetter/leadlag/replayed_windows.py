"""The windows of a study through its history: leadership over time, and what following the leaders earned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.leadlag.answer import Preparation, StrengthMeasure
from pacesetter.leadlag.answer.rolling import Answers, rolling_answers
from pacesetter.leadlag.engine import CacheInfo, LeadLag
from pacesetter.leadlag.series import Series
from pacesetter.leadlag.strategy import delayed_moves, fill_to_fill_returns, follower_weights, returns_of
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.leadlag.study import Study

__all__ = ["MOST_STRATEGY_BARS", "ReplayedWindows"]

Array = NDArray[Any]
MOST_STRATEGY_BARS = 2500  # the last ten years of daily bars
SINGLE_PRECISION_ABOVE = 64 * 2**20  # bytes of time line matrices
ENGINE_WINDOWS = 256  # of scores without delays at once


@dataclass(frozen=True, eq=False)
class ReplayedWindows:
    """The panel under a study whose window is in bars."""

    study: Study
    panel: Panel
    series: Series
    gauge: StrengthMeasure
    preparation: Preparation

    @cached_property
    def _engine(self) -> LeadLag | None:
        """Scores without delays have tables or a cache of their own, which other windows share."""
        own = not self.gauge.has_lags and self.preparation.is_plain
        return self.study.make_engine().fit(self.panel) if own else None

    def cache_info(self) -> CacheInfo:
        """How the window cache served, where there is one."""
        return self._engine.cache_info() if self._engine is not None else CacheInfo(0, 0, 0, 0)

    def answers(self, ends: Array, title: str) -> Iterator[Answers]:
        """The answers of the windows that end at `ends`, without the thin symbols of each where those are excluded."""
        excluded, lookback = self._exclude_thin(ends), self.study.bars
        if self._engine is not None:
            return _engine_answers(self._engine, ends, lookback, excluded)
        return rolling_answers(self.series, ends, lookback, self.gauge, self.preparation, title, excluded)

    def _exclude_thin(self, ends: Array) -> Array:
        """(window, symbol) what is thin in each window by the same measures as in the last one."""
        if self.study.thin != "exclude":
            return np.zeros((len(ends), len(self.panel.symbols)), dtype=bool)
        rule, lookback = self.study.thin_trading, self.study.bars
        windows = ((end, self.series.observed_window(end, lookback)) for end in ends.tolist())
        flags = [rule.is_thin(self.panel, window, end) for end, window in windows]
        return np.array(flags, dtype=bool).reshape(len(ends), len(self.panel.symbols))

    def matrices(self, ends: Array) -> Array:
        """(window, N, N) leadership of the time line."""
        symbols = len(self.panel.symbols)
        large = len(ends) * symbols**2 * 8 > SINGLE_PRECISION_ABOVE
        out = np.empty((len(ends), symbols, symbols), dtype=np.float32 if large else np.float64)
        row = 0
        for block in self.answers(ends, "leadership over time"):
            out[row : row + len(block.ends)] = block.leadership
            row += len(block.ends)
        return out

    def strategy(self) -> dict[str, float]:
        """Mean and t-value of the leaders → followers strategy at every bar, fill to fill, gross and net of costs."""
        panel, study = self.panel, self.study
        first = max(study.bars, len(panel) - MOST_STRATEGY_BARS)
        bars = np.arange(first, len(panel))
        weights = np.zeros((len(bars), len(panel.symbols)))
        row = 0
        for block in self.answers(bars, "strategy"):
            part = slice(row, row + len(block.ends))
            latest = delayed_moves(panel, block.ends, max(self.gauge.max_lag, 1))
            weights[part] = follower_weights(block.leadership, latest, study.quantile, block.delays)
            row = part.stop
        returns = returns_of(weights, fill_to_fill_returns(panel.rows(first)), study.cost_bps)
        figures = {"bars": float(np.isfinite(returns.net).sum())}
        for name, earned in (("gross", returns.gross), ("net", returns.net)):
            known = earned[np.isfinite(earned)]
            mean = known.mean() if len(known) else np.nan
            error = known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else np.nan
            figures[f"{name}_bps"] = float(1e4 * mean)
            figures[f"{name}_t"] = float(mean / error) if error > 0 else np.nan
        return figures


def _engine_answers(engine: LeadLag, ends: Array, lookback: int, excluded: Array) -> Iterator[Answers]:
    """The estimator's own scores as leadership; a method without delays uses the move of the last bar."""
    for start in range(0, len(ends), ENGINE_WINDOWS):
        block = ends[start : start + ENGINE_WINDOWS]
        scores, left_out = engine.many(block, lookback), excluded[start : start + ENGINE_WINDOWS]
        scores[left_out[:, :, None] | left_out[:, None, :]] = np.nan
        yield Answers(block, scores, np.ones(scores.shape, dtype=np.int16))
