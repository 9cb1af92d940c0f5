"""What the leaders of a window predict: the push they give each follower, set against what followers then earn.

With S the matrix of the window that ends at t, z the last moves and y the later fill-to-fill returns, both in units of
each asset's own deviation up to t:

    push_j = Σ_i max(S_ij, 0)·z_i(t)        prediction = Σ_j push_j·y_j / √(Σ_j push_j² · Σ_j y_j²)

The prediction is a cosine: 1 when the followers do as they were pushed, 0 on average where nothing leads. It is out of
sample, because S and z end at t and y begins with the fill in bar t+1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit, prange
from pacesetter.errors import check_range
from pacesetter.leadlag.engine import Engine
from pacesetter.leadlag.lookback.policy import SHORTEST
from pacesetter.leadlag.strategy import fill_to_fill_returns, last_moves
from pacesetter.panel import Panel

__all__ = ["Measure", "Prediction", "leader_information", "measure_windows", "window_predictions"]

FEW_WINDOWS = 8  # up to here starting threads takes longer than measuring
BLOCK_BYTES = 64 * 2**20  # of matrices held at once
BINS = 4


class Measure(IntEnum):
    """What `measure_windows` finds of a window, column by column."""

    PREDICTION = 0  # −1 … 1; 0 where nothing could be compared
    STRENGTH = 1  # mean |S_ij| over the scored pairs; 0 without one
    AGREEMENT = 2  # cosine of the leader scores with those before; 1 without any in common
    IS_MEASURED = 3  # 0 where nothing could be compared


@dataclass(frozen=True, eq=False)
class Prediction:
    """What leaders did and followers then did, (time, symbol) in deviations over the `deviation_bars` up to t.

    moves     z: the bar's close on the close before; 0 where not observed
    outcomes  y: fill to fill over the next `horizon_bars`; NaN where a fill has no price. Only a reward may read it
    """

    moves: Array
    outcomes: Array

    @classmethod
    def of(cls, panel: Panel, engine: Engine, horizon_bars: int = 1, deviation_bars: int = 250) -> Prediction:
        """Both tables for a fitted engine; refuses a horizon below one bar."""
        check_range(1, horizon_bars=horizon_bars)
        weights = np.full(panel.mask.shape, np.nan)
        for t in range(SHORTEST, len(panel)):
            # Deviations known at t: those of the whole panel would scale the past by the future.
            weights[t] = engine.series_.weights(t, min(deviation_bars, t))
        growth = 1 + fill_to_fill_returns(panel)
        whole = growth.copy()
        for ahead in range(1, horizon_bars):
            whole[:-ahead] *= growth[ahead:]
            # A horizon that ends after the last fill has no outcome yet.
            whole[-ahead:] = np.nan
        return cls(np.nan_to_num(last_moves(panel) * weights), (whole - 1) * weights)


def window_predictions(
    panel: Panel, lookbacks: Sequence[int], method: str = "ccf_auc", horizon_bars: int = 1, **options: Any
) -> Array:
    """(time, lookback) prediction of every window; NaN where it does not fit or its outcome is not there yet.

    Row t reads bars up to t + 1 + `horizon_bars`: at bar u only rows t ≤ u − 1 − `horizon_bars` are known.
    """
    engine = Engine(method, **options).fit(panel)
    # One scale for all lookbacks, so that they are compared on the same outcomes.
    tables = Prediction.of(panel, engine, horizon_bars, max(lookbacks))
    predictions = np.full((len(panel), len(lookbacks)), np.nan)
    size = max(BLOCK_BYTES // (len(panel.symbols) ** 2 * 8), 1)
    # All lookbacks of a block in turn: they read the same span of a table that is not held whole.
    for first in range(0, len(panel), size):
        for column, lookback in enumerate(lookbacks):
            bars = np.arange(max(first, lookback), min(first + size, len(panel)))
            if not len(bars):
                continue
            matrices = engine.many(bars, lookback)
            scores = np.full(matrices.shape[:2], np.nan)
            measures = measure_windows(matrices, bars, tables, scores)
            is_measured = measures[:, Measure.IS_MEASURED] > 0
            predictions[bars[is_measured], column] = measures[is_measured, Measure.PREDICTION]
    return predictions


def measure_windows(matrices: Array, bars: Array, tables: Prediction, scores: Array) -> Array:
    """(window, Measure) of matrices (window, N, N) that end at `bars` (window,).

    `scores` (window, N) holds the leader scores to agree with, NaN for none, and then those of the new matrices.
    """
    measures = np.empty((len(bars), len(Measure)))
    measure = _measure_few if len(bars) <= FEW_WINDOWS else _measure_many
    measure(matrices, bars, tables.moves, tables.outcomes, scores, measures)
    return measures


@njit(cache=True)
def _measure_few(matrices: Array, bars: Array, moves: Array, outcomes: Array, scores: Array, measures: Array) -> None:
    for k in range(bars.size):
        _measure(matrices[k], moves[bars[k]], outcomes[bars[k]], scores[k], measures[k])


@njit(parallel=True, cache=True)
def _measure_many(matrices: Array, bars: Array, moves: Array, outcomes: Array, scores: Array, measures: Array) -> None:
    for k in prange(bars.size):
        _measure(matrices[k], moves[bars[k]], outcomes[bars[k]], scores[k], measures[k])


@njit(cache=True)
def _measure(matrix: Array, moves: Array, outcomes: Array, scores: Array, measures: Array) -> None:
    """Fill `measures` (Measure,) for one window and put its leader scores in place of the ones before."""
    symbols = matrix.shape[0]
    push = np.zeros(symbols)
    total, pairs = 0.0, 0
    together, before_square, square = 0.0, 0.0, 0.0
    for i in range(symbols):
        row, links = 0.0, 0
        for j in range(symbols):
            link = matrix[i, j]
            if i != j and not np.isnan(link):
                row += link
                links += 1
                total += abs(link)
                push[j] += max(link, 0.0) * moves[i]
        score = row / links if links else np.nan
        pairs += links
        if links and not np.isnan(scores[i]):
            together += score * scores[i]
            before_square += scores[i] ** 2
            square += score**2
        scores[i] = score
    prediction = _push_cosine(push, outcomes)
    measures[Measure.IS_MEASURED] = 0.0 if np.isnan(prediction) else 1.0
    measures[Measure.PREDICTION] = 0.0 if np.isnan(prediction) else prediction
    measures[Measure.STRENGTH] = total / pairs if pairs else 0.0
    measures[Measure.AGREEMENT] = together / np.sqrt(before_square * square) if before_square * square > 0 else 1.0


@njit(cache=True)
def _push_cosine(push: Array, outcomes: Array) -> float:
    """Cosine of pushes with the known outcomes; NaN without any."""
    product, push_square, square = 0.0, 0.0, 0.0
    for j in range(push.size):
        if not np.isnan(outcomes[j]):
            product += push[j] * outcomes[j]
            push_square += push[j] ** 2
            square += outcomes[j] ** 2
    return product / np.sqrt(push_square * square) if push_square * square > 0 else np.nan


@njit(cache=True)
def leader_information(increments: Array, ends: Array, lookbacks: Array, scores: Array, information: Array) -> None:
    """Fill `information` (window,): of leaders about followers one bar later, as a share of log 4.

    Leaders and followers are Σ max(±score, 0)·x over `increments` (time, N), each cut at its own quartiles in the
    window. The mean that chance alone gives, (bins − 1)²/2n, is taken off: a short window is not flattered.
    """
    for k in range(ends.size):
        n = lookbacks[k] - 1
        lead, follow = np.zeros(n), np.zeros(n)
        for u in range(n):
            bar = ends[k] - n + u
            for i in range(scores.shape[1]):
                if scores[k, i] > 0:
                    lead[u] += scores[k, i] * increments[bar, i]
                elif scores[k, i] < 0:
                    follow[u] -= scores[k, i] * increments[bar + 1, i]
        # Miller–Madow: independent series in b × b bins show (b − 1)²/2n nats on average.
        information[k] = (_binned_information(lead, follow) - (BINS - 1) ** 2 / (2 * n)) / np.log(BINS)


@njit(cache=True)
def _binned_information(a: Array, b: Array) -> float:
    """I(a; b) in nats over quartile bins."""
    counts = np.zeros((BINS, BINS))
    cuts = np.arange(1, BINS) * a.size // BINS
    first, second = np.sort(a)[cuts], np.sort(b)[cuts]
    for u in range(a.size):
        counts[(a[u] >= first).sum(), (b[u] >= second).sum()] += 1
    information = 0.0
    for i in range(BINS):
        for j in range(BINS):
            if counts[i, j]:
                expected = counts[i].sum() * counts[:, j].sum()
                information += counts[i, j] / a.size * np.log(counts[i, j] * a.size / expected)
    return information
