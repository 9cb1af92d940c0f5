"""How sure the ranking of leaders is: bootstrap intervals, symbol by symbol and for all symbols at once.

Scores come from a callable on increments, `score((draws, time, N)) -> (draws, N, N)`, so any estimator fits;
`engine_score` makes one from a registered method. All draws of a batch go through one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, check_range
from pacesetter.leadlag.engine import LeadLag
from pacesetter.leadlag.observed import mean_observed, ratio
from pacesetter.leadlag.series import end_to_end
from pacesetter.leadlag.structure.ranking import ranks, row_mean

__all__ = ["Score", "engine_score", "ranking_intervals"]

Array = NDArray[Any]
Score = Callable[[Array], Array]
BATCH_BYTES = 32 * 2**20  # of increments per call of the score; small enough for a laptop's prefix tables


def engine_score(method: str = "ccf_peak", **options: Any) -> Score:
    """A score over batches of increments by the registered estimator `method`.

    The draws are laid end to end as one history and scored as its windows: a window of the engine reads nothing
    outside itself, so draws do not mix. No prefix table by default, as no window is requested twice.
    """
    engine = LeadLag(method, **{"backend": "gemm"} | options)

    def score(increments: Array) -> Array:
        draws, bars, assets = increments.shape
        series = end_to_end(increments, engine.min_observations or 0)
        matrices = np.empty((draws, assets, assets))
        engine.estimator.scorer(series, engine.resources).score_many(
            np.arange(1, draws + 1) * bars, np.full(draws, bars), matrices
        )
        return matrices

    return score


def _batches(increments: Array, draws: int, draw: Callable[[], Array]) -> Iterator[Array]:
    """`draws` redrawn copies of the increments in stacks of at most BATCH_BYTES."""
    check_range(1, draws=draws)
    size = max(int(BATCH_BYTES // max(increments.nbytes, 1)), 1)
    for start in range(0, draws, size):
        yield np.stack([draw() for _ in range(min(size, draws - start))])


def ranking_intervals(
    increments: Array,
    symbols: Sequence[str],
    score: Score,
    *,
    resampled: Score | None = None,
    ranking: Callable[[Array], Array] = row_mean,
    block_bars: int = 20,
    draws: int = 200,
    level: float = 0.9,
    seed: int = 0,
) -> pd.DataFrame:
    """Leaders first: `score` and `rank` of each symbol, each with `_low` and `_high` ends of its `level` interval.

    `sure_low` and `sure_high` hold the scores of all symbols at once with probability `level`: on pure noise, some
    symbol lies clear of zero in no more than 1 − level of all cases.

    Circular block bootstrap (Politis, Romano): runs of `block_bars` bars, the same for all assets, so leads of up
    to that length survive the resampling. The draws are centred on the estimate, because the seams between blocks
    weaken every lead a little.

    resampled   a shorter way to the scores of a draw: how often each bar is drawn (draws, time) → (draws, N, N)
    """
    bars = len(increments)
    check_range(1, bars, block_bars=block_bars)
    if not 0 < level < 1:
        raise ConfigError(f"level={level} must be between 0 and 1, e.g. 0.9")
    rng = np.random.default_rng(seed)

    def rows() -> Array:
        starts = rng.integers(bars, size=-(-bars // block_bars))
        drawn: Array = (starts[:, None] + np.arange(block_bars)).ravel()[:bars] % bars
        return drawn

    point = ranking(score(increments[None]))[0]
    if resampled is None:
        batches = _batches(increments, draws, lambda: np.take(increments, rows(), axis=0))
    else:
        # as many draws at once as their matrices allow
        batches = _batches(point[:, None] * point, draws, lambda: np.bincount(rows(), minlength=bars))
    drawn = np.concatenate([ranking((resampled or score)(batch)) for batch in batches])
    return _interval_table(symbols, point, drawn, level)


def _interval_table(symbols: Sequence[str], point: Array, drawn: Array, level: float) -> pd.DataFrame:
    """Estimates and the quantiles of the draws (draws, N) around them, for the scores and for their ranks."""
    around = point + drawn - mean_observed(drawn, axis=0)
    columns = {}
    for name, estimate, draws in (("score", point, around), ("rank", ranks(point), ranks(around))):
        columns[name] = estimate
        frame = pd.DataFrame(draws)
        columns[f"{name}_low"], columns[f"{name}_high"] = frame.quantile([(1 - level) / 2, (1 + level) / 2]).to_numpy()
    spread = np.sqrt(mean_observed((around - point) ** 2, axis=0)) if len(around) > 1 else np.full(len(point), np.nan)
    # The largest deviation of any symbol in each draw: its quantile makes all intervals hold at once.
    furthest = np.nanmax(ratio(np.abs(around - point), spread), axis=1, initial=0.0)
    reach = np.quantile(furthest, level) * spread
    columns["sure_low"], columns["sure_high"] = point - reach, point + reach
    return pd.DataFrame(columns, index=pd.Index(symbols, name="symbol")).sort_values("rank", kind="stable")
