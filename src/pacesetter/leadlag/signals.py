"""Lead–lag features for the feature table: who leads, what the leaders' last moves predict, how stable that is.

Causal: the value at bar t uses the window that ends at t, whose length a `LookbackPolicy` chose at t. The prediction
is made twice: by the estimator's matrix, which knows leaders but neither their delay nor their sign, and by

    expected_j = σ_j · Σ_l Σ_i C_l[i, j] · x_i(t + 1 − l) / σ_i        C_l[i, j] = corr(x_i(u − l), x_j(u)), u ≤ t

with each C shrunk towards 0 by the level √(2·log(lags·(N − 1)) / n), about the largest of so many correlations of pure
noise in n observations (Donoho and Johnstone's universal threshold): most pairs are noise, and their sum would drown
the rest. SHRINKAGE names how; the level falls with the window, so that a longer one lets weaker links through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.features import Feature
from pacesetter.leadlag.engine import LeadLag
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy, roll
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.strategy import last_moves
from pacesetter.leadlag.structure.anomaly import instability
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.panel import Panel

__all__ = ["FIRST_BARS", "SHRINKAGE", "expected_follow_through", "expected_returns", "leadlag_features"]

Array = NDArray[Any]
SIXTY_BARS = ConstantLookback(60)
BLOCK_BYTES = 8 * 2**20  # of matrices held at once: several passes over them stay in the cache
FIRST_BARS = 60  # increments that the window of `expected` has at least, where it has a length of its own


def _hard(correlations: Array, level: float) -> Array:
    """Those above the level as they are, the others 0."""
    return np.where(np.abs(correlations) > level, correlations, 0.0)


def _soft(correlations: Array, level: float) -> Array:
    """All of them closer to 0 by the level, which is what the largest of them owe to chance."""
    return np.sign(correlations) * np.maximum(np.abs(correlations) - level, 0.0)


def _garrote(correlations: Array, level: float) -> Array:
    """In between: c·(1 − level²/c²) above the level, so that large ones are hardly changed (Breiman 1995)."""
    kept = np.abs(correlations) > level
    return np.where(kept, correlations - level**2 / np.where(kept, correlations, 1.0), 0.0)


SHRINKAGE: dict[str, Callable[[Array, float], Array]] = {"hard": _hard, "soft": _soft, "garrote": _garrote}


def leadlag_features(
    method: str = "ccf_auc",
    policy: LookbackPolicy = SIXTY_BARS,
    *,
    gap_bars: int = 20,
    expected_lags: int = 5,
    expected_lookback: int | None = None,
    shrinkage: str = "hard",
    newest_bars: int | None = None,
    **options: Any,
) -> tuple[Feature, ...]:
    """Four features by the estimator `method` with its `options`; the policy is rolled once per panel for all four.

    leader_score     row mean of the matrix: above 0 leads more than it follows
    follow_through   mean last move of the assets that lead the symbol, weighted by how much they lead it; a return
    instability      ½(1 − cosine) with the matrix `gap_bars` before, the same for all symbols
    expected         log return of the next bar by the moves of others up to `expected_lags` bars before it

    `expected` has the policy's window, or one of `expected_lookback`, shorter near the first bar: what is expected
    gains from more bars than the ranking of leaders does. `shrinkage` is one of SHRINKAGE. A server that reads the
    latest rows alone asks for `expected` of the `newest_bars`; it is NaN before them.
    """
    check_range(1, gap_bars=gap_bars, expected_lags=expected_lags)
    own = None if expected_lookback is None else ConstantLookback(expected_lookback)
    if shrinkage not in SHRINKAGE:
        raise ConfigError(f"shrinkage='{shrinkage}' is unknown{did_you_mean(shrinkage, SHRINKAGE)}")

    @lru_cache(maxsize=1)  # a table asks for the four one after another on one panel
    def measured(panel: Panel) -> dict[str, Array]:
        schedule = roll(policy, panel)
        bars = np.arange(policy.longest, len(panel))  # a shorter window would depend on the first bar
        signals = _by_matrix(panel, LeadLag(method, **options), bars, schedule, gap_bars)
        if own is not None:
            first = 0 if newest_bars is None else len(panel) - newest_bars
            bars = np.arange(max(min(FIRST_BARS, own.bars), first), len(panel))
            schedule = np.minimum(np.arange(len(panel)), own.bars)
        return signals | {"expected": expected_returns(panel, bars, schedule[bars], expected_lags, shrinkage)}

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
        "expected": window if own is None else own.bars + 1,
    }
    return tuple(feature(name, bars) for name, bars in memory.items())


def expected_follow_through(matrices: Array, moves: Array) -> Array:
    """(…, N) Σ_i L_ij·move_i / Σ_i L_ij with L = max(S, 0) over leaders i that moved; NaN where none leads j."""
    lead = np.nan_to_num(np.clip(matrices, 0, None)) * np.isfinite(moves)[..., None]
    push = np.einsum("...ij,...i->...j", lead, np.nan_to_num(moves))
    return ratio(push, lead.sum(axis=-2))


def expected_returns(panel: Panel, bars: Array, lookbacks: Array, lags: int = 5, shrinkage: str = "hard") -> Array:
    """(time, symbol) expected log return of bar t+1 at each t of `bars`; 0 without a link, NaN where not scored."""
    engine = LeadLag("ccf_peak", max_lag=lags, backend="gemm").fit(panel)  # a table would take memory and not be read
    expected = np.full(panel.mask.shape, np.nan)
    for t, lookback in zip(bars.tolist(), lookbacks.tolist(), strict=True):
        weights = engine.series_.weights(t, lookback)
        links = _shrunk(engine.correlations(t, lookback), lookback, shrinkage)
        # Row l − 1 is x(t + 1 − l), the move that lag l connects with bar t + 1.
        latest = engine.series_.x[t - np.arange(len(links))] * np.nan_to_num(weights)
        # 1/weight is the follower's deviation: from standard units back to a return.
        expected[t] = np.einsum("lij,li->j", links, latest) / weights
    return expected


def _shrunk(correlations: Array, lookback: int, shrinkage: str) -> Array:
    """(lag, i, j) the correlations of different assets, less what noise alone reaches; 0 for an asset with itself."""
    lags, assets, _ = correlations.shape
    level = float(np.sqrt(2 * np.log(max(lags * (assets - 1), 1)) / lookback))
    # `expected` is what others predict; a symbol's own autocorrelation is another signal.
    return np.where(np.eye(assets, dtype=bool), 0.0, SHRINKAGE[shrinkage](np.nan_to_num(correlations), level))


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
        # A scored symbol that nothing leads expects 0; NaN is for what cannot be scored.
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
