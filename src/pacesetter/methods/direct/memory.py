"""How far back to fit: older bars count less where blocks that follow each other in time say so.

Every block but the first is predicted by weights of the bars before it alone, over the inputs that were found, once
with all bars alike and once with bars that count half for every `memory` bars that they are older. A block left out of
the middle could not tell: the weights around it know its past and its future.
"""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array
from pacesetter.methods.direct.discovery import LEAST_GAIN, gain
from pacesetter.methods.direct.sparse import CrossProducts, blocks_of, relax_weights, signal_utility

__all__ = ["MEMORIES", "age_weights", "choose_memory"]

MEMORIES = (1_000.0, 500.0, 250.0)  # bars, half-lives


def choose_memory(x: Array, y: Array, weights: Array, *, folds: int, purge_bars: int) -> tuple[float, float]:
    """(half-life in bars, infinite where all bars alike are not surely worse; standard errors of the best gain).

    x, y      inputs (bar, p) and returns (bar, symbol)       weights   (p, symbol), 0 where an input is not used
    """
    if not weights.any():
        return np.inf, 0.0
    blocks = blocks_of(len(x), folds)[1:]
    said = {memory: _forward(x, y, weights, memory, blocks, purge_bars) for memory in (np.inf, *MEMORIES)}
    aim = y[int(blocks[0][0]) :]
    gains = {memory: gain(said[np.inf], said[memory], aim) for memory in MEMORIES}
    sure = [memory for memory in MEMORIES if gains[memory] >= LEAST_GAIN]
    # Of those that are surely better the best, not the surest, which is the one least different from all bars alike.
    return max(sure, key=lambda memory: signal_utility(said[memory], aim)[0], default=np.inf), max(gains.values())


def age_weights(bars: int, memory: float) -> Array:
    """(bar, 1) what each bar counts, the newest most; 1 on average."""
    weights = 0.5 ** (np.arange(bars)[::-1, None] / memory)
    normed: Array = weights / weights.mean()
    return normed


def _forward(x: Array, y: Array, weights: Array, memory: float, blocks: list[Array], purge_bars: int) -> Array:
    """(bar, symbol) predictions of each block by the bars before it."""
    said = []
    for block in blocks:
        before = int(block[0]) - purge_bars
        ages = np.sqrt(age_weights(before, memory))
        said.append(x[block] @ relax_weights(CrossProducts.of(ages * x[:before], ages * y[:before]), weights))
    return np.concatenate(said)
