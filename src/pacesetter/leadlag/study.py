"""A lead–lag study of one panel: leaders with intervals, significant links, lags, leadership over time, strategy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.leadlag.engine import CacheInfo, LeadLag
from pacesetter.leadlag.estimators.estimator import ESTIMATORS
from pacesetter.leadlag.strategy import COST_BPS, fill_to_fill_returns, follow_leaders, last_moves
from pacesetter.leadlag.structure.anomaly import AlertLevels, anomaly_score, instability, worst_windows
from pacesetter.leadlag.structure.concentration import contributions, gini, herfindahl, leadership_table
from pacesetter.leadlag.structure.network import engine_score, lead_lag_network, link_p_values, ranking_intervals
from pacesetter.leadlag.structure.ranking import rank_autocorrelation, row_mean
from pacesetter.panel import Panel
from pacesetter.registry import configure

if TYPE_CHECKING:
    import networkx

__all__ = ["Study", "StudyResult", "configure_study", "study_defaults"]

Array = NDArray[Any]
MOST_STRATEGY_BARS = 2500  # matrices held at once for the strategy; the last ten years of daily bars


@dataclass(frozen=True)
class Study:
    """What to look at.

    method    score of the matrix and the ranking, one of ESTIMATORS
    lookback  increments in the window
    end       last moment seen, e.g. 2016-12-30; the last bar when left out
    step      bars between the windows of the time line
    links     score whose links are tested; a score summed over lags has little power link by link
    draws     of the permutation null and of the bootstrap
    level     false-discovery rate of the links, and one minus the width of the intervals
    quantile  share of assets that counts as leaders
    cost_bps  paid by the strategy on what it turns over, a side
    """

    method: str = "ccf_auc"
    lookback: int = 250
    end: str | None = None
    step: int = 20
    links: str = "ccf_lag1"
    draws: int = 200
    level: float = 0.1
    quantile: float = 0.2
    cost_bps: float = COST_BPS
    seed: int = 0
    engine: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.make_engine()
        if self.links not in ESTIMATORS:
            raise ConfigError(f"lag.links='{self.links}' is unknown{did_you_mean(self.links, ESTIMATORS)}")
        check_range(2, owner="lag", lookback=self.lookback, draws=self.draws)
        check_range(1, owner="lag", step=self.step)
        for name in ("level", "quantile"):
            if not 0 < getattr(self, name) < 1:
                raise ConfigError(f"lag.{name}={getattr(self, name)} must be between 0 and 1")

    def make_engine(self) -> LeadLag:
        """The configured engine, not yet fitted."""
        return LeadLag(self.method, **self.engine)

    def run(self, panel: Panel) -> StudyResult:
        """All of it, seeing no bar after `end`."""
        panel = panel if self.end is None else panel.between(end=self.end)
        lag, last = self.make_engine().fit(panel), len(panel) - 1
        matrix = lag.matrix(last, self.lookback)
        increments = np.log1p(last_moves(panel))[last - self.lookback + 1 :]
        ends, lookbacks = lag.windows(self.lookback, self.step)
        matrices = lag.many(ends, lookbacks)
        return StudyResult(
            study=self,
            panel=panel,
            matrix=matrix,
            ranking=self._ranking(increments, panel.symbols),
            network=self._network(increments, panel.symbols),
            lags=LeadLag("ccf_peak", max_lag=self._max_lag()).fit(panel).lags(last, self.lookback),
            ends=ends,
            matrices=matrices,
            strategy=self._strategy(panel, lag),
            diagnostics=lag.diagnose(last, self.lookback),
            cache=lag.cache_info(),
        )

    def _max_lag(self) -> int:
        return min(int(self.engine.get("max_lag", 5)), self.lookback - 1)

    def _ranking(self, increments: Array, symbols: tuple[str, ...]) -> pd.DataFrame:
        score = engine_score(self.method, **self.engine)
        block = min(20, len(increments))
        return ranking_intervals(
            increments, symbols, score, block_bars=block, draws=self.draws, level=1 - self.level, seed=self.seed
        )

    def _network(self, increments: Array, symbols: tuple[str, ...]) -> networkx.DiGraph:
        score = engine_score(self.links)
        p_values = link_p_values(increments, score, draws=self.draws, pooled=True, seed=self.seed)
        return lead_lag_network(score(increments[None])[0], p_values, symbols, level=self.level)

    def _strategy(self, panel: Panel, lag: LeadLag) -> dict[str, float]:
        """Mean and t-value of the leaders → followers strategy at every bar, fill to fill, gross and net of costs."""
        first = max(self.lookback, len(panel) - MOST_STRATEGY_BARS)
        matrices = lag.many(np.arange(first, len(panel)), self.lookback)
        moves, fills = last_moves(panel)[first:], fill_to_fill_returns(panel)[first:]
        returns = follow_leaders(matrices, moves, fills, quantile=self.quantile, cost_bps=self.cost_bps)
        figures = {"bars": float(np.isfinite(returns.net).sum())}
        for name, series in (("gross", returns.gross), ("net", returns.net)):
            known = series[np.isfinite(series)]
            mean = known.mean() if len(known) else np.nan
            error = known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else np.nan
            figures[f"{name}_bps"] = float(1e4 * mean)
            figures[f"{name}_t"] = float(mean / error) if error > 0 else np.nan
        return figures


@dataclass(frozen=True, eq=False)
class StudyResult:
    """What a study found; matrices (window, N, N) end at the bars `ends`."""

    study: Study
    panel: Panel
    matrix: Array
    ranking: pd.DataFrame
    network: networkx.DiGraph
    lags: Array
    ends: Array
    matrices: Array
    strategy: dict[str, float]
    diagnostics: dict[str, str]
    cache: CacheInfo

    @property
    def leadership(self) -> Array:
        """(window, N) leader scores over time."""
        return row_mean(self.matrices)

    def persistence(self) -> float:
        """Mean rank correlation of leaders between windows that share no bar; near 0 when leaders do not last."""
        gap = -(-self.study.lookback // self.study.step)
        if len(self.ends) <= gap:
            return float("nan")
        return float(np.nanmean(rank_autocorrelation(self.leadership, lag=gap)))

    def concentration(self) -> tuple[float, float]:
        """Herfindahl and Gini of who does the leading in the last window."""
        shares = contributions(self.matrix)
        return float(herfindahl(shares)), float(gini(shares))

    def table(self) -> pd.DataFrame:
        """The ranking with how often each asset led over all windows."""
        return self.ranking.join(leadership_table(self.matrices, self.panel.symbols, self.study.quantile)[["leads"]])

    def unstable(self, count: int = 10) -> pd.DataFrame:
        """The windows whose matrix changed most: start, end, score; an adversarial test set."""
        lookbacks = np.full(len(self.ends), self.study.lookback)
        return worst_windows(instability(self.matrices), self.ends, lookbacks, count)

    def anomalies(self) -> tuple[Array, Array]:
        """(window,) anomaly score of the matrix stream, and its grade (0 calm, 1 warning, 2 alarm)."""
        scores = anomaly_score(self.matrices)
        return scores, AlertLevels().grade(scores)


def study_defaults() -> dict[str, Any]:
    """Every key of the group `lag` with its default; an estimator's own options stand as None, its default."""
    own = {field.name: field.default for field in dataclasses.fields(Study) if field.name not in ("engine", "seed")}
    options = {field.name: None for name in ESTIMATORS for field in dataclasses.fields(ESTIMATORS[name])}  # type: ignore[arg-type]
    engine = dict.fromkeys(("increments", "min_observations", "backend", "device", "memory_budget_mb"))
    return own | options | engine


def configure_study(settings: Mapping[str, Any], seed: int = 0) -> Study:
    """A study from flat settings: its own keys by name, what is left goes to the engine and its estimator."""
    own = {field.name for field in dataclasses.fields(Study)} - {"engine"}
    given = {key: value for key, value in settings.items() if value is not None}
    mine = {key: value for key, value in given.items() if key in own}
    engine = {key: value for key, value in given.items() if key not in own}
    return configure(Study, {"seed": seed} | mine | {"engine": engine}, "lag")
