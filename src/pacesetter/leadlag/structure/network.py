"""The lead–lag network: which links are more than chance, and how sure the ranking of leaders is.

Scores come from a callable on increments, `score((draws, time, N)) -> (draws, N, N)`, so any estimator fits;
`engine_score` makes one from a registered method. All draws of a batch go through one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.leadlag.engine import LeadLag
from pacesetter.leadlag.observed import mean_observed, ratio
from pacesetter.leadlag.series import end_to_end
from pacesetter.leadlag.structure.ranking import ranks, row_mean

if TYPE_CHECKING:
    import networkx

__all__ = [
    "NULLS",
    "Score",
    "engine_score",
    "false_discovery_rate",
    "lead_lag_network",
    "link_p_values",
    "ranking_intervals",
]

Array = NDArray[Any]
Score = Callable[[Array], Array]
BATCH_BYTES = 32 * 2**20  # of increments per call of the score; small enough for a laptop's prefix tables


def engine_score(method: str = "ccf_auc", **options: Any) -> Score:
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


def link_p_values(
    increments: Array,
    score: Score,
    *,
    null: str = "permute",
    draws: int = 200,
    pooled: bool = False,
    seed: int = 0,
) -> Array:
    """(N, N) symmetric two-sided p-values of the links of increments (time, N); NaN on the diagonal and where absent.

    null     `permute` shuffles each asset in time, exact for independent increments; `shift` rotates each asset by
             its own amount, which keeps its autocorrelation but allows only as many values as there are bars
    pooled   compare with the null scores of all pairs instead of the pair's own: p-values as small as
             1/(draws·pairs), right when the assets' null scores are alike (scale-free scores of similar assets)
    """
    if null not in NULLS:
        raise ConfigError(f"null='{null}' is unknown{did_you_mean(null, NULLS)}")
    size = np.abs(score(increments[None])[0])
    rng = np.random.default_rng(seed)
    upper = np.triu_indices(len(size), 1)
    drawn = np.concatenate(
        [np.abs(score(batch))[:, *upper] for batch in _batches(increments, draws, lambda: NULLS[null](increments, rng))]
    )
    p_values = np.full(size.shape, np.nan)
    p_values[upper] = _pooled_tail(size[upper], drawn) if pooled else _tail(size[upper], drawn)
    return _mirrored(p_values)


def _permuted(increments: Array, rng: np.random.Generator) -> Array:
    return rng.permuted(increments, axis=0)


def _shifted(increments: Array, rng: np.random.Generator) -> Array:
    bars, assets = increments.shape
    rows = (np.arange(bars)[:, None] + rng.integers(bars, size=assets)) % bars
    shifted: Array = increments[rows, np.arange(assets)]
    return shifted


NULLS: dict[str, Callable[[Array, np.random.Generator], Array]] = {"permute": _permuted, "shift": _shifted}


def _batches(increments: Array, draws: int, draw: Callable[[], Array]) -> Iterator[Array]:
    """`draws` redrawn copies of the increments in stacks of at most BATCH_BYTES."""
    check_range(1, draws=draws)
    size = max(int(BATCH_BYTES // max(increments.nbytes, 1)), 1)
    for start in range(0, draws, size):
        yield np.stack([draw() for _ in range(min(size, draws - start))])


def _tail(observed: Array, null: Array) -> Array:
    """(pairs,) share of each pair's null that is as large as the observed, which itself counts as one draw."""
    p_values = (1 + (null >= observed).sum(axis=0)) / (1 + len(null))
    return np.where(np.isfinite(observed), p_values, np.nan)


def _pooled_tail(observed: Array, null: Array) -> Array:
    pool = np.sort(null[np.isfinite(null)])
    larger = len(pool) - np.searchsorted(pool, observed, side="left")
    return np.where(np.isfinite(observed), (1 + larger) / (1 + len(pool)), np.nan)


def false_discovery_rate(p_values: Array, method: str = "bh") -> Array:
    """(N, N) adjusted p-values over the pairs: linking those ≤ q keeps the expected share of false links ≤ q.

    `bh` is Benjamini–Hochberg, `by` Benjamini–Yekutieli for any dependence between pairs. NaN stays NaN.
    """
    from scipy.stats import false_discovery_control

    if method not in ("bh", "by"):
        raise ConfigError(f"method='{method}' is unknown{did_you_mean(method, ('bh', 'by'))}")
    upper = np.triu(np.isfinite(p_values), 1)
    adjusted = np.full(p_values.shape, np.nan)
    if upper.any():
        adjusted[upper] = false_discovery_control(p_values[upper], method=method)
    return _mirrored(adjusted)


def _mirrored(upper: Array) -> Array:
    """A symmetric matrix from the entries above the diagonal, the rest being NaN."""
    return np.where(np.isnan(upper), upper.T, upper)


def lead_lag_network(
    matrix: Array, p_values: Array, symbols: Sequence[str], *, level: float = 0.05, method: str = "bh"
) -> networkx.DiGraph:
    """A graph with an edge from leader to follower for every link whose adjusted p-value is at most `level`.

    Nodes are all symbols with `score` (row mean) and `rank`; edges carry `weight` > 0, `p_value` and `q_value`.
    """
    import networkx

    graph = networkx.DiGraph(level=level, method=method)
    scores = row_mean(matrix)
    for symbol, score, rank in zip(symbols, scores, ranks(scores), strict=True):
        graph.add_node(symbol, score=float(score), rank=float(rank))
    q_values = false_discovery_rate(p_values, method)
    for i, j in np.argwhere((q_values <= level) & (matrix > 0)):
        link = {"weight": matrix[i, j], "p_value": p_values[i, j], "q_value": q_values[i, j]}
        graph.add_edge(symbols[i], symbols[j], **{name: float(value) for name, value in link.items()})
    return graph


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
