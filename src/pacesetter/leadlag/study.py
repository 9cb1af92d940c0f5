"""A lead–lag study of one panel: one answer per window, and from it ranking, links, lag map, network and strategy."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
from tqdm import tqdm

from pacesetter.arrays import Array, Floats, Integers
from pacesetter.data.markets import AS_OF
from pacesetter.errors import ConfigError, DataError, check_range, did_you_mean
from pacesetter.leadlag.answer import Answer, Links, Preparation, StrengthMeasure, answer_window, find_links
from pacesetter.leadlag.answer.intervals import leader_table
from pacesetter.leadlag.answer.links import CONTROLS, TESTS, Control, Test, has_autocorrelation
from pacesetter.leadlag.answer.network import leaders_without_a_bar, link_network, links_without_a_bar
from pacesetter.leadlag.answer.rolling import ReplayedWindows, TimeLine, strategy_bars, time_line_windows
from pacesetter.leadlag.answer.thin import ThinTrading
from pacesetter.leadlag.engine import CacheInfo, Engine
from pacesetter.leadlag.estimators.estimator import ESTIMATORS
from pacesetter.leadlag.estimators.relations import PolicyRelations
from pacesetter.leadlag.groups import Groups, group_panel, read_groups
from pacesetter.leadlag.memory import check_memory
from pacesetter.leadlag.series import Increments, Series, read_series
from pacesetter.leadlag.strategy import COST_BPS
from pacesetter.leadlag.structure.anomaly import (
    FEWEST_WINDOWS,
    AlertLevels,
    Autoencoder,
    anomaly_score,
    worst_windows,
)
from pacesetter.leadlag.structure.changes import lead_periods
from pacesetter.leadlag.structure.clustering import hermitian_clusters
from pacesetter.leadlag.structure.concentration import contributions, gini, herfindahl, leadership_table
from pacesetter.leadlag.structure.ranking import rank_autocorrelation
from pacesetter.leadlag.windows import bars_in, is_span, span_text
from pacesetter.panel import Panel
from pacesetter.progress import say_long
from pacesetter.registry import configure

if TYPE_CHECKING:
    import networkx

__all__ = ["GroupFinding", "Study", "StudyResult", "WindowFinding", "configure_study", "study_defaults"]

LEAST_STEP = 20  # bars between the windows of the time line
MANY_SYMBOLS = 500  # from which on a page takes long enough to say so
MATRICES = 24  # of all pairs in double precision, that a study holds at once
NANOSECONDS_A_DAY = 86_400 * 10**9
ONE_LETTER_EXCHANGES = "FLT"  # Frankfurt, London, Tokyo; any other single letter is a class of shares


@dataclass(frozen=True)
class Study:
    """What to look at.

    autoencoder whether a small network, too, judges how unusual each window's structure is
    """

    method: Annotated[
        str,
        "score that everything comes from: ranking, links, delays, network, strategy; one of ESTIMATORS",
    ] = "ccf_peak"
    lookback: Annotated[
        int | str | None,
        "bars in the window, or a length of time such as 30D; None for the usual one, see `windows`",
    ] = None
    end: Annotated[str | None, "last moment seen, e.g. 2016-12-30; the last bar when left out"] = None
    step: Annotated[
        int | None,
        "bars between the windows of the time line; None for at most 500 windows, 20 bars or more apart",
    ] = None
    increments: Annotated[Increments, "`log`, `simple`, `difference`, `ranked` or `winsorised`, see `series`"] = "log"
    residual: Annotated[
        str,
        "`none`, `market` or `pca(k)`: lead–lag net of what all symbols have in common, fitted in the window",
    ] = "none"
    thin: Annotated[
        Literal["flag", "exclude", "ignore"],
        "`flag`, `exclude` or `ignore` symbols whose prices stand still (`most_stale`, a share of bars), bounce "
        "(`most_bounce`, a share of variance) or turn over too little (`least_turnover`, price × volume a bar)",
    ] = "flag"
    most_stale: float = ThinTrading.most_stale
    most_bounce: float = ThinTrading.most_bounce
    least_turnover: float = ThinTrading.least_turnover
    control: Annotated[Control, "of false links: `max` family-wise, `bh` or `by` false-discovery rate"] = "max"
    test: Annotated[
        Test,
        "of a link: `predicts` beyond the follower's own past, and better than the reverse; `differs`: the two "
        "directions are not equally strong; `either`, which groups are tested by",
    ] = "predicts"
    draws: Annotated[int, "of the null and of the bootstrap"] = 200
    level: Annotated[
        float,
        "chance of any false link (or share of false ones), and one minus the width of the intervals",
    ] = 0.05
    groups: Annotated[
        Any,
        "pooled: `liquidity`, `size`, `sector`, {name: [symbols]} or a CSV file, see `groups`; None for liquidity "
        "where there is volume; `none` for none",
    ] = None
    clusters: Annotated[int, "groups of symbols that lead and follow alike (Hermitian clustering); 0 for none"] = 0
    autoencoder: bool = False
    quantile: Annotated[float, "share of symbols that counts as leaders in the strategy"] = 0.2
    cost_bps: Annotated[float, "paid by the strategy on what it turns over, a side"] = COST_BPS
    seed: int = 0
    engine: dict[str, Any] = dataclasses.field(default_factory=dict)
    agent: Annotated[
        str | None,
        "run folder of a lookback agent, whose window at the last bar is the one that is looked at",
    ] = None

    def __hash__(self) -> int:
        return hash(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Every key of the group `lag`; an estimator's own options stand as None, its default."""
        own = {name: deepcopy(getattr(self, name)) for name in _own_keys()}
        options = {field.name: None for name in ESTIMATORS for field in dataclasses.fields(ESTIMATORS[name])}  # type: ignore[arg-type]
        keys = own | options | dict.fromkeys(("min_observations", "backend", "device", "memory_budget_mb"))
        return keys | self.engine | ({} if self.agent is None else {"lookback": self.agent})

    def __post_init__(self) -> None:
        if isinstance(self.lookback, int):
            check_range(2, owner="lag", lookback=self.lookback)
        elif self.lookback is not None and not is_span(str(self.lookback)):
            raise ConfigError(f"lag.lookback={self.lookback} is neither bars, e.g. 720, nor a length of time, e.g. 30D")
        check_range(2, owner="lag", draws=self.draws)
        if self.step is not None:
            check_range(1, owner="lag", step=self.step)
        check_range(0, owner="lag", clusters=self.clusters)
        for name, share in (("level", self.level), ("quantile", self.quantile)):
            if not 0 < share < 1:
                raise ConfigError(f"lag.{name}={share} must be between 0 and 1")
        thin = "thin", self.thin, ("flag", "exclude", "ignore")
        for name, chosen, known in (("control", self.control, CONTROLS), ("test", self.test, TESTS), thin):
            if chosen not in known:
                raise ConfigError(f"lag.{name}='{chosen}' is unknown{did_you_mean(chosen, known)}")
        self.preparation, self.thin_trading  # noqa: B018  (each refuses what it cannot read)
        asked = (self.method, self.increments, self.engine, self.lookback)
        if asked != (Study.method, Study.increments, {}, None):
            # Made once here, so that a wrong option is refused before any data is read.
            gauge = self.make_gauge()
            if isinstance(self.lookback, int):
                gauge.check(self.lookback)

    @property
    def preparation(self) -> Preparation:
        """How a window's increments are read."""
        return Preparation(self.residual)

    @property
    def thin_trading(self) -> ThinTrading:
        """When a symbol counts as thinly traded."""
        return ThinTrading(self.most_stale, self.most_bounce, self.least_turnover)

    def make_engine(self) -> Engine:
        """The configured engine, not yet fitted; it gives the estimator's own scores."""
        return Engine(self.method, increments=self.increments, residual=self.residual, **self.engine)

    def make_gauge(self) -> StrengthMeasure:
        """How the method measures strength, delay and sign."""
        self.make_engine()  # refuses options of the engine that the gauge has no use for
        return StrengthMeasure(self.method, **self.engine)

    def at(self, panel: Panel) -> Study:
        """The same with its window and step in bars of the panel up to `end`; refuses a window it does not hold."""
        panel = panel if self.end is None else panel.between(end=self.end)
        last = len(panel) - 1
        if last < 2:
            raise DataError(f"lead–lag needs at least three bars, the panel has {last + 1}; load more history")
        bars = bars_in(panel.index, last, self.lookback)
        if bars > last:
            raise ConfigError(
                f"lag.lookback={self.lookback} is longer than the history of {last} bars before the last; shorten it"
            )
        apart = max((last - bars) // time_line_windows(len(panel.symbols)), LEAST_STEP)
        return dataclasses.replace(self, lookback=bars, step=self.step or apart)

    def run(self, panel: Panel) -> StudyResult:
        """All of it, seeing no bar after `end`."""
        panel = panel if self.end is None else panel.between(end=self.end)
        refuse_mixed_days(panel)
        study = self.at(panel)
        study.check_memory(panel)
        study.say_time(panel)
        pooled = study.find_groups(panel)
        return dataclasses.replace(study._run(panel), pooled=pooled)

    def find_groups(self, panel: Panel) -> GroupFinding | None:
        """The study of the groups' pooled series, its window in bars; None where there are no groups."""
        first = max(self.bars, len(panel) - strategy_bars(len(panel.symbols)))
        groups = {} if self.groups == "none" else read_groups(panel, self.groups, first)
        if not groups or self.method == "policy":
            return None
        raw = self.read(panel, self.make_gauge()).observed_window(len(panel) - 1, self.bars)
        flags = {} if self.thin == "ignore" else self.thin_trading.flags(panel, raw)
        if self.thin == "exclude":
            groups = {name: tuple(s for s in members if s not in flags) for name, members in groups.items()}
        thin = {name: sum(symbol in flags for symbol in members) for name, members in groups.items()}
        pooled = group_panel(panel, groups)
        # What all symbols have in common is most of what a group is: nothing is taken off.
        plain: dict[str, Any] = {"residual": "none", "thin": "ignore", "clusters": 0, "autoencoder": False}
        study = dataclasses.replace(self, groups="none", test="either", **plain)
        result = study._run(pooled)
        return GroupFinding(groups, result, thin, *study.firmest_relation(pooled))

    def firmest_relation(self, panel: Panel) -> tuple[tuple[str, str, int] | None, pd.DataFrame]:
        """The pair that leads most over the whole history, with its delay, and the periods in which it does."""
        gauge = self.make_gauge()
        if not gauge.is_linear:
            return None, pd.DataFrame()
        series = self.read(panel, gauge)
        whole = series.observed_window(len(panel) - 1, len(panel) - 1)
        answer = answer_window(whole, panel.symbols, gauge)
        if not np.isfinite(answer.leadership).any():
            return None, pd.DataFrame()
        i, j = np.unravel_index(np.nanargmax(answer.leadership), answer.leadership.shape)
        delay = int(answer.delays[i, j])
        try:
            chosen_from = len(panel.symbols) * (len(panel.symbols) - 1) * max(gauge.max_lag, 1)
            periods = lead_periods(whole[:, i], whole[:, j], delay, panel.index[1:], chosen_from=chosen_from)
        except DataError:  # too few bars for two periods
            periods = pd.DataFrame()
        return (panel.symbols[i], panel.symbols[j], delay), periods

    def check_memory(self, panel: Panel) -> None:
        """Refuse more symbols than fit into memory: draws and windows come one by one, each a matrix of all pairs."""
        symbols = len(panel.symbols)
        check_memory(8.0 * MATRICES * symbols**2, f"lead–lag of {symbols:,} symbols", "take fewer by data.symbols")

    def say_time(self, panel: Panel) -> None:
        """Say before it starts how long it takes where windows are computed one by one; the default slides."""
        gauge, symbols = self.make_gauge(), len(panel.symbols)
        slides = gauge.is_linear and self.preparation.is_plain
        if slides and symbols < MANY_SYMBOLS:
            return
        series, last = self.read(panel, gauge), len(panel) - 1
        windows = len(range(self.bars, len(panel), self.step or 1)) + min(
            strategy_bars(symbols), len(panel) - self.bars
        )

        def answer() -> Answer:
            raw = series.observed_window(last, self.bars)
            return answer_window(self.preparation.window(raw), panel.symbols, gauge)

        answer()  # compiles
        started = time.perf_counter()
        answer()
        each = time.perf_counter() - started
        if slides:
            # A draw of the null or of an interval costs about what an answer does, a window that slides half of it.
            what = f"{symbols:,} symbols: {2 * self.draws:,} draws and {windows:,} windows of all pairs"
            say_long(what, each * (2 * self.draws + windows / 2))
            return
        drawn = 0
        if not gauge.is_linear:
            window = self.preparation.window(series.observed_window(last, self.bars))
            # An interval's draws; those of a null, in the last window and in the last of the time line.
            nulls = (not gauge.is_conditional) + (gauge.is_conditional or has_autocorrelation(window, gauge))
            drawn = self.draws * (1 + 2 * nulls)
        what = f"lag.method={self.method}" if self.preparation.is_plain else f"lag.residual={self.residual}"
        say_long(f"{what}: {windows + drawn:,} windows, each computed by itself", each * (windows + drawn))

    @property
    def bars(self) -> int:
        """The window in bars, once it is known."""
        assert isinstance(self.lookback, int)
        return self.lookback

    def _run(self, panel: Panel) -> StudyResult:
        gauge = self.make_gauge()
        if isinstance(gauge.estimator, PolicyRelations):
            panel = gauge.estimator.prepare_panel(panel)
        series = self.read(panel, gauge)
        with tqdm(total=4, desc="lead–lag", unit="part", disable=None, delay=1) as bar:
            finding = self.find(panel, series, gauge)
            bar.update()
            ranking = self._ranking(panel, gauge, finding)
            bar.update()
            history = self.replay_windows(panel, series, gauge)
            assert self.step is not None
            ends = np.arange(self.bars, len(panel), self.step)
            line = history.time_line(ends, draws=self.draws, level=self.level, seed=self.seed)
            bar.update()
            strategy = history.strategy(self.quantile, self.cost_bps)
            bar.update()
        return StudyResult(
            study=self,
            panel=panel,
            answer=finding.answer,
            links=finding.links,
            ranking=ranking,
            network=finding.network,
            thin=finding.thin,
            history=line,
            strategy=strategy,
            diagnostics=self._diagnose(series, finding.thin, len(panel) - 1),
            cache=history.cache_info(),
        )

    def replay_windows(self, panel: Panel, series: Series, gauge: StrengthMeasure) -> ReplayedWindows:
        """The windows of this length through the panel's history."""
        own = not gauge.has_lags and self.preparation.is_plain
        engine = self.make_engine().fit(panel) if own else None
        thin = self.thin_trading if self.thin == "exclude" else None
        return ReplayedWindows(panel, series, gauge, self.preparation, self.bars, engine, thin)

    def read(self, panel: Panel, gauge: StrengthMeasure) -> Series:
        """The panel's increments as the method reads them."""
        return read_series(panel, self.increments, gauge.minimum, gauge.estimator.spans_gaps)

    def find(self, panel: Panel, series: Series, gauge: StrengthMeasure) -> WindowFinding:
        """Answer, links and network of the window that ends with the panel, whose series may hold later bars."""
        raw = series.observed_window(len(panel) - 1, self.bars)
        thin = {} if self.thin == "ignore" else self.thin_trading.flags(panel, raw)
        if self.thin == "exclude":
            # NaN instead of dropped, so that matrices keep the panel's columns.
            raw[:, [symbol in thin for symbol in panel.symbols]] = np.nan
        window = self.preparation.window(raw)
        answer = answer_window(window, panel.symbols, gauge)
        links = find_links(
            window,
            gauge,
            answer,
            control=self.control,
            draws=self.draws,
            level=self.level,
            seed=self.seed,
            test=self.test,
        )
        return WindowFinding(window, answer, links, self._network(window, panel, gauge, answer, links, thin), thin)

    def _diagnose(self, series: Series, thin: dict[str, str], last: int) -> dict[str, str]:
        excluded = {symbol: f"excluded: {why}" for symbol, why in thin.items()} if self.thin == "exclude" else {}
        return series.diagnose(last, self.bars) | excluded

    def _ranking(self, panel: Panel, gauge: StrengthMeasure, finding: WindowFinding) -> pd.DataFrame:
        window, answer, links = finding.window, finding.answer, finding.links
        table = leader_table(window, gauge, answer, links, draws=self.draws, level=self.level, seed=self.seed)
        remains = np.full(len(panel.symbols), np.nan)
        named = np.flatnonzero((links.leader_p <= self.level) & np.isfinite(links.leader_p))
        for groups in _groups(panel, len(window)).values():
            left = leaders_without_a_bar(window, gauge, answer, named, groups)
            remains[named] = np.fmin(remains[named], left)
        return table.join(pd.Series(remains, panel.symbols, name="remains"))

    def _network(
        self, window: Floats, panel: Panel, gauge: StrengthMeasure, answer: Answer, links: Links, thin: dict[str, str]
    ) -> networkx.DiGraph:
        pairs = np.argwhere(links.mask_linked(self.level))
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

    Tokyo's close is known fourteen hours before New York's: one stamp for both would hide who could know what. Bars of
    `data=markets` are those that each exchange had closed by the stamp, and say so.
    """
    if any(note.startswith(AS_OF) for note in panel.notes):
        return
    suffixes = {_exchange(symbol) for symbol in panel.symbols}
    exchanges = {suffix for suffix in suffixes if not suffix or (suffix.isupper() and len(suffix) <= 2)}
    if len(exchanges) < 2 or len(panel) < 2 or len(exchanges) < len(suffixes):
        return
    # Bars stamped at each exchange's own close would leave about half of the mask empty.
    if np.median(np.diff(panel.index.asi8)) >= NANOSECONDS_A_DAY and panel.mask.mean() > 0.75:
        named = [next(symbol for symbol in panel.symbols if _exchange(symbol) == each) for each in exchanges]
        raise DataError(
            f"{' and '.join(sorted(named)[:2])} trade in different time zones but share one timestamp a day; give "
            "bars whose timestamps say when each exchange closed, or use data=markets"
        )


def _exchange(symbol: str) -> str:
    """The suffix that names a symbol's exchange; empty for one without, and for a class of shares such as BRK.B."""
    suffix = symbol.rpartition(".")[2] if "." in symbol else ""
    return "" if len(suffix) == 1 and suffix not in ONE_LETTER_EXCHANGES else suffix


@dataclass(frozen=True, eq=False)
class WindowFinding:
    """One window: its prepared increments (time, symbol), their answer, what chance says of it, and its links."""

    window: Array
    answer: Answer
    links: Links
    network: networkx.DiGraph
    thin: dict[str, str]

    def firm_links(self) -> int:
        """Links between symbols that trade enough and that no single bar makes."""
        return firm_links(self.network)


def firm_links(network: networkx.DiGraph) -> int:
    """Links of a network without a flag."""
    return sum(not link["flags"] for *_, link in network.edges(data=True))


@dataclass(frozen=True, eq=False)
class StudyResult:
    """What a study found.

    answer   strength, delay and sign of every ordered pair in the last window
    links    what chance says of them
    network  the significant links, with how much of each remains without its most influential bar or day
    thin     symbol → why its prices say little
    history  leader scores over time, and how much each window differs from the one before
    pooled   what groups of symbols show, where there are any
    """

    study: Study
    panel: Panel
    answer: Answer
    links: Links
    ranking: pd.DataFrame
    network: networkx.DiGraph
    thin: dict[str, str]
    history: TimeLine
    strategy: dict[str, float]
    diagnostics: dict[str, str]
    cache: CacheInfo
    pooled: GroupFinding | None = None

    @property
    def matrix(self) -> Floats:
        """(N, N) leadership in the last window; positive where the row leads."""
        return self.answer.leadership

    @property
    def lags(self) -> Floats:
        """(N, N) bars by which the row runs ahead of the column; NaN for a method without delays."""
        return self.answer.lag_map

    @property
    def window_text(self) -> str:
        """The window in its own unit and in time, e.g. `1,080 hours = 45 days`."""
        return span_text(self.panel.index, self.study.bars)

    @property
    def ends(self) -> Integers:
        """(window,) last bars of the windows of the time line."""
        return self.history.ends

    @property
    def leadership(self) -> Floats:
        """(window, N) leader scores over time."""
        return self.history.leadership

    def firm_links(self) -> int:
        """Links between symbols that trade enough and that no single bar makes."""
        return firm_links(self.network)

    def persistence(self) -> float:
        """Mean rank correlation of leaders between windows that share no bar; near 0 when leaders do not last."""
        # Rounded up: windows that overlap would agree because they share bars.
        gap = -(-self.study.bars // (self.study.step or 1))
        if len(self.ends) <= gap:
            return float("nan")
        return float(np.nanmean(rank_autocorrelation(self.leadership, lag=gap)))

    def concentration(self) -> tuple[float, float]:
        """Herfindahl and Gini of who does the leading in the last window."""
        shares = contributions(self.matrix)
        return float(herfindahl(shares)), float(gini(shares))

    def table(self) -> pd.DataFrame:
        """The ranking with how often each asset led over all windows, and its group where clusters are asked for."""
        line = self.history
        led = leadership_table(line.leadership, line.shares, self.panel.symbols, self.study.quantile)[["leads"]]
        table = self.ranking.join(led)
        if self.study.clusters:
            groups = hermitian_clusters(self.matrix, self.study.clusters, self.study.seed)
            table = table.join(pd.Series(groups, self.panel.symbols, name="group"))
        return table

    def unstable_windows(self, count: int = 10) -> pd.DataFrame:
        """The windows whose matrix changed most: start, end, score; an adversarial test set."""
        lookbacks = np.full(len(self.ends), self.study.bars)
        return worst_windows(self.history.changes, self.ends, lookbacks, count)

    def anomalies(self) -> tuple[Array, Array]:
        """(window,) anomaly score of the matrix stream, and its grade (0 calm, 1 warning, 2 alarm)."""
        scores = anomaly_score(self.leadership)
        return scores, AlertLevels().grade(scores)

    def autoencoder_anomalies(self) -> tuple[Array, Array] | None:
        """The same by an autoencoder trained on the first half of the windows; None where it was not asked for."""
        if not self.study.autoencoder:
            return None
        vectors = np.nan_to_num(self.leadership)
        learned = vectors[: len(vectors) // 2]
        if len(learned) < FEWEST_WINDOWS:
            raise DataError(
                f"lag.autoencoder learns from the first half of {len(vectors)} windows and needs "
                f"{2 * FEWEST_WINDOWS} in all; give more bars, a shorter lag.lookback or a smaller lag.step"
            )
        scores = Autoencoder(seed=self.study.seed).fit(learned).score(vectors)
        return scores, AlertLevels().grade(scores)


@dataclass(frozen=True, eq=False)
class GroupFinding:
    """What the groups show: their members, the study of their pooled series, and the periods of its firmest relation.

    thin       group → how many of its members trade thinly: what they follow they only seem to follow
    relation   leader, follower and delay of the strongest relation over the whole history
    periods    when it began and ended, see `structure.changes`; empty where the history is short
    """

    groups: Groups
    result: StudyResult
    thin: dict[str, int]
    relation: tuple[str, str, int] | None
    periods: pd.DataFrame

    @property
    def earned(self) -> dict[str, float]:
        """Mean of following the leading group at every bar in bps, with t-values, gross and net of costs."""
        return self.result.strategy

    def _repr_html_(self) -> str:
        return str(self.table().to_html())

    def table(self) -> pd.DataFrame:
        """Every ordered pair of groups: strength both ways, relation, delay and p-value, the smallest first.

        `thin` counts the follower's members that trade thinly.
        """
        answer, links = self.result.answer, self.result.links
        rows = [
            {
                "leader": leader,
                "follower": follower,
                "forward": answer.forward[i, j],
                "backward": answer.forward[j, i],
                "relation": answer.relation(i, j),
                "delay": answer.delays[i, j],
                "p_value": links.p_values[i, j],
                "thin": self.thin[follower],
            }
            for i, leader in enumerate(answer.symbols)
            for j, follower in enumerate(answer.symbols)
            if i != j
        ]
        return pd.DataFrame(rows).sort_values(["p_value", "forward"], ascending=[True, False], ignore_index=True)


def _own_keys() -> list[str]:
    """Fields of a study that are keys of the group `lag`."""
    return [each.name for each in dataclasses.fields(Study) if each.name not in ("engine", "seed", "agent")]


def study_defaults() -> dict[str, object]:
    """Every key of the group `lag` with its default."""
    return Study().to_dict()


def configure_study(settings: Mapping[str, object], seed: int = 0) -> Study:
    """A study from flat settings: its own keys by name, the rest goes to the engine and its estimator."""
    own = {*_own_keys(), "seed", "agent"}
    given = {key: value for key, value in settings.items() if value is not None}
    mine = {key: value for key, value in given.items() if key in own}
    engine = {key: value for key, value in given.items() if key not in own}
    return configure(Study, {"seed": seed} | mine | {"engine": engine}, "lag")
