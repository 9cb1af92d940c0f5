"""Lead–lag features for the feature table: who leads now, what the leaders' last moves promise, is the structure firm.

Causal: the value at bar t uses the window that ends at t, whose length a `LookbackPolicy` chose at t. What the moves
promise is told twice: by the estimator's matrix, which knows leaders but neither their delay nor their sign, and by

    expected_j = σ_j · Σ_l Σ_i C_l[i, j] · x_i(t + 1 − l) / σ_i        C_l[i, j] = corr(x_i(u − l), x_j(u)), u ≤ t

over the links |C| > √(2·log(lags·(N − 1)) / n) alone, about the largest of so many correlations of pure noise in n
observations (Donoho and Johnstone's universal threshold): most pairs are noise, and their sum would drown the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.errors import check_range
from pacesetter.features import Feature
from pacesetter.leadlag.engine import LeadLag
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy, roll
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.strategy import last_moves
from pacesetter.leadlag.structure.anomaly import instability
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.panel import Panel

__all__ = ["expected_follow_through", "expected_returns", "leadlag_features"]

Array = NDArray[Any]
SIXTY_BARS = ConstantLookback(60)
BLOCK_BYTES = 8 * 2**20  # of matrices held at once: several passes over them stay in the cache


def leadlag_features(
    method: str = "ccf_auc",
    policy: LookbackPolicy = SIXTY_BARS,
    *,
    gap_bars: int = 20,
    expected_lags: int = 5,
    **options: Any,
) -> tuple[Feature, ...]:
    """Four features by the estimator `method` with its `options`; the policy is rolled once per panel for all four.

    leader_score     row mean of the matrix: above 0 leads more than it follows
    follow_through   mean last move of the assets that lead the symbol, weighted by how much they lead it; a return
    instability      ½(1 − cosine) with the matrix `gap_bars` before, the same for all symbols
    expected         log return of the next bar by the moves of others up to `expected_lags` bars before it
    """
    check_range(1, gap_bars=gap_bars, expected_lags=expected_lags)

    @lru_cache(maxsize=1)  # a table asks for the four one after another on one panel
    def measured(panel: Panel) -> dict[str, Array]:
        schedule = roll(policy, panel)
        bars = np.arange(policy.longest, len(panel))  # a shorter window would depend on the first bar
        signals = _by_matrix(panel, LeadLag(method, **options), bars, schedule, gap_bars)
        return signals | {"expected": expected_returns(panel, bars, schedule[bars], expected_lags)}

    def feature(name: str, memory_bars: int) -> Feature:
        return Feature(
            name=f"leadlag_{name}",
            needs=("close",),
            memory_bars=memory_bars,
            compute=lambda panel: measured(panel)[name],
            kind="leadlag",
        )

    window = policy.longest + 1
    memory = {
        "leader_score": window,
        "follow_through": window,
        "instability": window + gap_bars,
        "expected": window,
    }
    return tuple(feature(name, bars) for name, bars in memory.items())


def expected_follow_through(matrices: Array, moves: Array) -> Array:
    """(…, N) Σ_i L_ij·move_i / Σ_i L_ij with L = max(S, 0) over leaders i that moved; NaN where none leads j."""
    lead = np.nan_to_num(np.clip(matrices, 0, None)) * np.isfinite(moves)[..., None]
    push = np.einsum("...ij,...i->...j", lead, np.nan_to_num(moves))
    return ratio(push, lead.sum(axis=-2))


def expected_returns(panel: Panel, bars: Array, lookbacks: Array, lags: int = 5) -> Array:
    """(time, symbol) expected log return of bar t+1 at each t of `bars`; 0 without a link, NaN where not scored."""
    engine = LeadLag("ccf_peak", max_lag=lags, backend="gemm").fit(panel)  # a table would take memory and not be read
    expected = np.full(panel.mask.shape, np.nan)
    for t, lookback in zip(bars.tolist(), lookbacks.tolist(), strict=True):
        weights = engine.series_.weights(t, lookback)
        links = _firm_links(engine.correlations(t, lookback), lookback)
        latest = engine.series_.x[t - np.arange(len(links))] * np.nan_to_num(weights)
        expected[t] = np.einsum("lij,li->j", links, latest) / weights
    return expected


def _firm_links(correlations: Array, lookback: int) -> Array:
    """(lag, i, j) the correlations of different assets above what noise alone reaches; 0 elsewhere."""
    lags, assets, _ = correlations.shape
    level = np.sqrt(2 * np.log(max(lags * (assets - 1), 1)) / lookback)
    is_firm = (np.abs(correlations) > level) & ~np.eye(assets, dtype=bool)
    return np.where(is_firm, correlations, 0.0)


def _by_matrix(panel: Panel, engine: LeadLag, bars: Array, schedule: Array, gap_bars: int) -> dict[str, Array]:
    """The signals that read the estimator's matrix, each (time, symbol); NaN outside `bars` and where not scored."""
    moves = last_moves(panel)
    engine.fit(panel)
    signals = {name: np.full(moves.shape, np.nan) for name in ("leader_score", "follow_through", "instability")}
    for run, fresh in _blocks(bars, len(panel.symbols), gap_bars):
        matrices = engine.many(run, schedule[run])
        now, scores = run[fresh:], row_mean(matrices[fresh:])
        promised = expected_follow_through(matrices[fresh:], moves[now])
        signals["leader_score"][now] = scores
        signals["follow_through"][now] = np.where(np.isfinite(scores), np.nan_to_num(promised), np.nan)
        if len(run) > gap_bars:
            signals["instability"][now] = instability(matrices, gap_bars)[fresh:, None]
    return signals


def _blocks(bars: Array, assets: int, gap_bars: int) -> Iterator[tuple[Array, int]]:
    """Runs of the bars, each with up to `gap_bars` bars before it, and the place of its first new bar."""
    size = max(BLOCK_BYTES // (assets**2 * 8), gap_bars)
    for start in range(0, len(bars), size):
        before = max(start - gap_bars, 0)
        yield bars[before : start + size], start - before
