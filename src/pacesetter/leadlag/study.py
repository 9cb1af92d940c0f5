"""A lead–lag study of one panel: one answer per window, and from it ranking, links, lag map, network and strategy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, DataError, check_range, did_you_mean
from pacesetter.leadlag.answer import Answer, Gauge, Links, Preparation, answer_window, find_links
from pacesetter.leadlag.answer.influence import leaders_without_a_bar, links_without_a_bar
from pacesetter.leadlag.answer.links import CONTROLS, Control
from pacesetter.leadlag.answer.network import link_network
from pacesetter.leadlag.answer.prepare import Kind
from pacesetter.leadlag.answer.rolling import Answers, rolling_answers
from pacesetter.leadlag.answer.thin import ThinTrading
from pacesetter.leadlag.engine import CacheInfo, LeadLag
from pacesetter.leadlag.estimators.estimator import ESTIMATORS
from pacesetter.leadlag.estimators.learned import Learned
from pacesetter.leadlag.series import Increments, Series, read_series
from pacesetter.leadlag.strategy import (
    COST_BPS,
    delayed_moves,
    fill_to_fill_returns,
    follower_weights,
    returns_of,
)
from pacesetter.leadlag.structure.anomaly import AlertLevels, Autoencoder, anomaly_score, instability, worst_windows
from pacesetter.leadlag.structure.clustering import hermitian_clusters
from pacesetter.leadlag.structure.concentration import contributions, gini, herfindahl, leadership_table
from pacesetter.leadlag.structure.network import ranking_intervals
from pacesetter.leadlag.structure.ranking import rank_autocorrelation, row_mean
from pacesetter.panel import Panel
from pacesetter.registry import configure

if TYPE_CHECKING:
    import networkx

__all__ = ["Study", "StudyResult", "configure_study", "study_defaults"]

Array = NDArray[Any]
MOST_STRATEGY_BARS = 2500  # the last ten years of daily bars
READ_AS: dict[str, Increments] = {"simple": "simple", "difference": "difference"}  # the others are made of logarithms
SINGLE_PRECISION_ABOVE = 256 * 2**20  # bytes of time line matrices
DAY = pd.Timedelta(days=1)
ONE_LETTER_EXCHANGES = "FLT"  # Frankfurt, London, Tokyo; any other single letter is a class of shares


@dataclass(frozen=True)
class Study:
    """What to look at.

    method      score that everything comes from: ranking, links, delays, network, strategy; one of ESTIMATORS
    lookback    bars in the window
    end         last moment seen, e.g. 2016-12-30; the last bar when left out
    step        bars between the windows of the time line
    increments  `log`, `simple`, `difference`, `ranked` or `winsorised`, see `answer.prepare`
    residual    `none`, `market` or `pca(k)`: lead–lag net of what all symbols have in common, fitted in the window
    thin        `flag`, `exclude` or `ignore` symbols whose prices stand still (`most_stale`, a share of bars), bounce
                (`most_bounce`, a share of variance) or turn over too little (`least_turnover`, price × volume a bar)
    control     of false links: `max` family-wise, `bh` or `by` false-discovery rate
    draws       of the null and of the bootstrap
    level       chance of any false link (or share of false ones), and one minus the width of the intervals
    clusters    groups of symbols that lead and follow alike (Hermitian clustering); 0 for none
    autoencoder whether a small network, too, judges how unusual each window's structure is
    quantile    share of symbols that counts as leaders in the strategy
    cost_bps    paid by the strategy on what it turns over, a side
    """

    method: str = "ccf_peak"
    lookback: int = 250
    end: str | None = None
    step: int = 20
    increments: Kind = "log"
    residual: str = "none"
    thin: Literal["flag", "exclude", "ignore"] = "flag"
    most_stale: float = ThinTrading.most_stale
    most_bounce: float = ThinTrading.most_bounce
    least_turnover: float = ThinTrading.least_turnover
    control: Control = "max"
    draws: int = 200
    level: float = 0.05
    clusters: int = 0
    autoencoder: bool = False
    quantile: float = 0.2
    cost_bps: float = COST_BPS
    seed: int = 0
    engine: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_range(2, owner="lag", lookback=self.lookback)
        check_range(2, owner="lag", draws=self.draws)
        check_range(1, owner="lag", step=self.step)
        check_range(0, owner="lag", clusters=self.clusters)
        for name in ("level", "quantile"):
            if not 0 < getattr(self, name) < 1:
                raise ConfigError(f"lag.{name}={getattr(self, name)} must be between 0 and 1")
        for name, known in (("control", CONTROLS), ("thin", ("flag", "exclude", "ignore"))):
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"lag.{name}='{getattr(self, name)}' is unknown{did_you_mean(getattr(self, name), known)}"
                )
        self._preparation, self._thin_trading  # noqa: B018  (each refuses what it cannot read)
        # Made once here, so that a wrong option is refused before any data is read.
        self.make_gauge().check(self.lookback)

    @property
    def _preparation(self) -> Preparation:
        return Preparation(self.increments, self.residual)

    @property
    def _thin_trading(self) -> ThinTrading:
        return ThinTrading(self.most_stale, self.most_bounce, self.least_turnover)

    def make_engine(self) -> LeadLag:
        """The configured engine, not yet fitted; it gives the estimator's own scores."""
        return LeadLag(self.method, **{"increments": READ_AS.get(self.increments, "log_return")} | self.engine)

    def make_gauge(self) -> Gauge:
        """How the method measures strength, delay and sign."""
        self.make_engine()  # refuses options of the engine that the gauge has no use for
        return Gauge(self.method, **self.engine)

    def run(self, panel: Panel) -> StudyResult:
        """All of it, seeing no bar after `end`."""
        panel = panel if self.end is None else panel.between(end=self.end)
        refuse_mixed_days(panel)
        gauge, preparation = self.make_gauge(), self._preparation
        if isinstance(gauge.estimator, Learned):
            panel = gauge.estimator.prepared(panel)
        reading = READ_AS.get(self.increments, "log_return")
        series = read_series(panel, reading, gauge.minimum, gauge.estimator.spans_gaps)
        last = len(panel) - 1
        if self.lookback > last:
            raise ConfigError(
                f"lag.lookback={self.lookback} is longer than the history of {last} bars before the last; shorten it"
            )
        raw = series.observed_window(last, self.lookback)
        thin = {} if self.thin == "ignore" else self._thin_trading.flags(panel, raw)
        if self.thin == "exclude":
            # NaN instead of dropped, so that matrices keep the panel's columns.
            raw[:, [symbol in thin for symbol in panel.symbols]] = np.nan
        window = preparation.window(raw)
        answer = answer_window(window, panel.symbols, gauge)
        links = find_links(
            window, gauge, answer, control=self.control, draws=self.draws, level=self.level, seed=self.seed
        )
        walker = _Walker(self, panel, series, gauge, preparation)
        ends = np.arange(self.lookback, len(panel), self.step)
        return StudyResult(
            study=self,
            panel=panel,
            answer=answer,
            links=links,
            ranking=self._ranking(window, panel, gauge, answer, links),
            network=self._network(window, panel, gauge, answer, links, thin),
            thin=thin,
            ends=ends,
            matrices=walker.matrices(ends),
            strategy=walker.strategy(),
            diagnostics=self._diagnose(series, thin, last),
            cache=walker.cache_info(),
        )

    def _diagnose(self, series: Series, thin: dict[str, str], last: int) -> dict[str, str]:
        excluded = {symbol: f"excluded: {why}" for symbol, why in thin.items()} if self.thin == "exclude" else {}
        return series.diagnose(last, self.lookback) | excluded

    def _ranking(self, window: Array, panel: Panel, gauge: Gauge, answer: Answer, links: Links) -> pd.DataFrame:
        table = ranking_intervals(
            window,
            panel.symbols,
            gauge.leadership,
            block_bars=min(20, len(window)),
            draws=self.draws,
            level=1 - self.level,
            seed=self.seed,
        )
        chance = pd.Series(links.leader_p, panel.symbols, name="p_value")
        remains = np.full(len(panel.symbols), np.nan)
        named = np.flatnonzero((links.leader_p <= self.level) & np.isfinite(links.leader_p))
        for groups in _groups(panel, len(window)).values():
            left = leaders_without_a_bar(window, gauge, answer, named, groups)
            remains[named] = np.fmin(remains[named], left)
        return table.join(chance).join(pd.Series(remains, panel.symbols, name="remains"))

    def _network(
        self, window: Array, panel: Panel, gauge: Gauge, answer: Answer, links: Links, thin: dict[str, str]
    ) -> networkx.DiGraph:
        pairs = np.argwhere(links.linked(self.level))
        remains = {
            name: links_without_a_bar(window, gauge, answer, pairs, groups)
            for name, groups in _groups(panel, len(window)).items()
        }
        return link_network(answer, links, pairs, remains, thin, self.level)


def _groups(panel: Panel, bars: int) -> dict[str, Array | None]:
    """Groups that are removed together: a bar, and where days hold several bars, a day; (time,) numbers of the days."""
    days = panel.index[-bars:].normalize()
    codes = pd.factorize(days)[0]
    return {"bar": None} | ({"day": codes} if codes.max() + 1 < bars else {})


def refuse_mixed_days(panel: Panel) -> None:
    """Refuse daily bars of several exchanges (recognised by the symbol's suffix) that share one timestamp a day.

    Tokyo's close is known fourteen hours before New York's: one stamp for both would hide who could know what.
    """
    suffixes = {_exchange(symbol) for symbol in panel.symbols}
    exchanges = {suffix for suffix in suffixes if not suffix or (suffix.isupper() and len(suffix) <= 2)}
    if len(exchanges) < 2 or len(panel) < 2 or len(exchanges) < len(suffixes):
        return
    # Bars stamped at each exchange's own close would leave about half of the mask empty.
    if np.median(np.diff(panel.index.asi8)) >= DAY.value and panel.mask.mean() > 0.75:
        named = [next(symbol for symbol in panel.symbols if _exchange(symbol) == each) for each in exchanges]
        raise DataError(
            f"{' and '.join(sorted(named)[:2])} trade in different time zones but share one timestamp a day; give "
            "bars whose timestamps say when each exchange closed"
        )


def _exchange(symbol: str) -> str:
    """The suffix that names a symbol's exchange; empty for one without, and for a class of shares such as BRK.B."""
    suffix = symbol.rpartition(".")[2] if "." in symbol else ""
    return "" if len(suffix) == 1 and suffix not in ONE_LETTER_EXCHANGES else suffix


@dataclass(frozen=True, eq=False)
class _Walker:
    """The windows of the history, for the time line and the strategy."""

    study: Study
    panel: Panel
    series: Series
    gauge: Gauge
    preparation: Preparation

    def __post_init__(self) -> None:
        # scores without delays have tables or a cache of their own, which other windows share
        own = not self.gauge.has_lags and self.preparation.is_plain
        object.__setattr__(self, "_engine", self.study.make_engine().fit(self.panel) if own else None)

    def cache_info(self) -> CacheInfo:
        engine: LeadLag | None = getattr(self, "_engine")  # noqa: B009
        return engine.cache_info() if engine is not None else CacheInfo(0, 0, 0, 0)

    def answers(self, ends: Array, title: str) -> Iterator[Answers]:
        """The answers of the windows that end at `ends`, without the thin symbols of each where those are excluded."""
        engine: LeadLag | None = getattr(self, "_engine")  # noqa: B009
        excluded, lookback = self._excluded(ends), self.study.lookback
        if engine is not None:
            return _engine_answers(engine, ends, lookback, excluded)
        return rolling_answers(self.series, ends, lookback, self.gauge, self.preparation, title, excluded)

    def _excluded(self, ends: Array) -> Array:
        """(window, symbol) what is thin in each window by the same measures as in the last one."""
        if self.study.thin != "exclude":
            return np.zeros((len(ends), len(self.panel.symbols)), dtype=bool)
        rule, lookback = self.study._thin_trading, self.study.lookback
        windows = ((end, self.series.observed_window(end, lookback)) for end in ends.tolist())
        flags = [rule.is_thin(self.panel, window, end) for end, window in windows]
        return np.array(flags, dtype=bool).reshape(len(ends), len(self.panel.symbols))

    def matrices(self, ends: Array) -> Array:
        """(window, N, N) leadership of the time line."""
        symbols = len(self.panel.symbols)
        large = len(ends) * symbols**2 * 8 > SINGLE_PRECISION_ABOVE
        out = np.empty((len(ends), symbols, symbols), dtype=np.float32 if large else np.float64)
        row = 0
        for block in self.answers(ends, "leadership over time"):
            out[row : row + len(block.ends)] = block.leadership
            row += len(block.ends)
        return out

    def strategy(self) -> dict[str, float]:
        """Mean and t-value of the leaders → followers strategy at every bar, fill to fill, gross and net of costs."""
        panel, study = self.panel, self.study
        bars = np.arange(max(study.lookback, len(panel) - MOST_STRATEGY_BARS), len(panel))
        fills = fill_to_fill_returns(panel)
        weights = np.zeros((len(bars), len(panel.symbols)))
        row = 0
        for block in self.answers(bars, "strategy"):
            part = slice(row, row + len(block.ends))
            latest = delayed_moves(panel, block.ends, max(self.gauge.max_lag, 1))
            weights[part] = follower_weights(block.leadership, latest, study.quantile, block.delays)
            row = part.stop
        returns = returns_of(weights, fills[bars], study.cost_bps)
        figures = {"bars": float(np.isfinite(returns.net).sum())}
        for name, earned in (("gross", returns.gross), ("net", returns.net)):
            known = earned[np.isfinite(earned)]
            mean = known.mean() if len(known) else np.nan
            error = known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else np.nan
            figures[f"{name}_bps"] = float(1e4 * mean)
            figures[f"{name}_t"] = float(mean / error) if error > 0 else np.nan
        return figures


def _engine_answers(engine: LeadLag, ends: Array, lookback: int, excluded: Array, size: int = 256) -> Iterator[Answers]:
    """The estimator's own scores as leadership; a method without delays uses the move of the last bar."""
    for start in range(0, len(ends), size):
        block = ends[start : start + size]
        scores, left_out = engine.many(block, lookback), excluded[start : start + size]
        scores[left_out[:, :, None] | left_out[:, None, :]] = np.nan
        yield Answers(block, scores, np.ones(scores.shape, dtype=np.int16))


@dataclass(frozen=True, eq=False)
class StudyResult:
    """What a study found. Matrices (window, N, N) hold the leadership of the windows that end at the bars `ends`.

    answer   strength, delay and sign of every ordered pair in the last window
    links    what chance says of them
    network  the significant links, with how much of each remains without its most influential bar or day
    thin     symbol → why its prices say little
    """

    study: Study
    panel: Panel
    answer: Answer
    links: Links
    ranking: pd.DataFrame
    network: networkx.DiGraph
    thin: dict[str, str]
    ends: Array
    matrices: Array
    strategy: dict[str, float]
    diagnostics: dict[str, str]
    cache: CacheInfo

    @property
    def matrix(self) -> Array:
        """(N, N) leadership in the last window; positive where the row leads."""
        return self.answer.leadership

    @property
    def lags(self) -> Array:
        """(N, N) bars by which the row runs ahead of the column; NaN for a method without delays."""
        return self.answer.lag_map

    @property
    def window_text(self) -> str:
        """The window in bars and in time, e.g. `720 bars = 30 days`."""
        return f"{self.study.lookback} bars = {_span(self.panel, self.study.lookback)}"

    @property
    def leadership(self) -> Array:
        """(window, N) leader scores over time."""
        return row_mean(self.matrices)

    def firm_links(self) -> int:
        """Links between symbols that trade enough and that no single bar makes."""
        return sum(not link["flags"] for *_, link in self.network.edges(data=True))

    def persistence(self) -> float:
        """Mean rank correlation of leaders between windows that share no bar; near 0 when leaders do not last."""
        # Rounded up: windows that overlap would agree because they share bars.
        gap = -(-self.study.lookback // self.study.step)
        if len(self.ends) <= gap:
            return float("nan")
        return float(np.nanmean(rank_autocorrelation(self.leadership, lag=gap)))

    def concentration(self) -> tuple[float, float]:
        """Herfindahl and Gini of who does the leading in the last window."""
        shares = contributions(self.matrix)
        return float(herfindahl(shares)), float(gini(shares))

    def table(self) -> pd.DataFrame:
        """The ranking with how often each asset led over all windows, and its group where clusters are asked for."""
        led = leadership_table(self.matrices, self.panel.symbols, self.study.quantile)[["leads"]]
        table = self.ranking.join(led)
        if self.study.clusters:
            groups = hermitian_clusters(self.matrix, self.study.clusters, self.study.seed)
            table = table.join(pd.Series(groups, self.panel.symbols, name="group"))
        return table

    def unstable(self, count: int = 10) -> pd.DataFrame:
        """The windows whose matrix changed most: start, end, score; an adversarial test set."""
        lookbacks = np.full(len(self.ends), self.study.lookback)
        return worst_windows(instability(self.matrices), self.ends, lookbacks, count)

    def anomalies(self) -> tuple[Array, Array]:
        """(window,) anomaly score of the matrix stream, and its grade (0 calm, 1 warning, 2 alarm)."""
        scores = anomaly_score(self.matrices)
        return scores, AlertLevels().grade(scores)

    def autoencoder_anomalies(self) -> tuple[Array, Array] | None:
        """The same by an autoencoder trained on the first half of the windows; None where it was not asked for."""
        if not self.study.autoencoder:
            return None
        vectors = np.nan_to_num(self.leadership)
        scores = Autoencoder(seed=self.study.seed).fit(vectors[: len(vectors) // 2]).score(vectors)
        return scores, AlertLevels().grade(scores)


def _span(panel: Panel, bars: int) -> str:
    """How long the last `bars` bars took: hours, days or years."""
    days = (panel.index[-1] - panel.index[-1 - bars]) / DAY
    if days < 2:
        return f"{24 * days:.3g} hours"
    return f"{days:.0f} days" if days < 730 else f"{days / 365.25:.1f} years"


def study_defaults() -> dict[str, Any]:
    """Every key of the group `lag` with its default; an estimator's own options stand as None, its default."""
    own = {field.name: field.default for field in dataclasses.fields(Study) if field.name not in ("engine", "seed")}
    options = {field.name: None for name in ESTIMATORS for field in dataclasses.fields(ESTIMATORS[name])}  # type: ignore[arg-type]
    engine = dict.fromkeys(("min_observations", "backend", "device", "memory_budget_mb"))
    return own | options | engine


def configure_study(settings: Mapping[str, Any], seed: int = 0) -> Study:
    """A study from flat settings: its own keys by name, the rest goes to the engine and its estimator."""
    own = {field.name for field in dataclasses.fields(Study)} - {"engine"}
    given = {key: value for key, value in settings.items() if value is not None}
    mine = {key: value for key, value in given.items() if key in own}
    engine = {key: value for key, value in given.items() if key not in own}
    return configure(Study, {"seed": seed} | mine | {"engine": engine}, "lag")
