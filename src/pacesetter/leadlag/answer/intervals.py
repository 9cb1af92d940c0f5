"""How sure the ranking of leaders is: bootstrap intervals, symbol by symbol and for all symbols at once.

Scores come from a callable on increments, `score((draws, time, N)) -> (draws, N, N)`, so any method fits. For
correlations `Resampled` counts how often each bar is drawn instead of copying bars. A bar that is drawn brings its own
past with it: the product x_i(t−l)·x_j(t) is resampled, not the two series, so that no product runs across the seam
between two blocks. All draws of a delay are then one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from pacesetter.arrays import Array, Floats, Integers, Singles
from pacesetter.errors import ConfigError, check_range
from pacesetter.leadlag.answer.answer import Answer, StrengthMeasure, fold_in, weigh_directions, weighted_products
from pacesetter.leadlag.answer.links import Links
from pacesetter.leadlag.observed import mean_observed, ratio
from pacesetter.leadlag.structure.ranking import ranks, row_mean
from pacesetter.progress import count_progress

__all__ = ["Resampled", "Score", "chance_text", "leader_table", "ranking_intervals"]

Score = Callable[[Array], Array]
BLOCK_BARS = 20  # drawn together by the bootstrap
BATCH_BYTES = 32 * 2**20  # of increments per call of the score; small enough for a laptop's prefix tables
DRAWN_AT_ONCE = 16  # where each is scored by itself, so that the time left is soon known


def leader_table(
    window: Floats, gauge: StrengthMeasure, answer: Answer, links: Links, *, draws: int, level: float, seed: int
) -> pd.DataFrame:
    """Leader scores with intervals (`ranking_intervals`), `p_value` by the null of the links, and the `role`.

    A symbol is a leader or a follower only when both say so for all symbols together: the interval, that the sign of
    its score is sure; the null, that so large a score is rare where nothing leads.
    """
    table = ranking_intervals(
        window,
        answer.symbols,
        gauge.leadership,
        resampled=Resampled(window, gauge) if gauge.is_linear else None,
        block_bars=min(BLOCK_BARS, len(window)),
        draws=draws,
        level=1 - level,
        seed=seed,
    )
    table = table.join(pd.Series(links.leader_p, answer.symbols, name="p_value"))
    rare = table["p_value"] <= level
    roles = [rare & (table["sure_low"] > 0), rare & (table["sure_high"] < 0)]
    table["role"] = np.select(roles, ["leader", "follower"], "–")
    return table


def chance_text(table: pd.DataFrame) -> str:
    """Why no symbol of a leader table has a role although an interval excludes zero; empty where none does."""
    if not ((table["sure_low"] > 0) | (table["sure_high"] < 0)).any():
        return ""
    return f"chance gives such scores where nothing leads (smallest p = {table['p_value'].min():.2g})"


class Resampled:
    """Leadership (draw, i, j) by correlations of one window (time, symbol) whose bars are drawn `counts` times."""

    def __init__(self, window: Floats, gauge: StrengthMeasure) -> None:
        self.gauge = gauge
        x = np.nan_to_num(window)
        # single precision is plenty for an interval, once all symbols have the same scale
        self.x = (x * np.nan_to_num(ratio(1.0, x.std(axis=0)))).astype(np.float32)
        self.unscored = gauge.mark_unscored(window[None])[0]

    def __call__(self, counts: Integers) -> Singles:
        """(draw, i, j) leadership for `counts` (draw, time)."""
        weights = counts.astype(np.float32)
        draws, (bars, symbols) = len(weights), self.x.shape
        strength = np.zeros((draws, symbols, symbols), dtype=np.float32)
        for lag in range(1, min(self.gauge.max_lag, bars - 2) + 1):
            fold_in(strength, self._correlations(weights[:, lag:], lag), self.gauge.score_fold)
        return np.asarray(weigh_directions(strength, self.gauge.weighing) + self.unscored.astype(np.float32))

    @property
    def draws_at_once(self) -> int:
        """How many draws one call should have, so that memory stays bounded."""
        return self.gauge.draws_at_once(*self.x.shape)

    def _correlations(self, weights: Singles, lag: int) -> Singles:
        """(draw, i, j) correlations at one delay of bars drawn `weights` (draw, time − lag) times."""
        total = np.maximum(weights.sum(axis=1), 1.0)
        cube = weighted_products(self.x, weights, lag)
        cube /= total[:, None, None]
        lead, lead_scale = _moments(weights, self.x[:-lag], total)
        follow, follow_scale = _moments(weights, self.x[lag:], total)
        cube -= lead[:, :, None] * follow[:, None, :]
        cube *= lead_scale[:, :, None]
        cube *= follow_scale[:, None, :]
        return cube


def _moments(weights: Singles, part: Singles, total: Singles) -> tuple[Array, Array]:
    """(draw, symbol) mean and 1/deviation of the drawn bars; 0 for the latter where they do not vary."""
    mean = weights @ part / total[:, None]
    variance = weights @ (part * part) / total[:, None] - mean**2
    return mean, np.nan_to_num(np.sqrt(ratio(1.0, np.where(variance > 1e-6, variance, 0.0)))).astype(np.float32)


def _batches(draws: int, draw: Callable[[], Array], size: int) -> Iterator[Array]:
    """`draws` draws in stacks of `size` at most."""
    check_range(1, draws=draws)
    for start in range(0, draws, size):
        yield np.stack([draw() for _ in range(min(size, draws - start))])


def ranking_intervals(
    increments: Floats,
    symbols: Sequence[str],
    score: Score,
    *,
    resampled: Resampled | None = None,
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

    def rows() -> Integers:
        starts = rng.integers(bars, size=-(-bars // block_bars))
        drawn: Array = (starts[:, None] + np.arange(block_bars)).ravel()[:bars] % bars
        return drawn

    point = ranking(score(increments[None]))[0]
    if resampled is None:
        size = min(max(int(BATCH_BYTES // max(increments.nbytes, 1)), 1), DRAWN_AT_ONCE)
        batches = _batches(draws, lambda: np.take(increments, rows(), axis=0), size)
    else:
        batches = _batches(draws, lambda: np.bincount(rows(), minlength=bars), resampled.draws_at_once)
    drawn = []
    with count_progress("intervals", draws, "draw") as update:
        for batch in batches:
            drawn.append(ranking((resampled or score)(batch)))
            update(len(batch))
    return _interval_table(symbols, point, np.concatenate(drawn), level)


def _interval_table(symbols: Sequence[str], point: Floats, drawn: Floats, level: float) -> pd.DataFrame:
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
