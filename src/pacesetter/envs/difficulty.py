"""Copies of a market that are easier or harder to read: another volatility, and noise in the returns.

Noise is a random walk of its own in every symbol. It hides what the bars say and cannot be traded, as noise around a
price could, which comes back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import check_range
from pacesetter.panel import Panel

__all__ = ["alter_returns"]

PRICES = ("open", "high", "low", "close")


def alter_returns(
    panel: Panel, noise: float = 0.0, volatility: float | None = None, factor: float = 1.0, seed: int = 0
) -> Panel:
    """The panel with other log returns: r' = scale·r + noise·scale·σ·ε, of each symbol; bars keep their shape.

    noise        deviation of the added walk, in those of the symbol's own returns σ
    volatility   annualised, that the symbol's own returns are scaled to; None scales them by `factor`
    """
    check_range(0, noise=noise, volatility=volatility or 0, factor=factor)
    close = np.where(panel.mask, panel.close, np.nan)
    moves = _log_moves(close)
    deviation = np.nanstd(moves, axis=0)
    wanted = (
        factor * deviation if volatility is None else np.full_like(deviation, volatility / panel.bars_per_year**0.5)
    )
    scale = np.divide(wanted, deviation, out=np.ones_like(deviation), where=deviation > 0)
    drawn = np.random.default_rng(seed).standard_normal(close.shape)
    walk = np.nancumsum(np.where(np.isfinite(moves), scale * moves + noise * wanted * drawn, 0.0), axis=0)
    first = np.log(_first_closes(close))
    shift = first + walk - np.log(np.where(np.isfinite(close), close, 1.0))  # new log close less the old one
    blocks = panel.blocks.copy()
    for place, name in enumerate(panel.fields):
        if name in PRICES:
            inside = np.log(panel[name]) - np.log(panel.close)  # a bar's own shape, scaled with the moves
            blocks[place] = np.where(
                panel.mask, np.exp(np.log(panel.close) + shift + (scale - 1) * inside + inside), np.nan
            )
    return replace(panel, blocks=blocks, truth=None)


def _log_moves(close: Array) -> Array:
    """(time, symbol) log returns from one observed close to the next; NaN at the first and where none was observed."""
    import pandas as pd

    last = pd.DataFrame(close).ffill().shift(1).to_numpy()
    moves: Array = np.log(close) - np.log(last)
    return moves


def _first_closes(close: Array) -> Array:
    """(symbol,) first observed close."""
    place = np.isfinite(close).argmax(axis=0)
    return np.where(np.isfinite(close).any(axis=0), close[place, np.arange(close.shape[1])], 1.0)
