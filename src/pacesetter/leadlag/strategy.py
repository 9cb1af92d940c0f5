"""Leaders → followers: buy what follows when its leaders have just risen, sell it when they have fallen.

Timing is DESIGN's contract 1: decided at the close of bar t with the matrix and moves of bar t, filled in bar t+1,
closed or changed in bar t+2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacesetter.arrays import Array, Floats, Integers
from pacesetter.compiled import njit
from pacesetter.errors import DataError, check_range
from pacesetter.leadlag.structure.ranking import mark_leaders, row_mean
from pacesetter.panel import Panel

__all__ = [
    "COST_BPS",
    "StrategyReturns",
    "delayed_moves",
    "fill_to_fill_returns",
    "follow_leaders",
    "follower_weights",
    "last_moves",
    "returns_of",
]

BASIS_POINT = 1e-4
COST_BPS = 10.0  # a side, what the market's `Costs` make by default; that room is beside this one, so a test holds it


def fill_to_fill_returns(panel: Panel) -> Floats:
    """(time, symbol) return of what is decided at t: open(t+1) → open(t+2), or closes likewise without opens.

    NaN in the last two bars and where either fill has no price.
    """
    price = np.where(panel.mask, panel["open" if "open" in panel.fields else "close"], np.nan)
    returns = np.full(price.shape, np.nan)
    returns[:-2] = price[2:] / price[1:-1] - 1
    return returns


def last_moves(panel: Panel) -> Floats:
    """(time, symbol) return of each bar's close on the close before, known at t; NaN where either was not observed."""
    close = np.where(panel.mask, panel.close, np.nan)
    moves = np.full(close.shape, np.nan)
    moves[1:] = close[1:] / close[:-1] - 1
    return moves


def follower_weights(matrices: Floats, moves: Floats, quantile: float = 0.2, delays: Array | None = None) -> Floats:
    """(…, N) weights decided from matrices (…, N, N) and the moves of the assets, gross at most one.

    The top `quantile` by row mean are leaders where that mean is above 0, the bottom `quantile` followers where it is
    below. Followers are held in equal parts, each with the sign of its leaders' push; nothing where none moved.

    Without `delays` the push is the leaders' mean last move, `moves` (…, N). With signed delays (…, N, N), negative for
    an opposite relation, it is Σ_i lead_ij · sign_ij · move_i(t + 1 − delay_ij), `moves` (…, delay, N) latest first.
    """
    scores = row_mean(matrices)
    leaders, followers = mark_leaders(scores, quantile) & (scores > 0), mark_leaders(-scores, quantile) & (scores < 0)
    if delays is None:
        push = np.sign(np.nansum(np.where(leaders, moves, 0.0), axis=-1, keepdims=True))
    else:
        push = np.sign(_push(np.where(leaders[..., None], np.clip(matrices, 0, None), 0.0), delays, moves))
    weights: Array = push * followers / np.maximum(followers.sum(axis=-1, keepdims=True), 1)
    return weights


def _push(lead: Floats, delays: Array, moves: Floats) -> Floats:
    """(…, N) Σ_i lead_ij · sign_ij · move_i at the delay of the pair."""
    symbols, total = lead.shape[-1], np.zeros(lead.shape[:-1])
    matrices = lead.reshape(-1, symbols, symbols), delays.reshape(-1, symbols, symbols)
    _add_pushes(*matrices, np.nan_to_num(moves).reshape(-1, *moves.shape[-2:]), total.reshape(-1, symbols))
    return total


@njit(cache=True)
def _add_pushes(lead: Array, delays: Array, moves: Array, total: Array) -> None:
    windows, symbols, _ = lead.shape
    for w in range(windows):
        for i in range(symbols):
            for j in range(symbols):
                delay = abs(delays[w, i, j])
                if lead[w, i, j] > 0 and 1 <= delay <= moves.shape[1]:  # NaN is not above zero
                    push = lead[w, i, j] * moves[w, delay - 1, i]
                    total[w, j] += push if delays[w, i, j] > 0 else -push


def delayed_moves(panel: Panel, bars: Integers, delays: int) -> Floats:
    """(bar, delay, N) moves that predict, by delay 1 … delays, the bar that a decision at t of `bars` earns.

    With opens that is bar t + 1, so the moves of t, t − 1 …; without, it is bar t + 2, whose move at
    a delay of one is not known at t yet: the latest known move is used for it. NaN before bar 0.
    """
    late = "open" not in panel.fields
    rows = np.asarray(bars)[:, None] - np.maximum(np.arange(delays) - late, 0)
    first = max(int(rows.min()) - 1, 0) if rows.size else 0  # the move of a bar needs the bar before it, and no more
    moves = last_moves(panel.rows(first))
    return np.where((rows >= 0)[..., None], moves[np.maximum(rows - first, 0)], np.nan)


@dataclass(frozen=True)
class StrategyReturns:
    """Per-bar results (time,) as fractions of capital, and the weights (time, symbol) that gave them."""

    weights: Array
    gross: Array
    costs: Array

    @property
    def net(self) -> Floats:
        """(time,) gross − costs."""
        net: Array = self.gross - self.costs
        return net


def returns_of(weights: Floats, fills: Floats, cost_bps: float = COST_BPS) -> StrategyReturns:
    """Results of weights (time, symbol) decided at each bar, given fill-to-fill returns (time, symbol).

    Costs are `cost_bps` of the turnover Σ|w_t − w_{t−1}|, the first position bought from cash. A weight without a
    fill earns nothing and still pays. NaN in the bars in which nothing could be filled (the last two).
    """
    if weights.shape != fills.shape:
        raise DataError(f"weights {weights.shape} and fill-to-fill returns {fills.shape} must have one shape")
    check_range(0, cost_bps=cost_bps)
    # Between target weights: what prices do to a weight within a bar is neither traded back nor paid for.
    turnover = np.abs(np.diff(weights, axis=0, prepend=0.0)).sum(axis=-1)
    filled = np.isfinite(fills).any(axis=-1)
    gross = np.where(filled, np.nansum(weights * fills, axis=-1), np.nan)
    return StrategyReturns(weights, gross, np.where(filled, cost_bps * BASIS_POINT * turnover, np.nan))


def follow_leaders(
    matrices: Array, moves: Array, fills: Array, *, quantile: float = 0.2, cost_bps: float = COST_BPS
) -> StrategyReturns:
    """The strategy over a stack of matrices (time, N, N), the moves and the fill-to-fill returns (time, N)."""
    return returns_of(follower_weights(matrices, moves, quantile), fills, cost_bps)
