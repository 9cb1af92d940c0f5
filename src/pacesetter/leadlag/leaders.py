"""The strongest leaders of each symbol at each bar, with their last moves: what a network attends to.

Leader i of symbol j at bar t comes with the estimator's score S[i, j] of the chosen window, and for each delay l with

    link_l = C_l[i, j], shrunk as in `signals`        move_l = x_i(t + 1 − l) / σ_i, cut at ±CUT

so that Σ_i Σ_l link_l · move_l is `leadlag_expected` in units of σ_j, with the sum left to the reader. Leaders are
ranked by their largest |C_l| before it is shrunk; at a tie the first symbol comes first. Symbols in another order give
the same rows, and one that is absent leads none.
"""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit
from pacesetter.leadlag.engine import Engine
from pacesetter.leadlag.shrinkage import SHRINKAGE, noise_level, shrink
from pacesetter.panel import Panel

__all__ = ["CUT", "ENTRY", "NO_LEADER", "leader_names", "leader_rows"]

ENTRY = "leaders"  # of the observation, and what the names of its features begin with
NO_LEADER = -1.0  # place of a leader that there is not: fewer symbols are present than leaders are asked for
CUT = 5.0  # standard deviations; a crash must not be all that a network sees
PLACE, SCORE, LINKS = 0, 1, 2  # columns of a leader; its moves come after its links


def leader_names(count: int, lags: int) -> tuple[str, ...]:
    """Names of the features, leader by leader: place, score, then a link and a move for each delay."""
    delays = range(1, lags + 1)
    own = ("place", "score", *(f"link_{lag}" for lag in delays), *(f"move_{lag}" for lag in delays))
    return tuple(f"{ENTRY}_{leader}_{name}" for leader in range(1, count + 1) for name in own)


def leader_rows(
    panel: Panel,
    engine: Engine,
    bars: Array,
    windows: Array,
    schedule: Array,
    *,
    count: int,
    lags: int,
    shrinkage: str,
) -> Array:
    """(time, symbol, leader · column) float32 at `bars`, NaN elsewhere and for symbols that cannot be scored.

    engine     of the scores, fitted to the panel; its window at bar t is schedule[t], 0 before the first whole one
    windows    (bar,) window of the links
    """
    measured = Engine("ccf_peak", max_lag=lags, backend="gemm").fit(panel)
    symbols, kind = len(panel.symbols), SHRINKAGE.index(shrinkage)
    rows = np.full((len(panel), symbols, count, 2 * lags + LINKS), np.nan, np.float32)
    for t, lookback in zip(bars.tolist(), windows.tolist(), strict=True):
        weights, links = measured.series_.weights(t, lookback), measured.correlations(t, lookback)
        moves = np.clip(measured.series_.x[t - np.arange(len(links))] * weights, -CUT, CUT)
        scores = engine.scores(t, int(schedule[t])) if schedule[t] else np.zeros((symbols, symbols))
        level = noise_level(len(links), symbols, lookback)
        is_here = panel.mask[t] & np.isfinite(weights)
        _fill(links, moves, np.nan_to_num(scores), is_here, level, kind, rows[t])
    return rows.reshape(*rows.shape[:2], -1)


@njit(cache=True)
def _fill(links: Array, moves: Array, scores: Array, is_here: Array, level: float, shrinkage: int, rows: Array) -> None:
    """Fill `rows` (symbol, leader, column) of the symbols that are here from links (lag, i, j) and moves (lag, i)."""
    lags, symbols, _ = links.shape
    for j in range(symbols):
        if not is_here[j]:
            continue
        strengths = np.full(symbols, -1.0)
        for i in range(symbols):
            if i != j and is_here[i]:
                strengths[i] = 0.0
                for lag in range(lags):
                    if abs(links[lag, i, j]) > strengths[i]:  # NaN is not above anything
                        strengths[i] = abs(links[lag, i, j])
        for place in range(rows.shape[1]):
            best = np.argmax(strengths)
            if strengths[best] < 0:
                rows[j, place] = 0.0
                rows[j, place, PLACE] = NO_LEADER
                continue
            strengths[best] = -1.0
            rows[j, place, PLACE], rows[j, place, SCORE] = best, scores[best, j]
            for lag in range(lags):
                rows[j, place, LINKS + lag] = shrink(links[lag, best, j], level, shrinkage)
                move = moves[lag, best]
                rows[j, place, LINKS + lags + lag] = move if np.isfinite(move) else 0.0
