"""Lead–lag features for the feature table: who leads now, what the leaders' last moves promise, is the structure firm.

Causal: the value at bar t uses the window that ends at t, whose length a `LookbackPolicy` chose at t.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.errors import ConfigError
from pacesetter.features import Feature
from pacesetter.leadlag.anomaly import instability
from pacesetter.leadlag.engine import LeadLag
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.policy import ConstantLookback, LookbackPolicy, roll
from pacesetter.leadlag.ranking import row_mean
from pacesetter.leadlag.strategy import last_moves
from pacesetter.panel import Panel

__all__ = ["expected_follow_through", "leadlag_features"]

Array = NDArray[Any]
SIXTY_BARS = ConstantLookback(60)
BLOCK_BYTES = 8 * 2**20  # of matrices held at once: several passes over them stay in the cache


def leadlag_features(
    method: str = "ccf_auc",
    policy: LookbackPolicy = SIXTY_BARS,
    *,
    gap_bars: int = 20,
    **options: Any,
) -> tuple[Feature, ...]:
    """Three features by the estimator `method` with its `options`; the policy is rolled once per panel for all three.

    leader_score     row mean of the matrix: above 0 leads more than it follows
    follow_through   mean last move of the assets that lead the symbol, weighted by how much they lead it; a return
    instability      ½(1 − cosine) with the matrix `gap_bars` before, the same for all symbols
    """
    if gap_bars < 1:
        raise ConfigError(f"gap_bars={gap_bars} must be 1 or more")

    @lru_cache(maxsize=1)  # a table asks for the three one after another on one panel
    def measured(panel: Panel) -> dict[str, Array]:
        return _measure(panel, method, policy, gap_bars, options)

    def feature(name: str, memory_bars: int) -> Feature:
        return Feature(
            name=f"leadlag_{name}",
            needs=("close",),
            memory_bars=memory_bars,
            compute=lambda panel: measured(panel)[name],
            kind="leadlag",
        )

    window = policy.longest + 1
    memory = {"leader_score": window, "follow_through": window, "instability": window + gap_bars}
    return tuple(feature(name, bars) for name, bars in memory.items())


def expected_follow_through(matrices: Array, moves: Array) -> Array:
    """(…, N) Σ_i L_ij·move_i / Σ_i L_ij with L = max(S, 0) over leaders i that moved; NaN where nobody leads j."""
    lead = np.nan_to_num(np.clip(matrices, 0, None)) * np.isfinite(moves)[..., None]
    push = np.einsum("...ij,...i->...j", lead, np.nan_to_num(moves))
    return ratio(push, lead.sum(axis=-2))


def _measure(
    panel: Panel, method: str, policy: LookbackPolicy, gap_bars: int, options: dict[str, Any]
) -> dict[str, Array]:
    """Each signal as (time, symbol), NaN until the longest window fits: a shorter one would depend on the first bar."""
    schedule, moves = roll(policy, panel), last_moves(panel)
    engine = LeadLag(method, **options).fit(panel)
    signals = {name: np.full(moves.shape, np.nan) for name in ("leader_score", "follow_through", "instability")}
    for bars, fresh in _blocks(np.arange(policy.longest, len(panel)), len(panel.symbols), gap_bars):
        matrices = engine.many(bars, schedule[bars])
        now = bars[fresh:]
        signals["leader_score"][now] = row_mean(matrices[fresh:])
        signals["follow_through"][now] = expected_follow_through(matrices[fresh:], moves[now])
        if len(bars) > gap_bars:
            signals["instability"][now] = instability(matrices, gap_bars)[fresh:, None]
    return signals


def _blocks(bars: Array, assets: int, gap_bars: int) -> Iterator[tuple[Array, int]]:
    """Runs of the bars, each with up to `gap_bars` bars before it, and the place of its first new bar."""
    size = max(BLOCK_BYTES // (assets**2 * 8), gap_bars)
    for start in range(0, len(bars), size):
        before = max(start - gap_bars, 0)
        yield bars[before : start + size], start - before
