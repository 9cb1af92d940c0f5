"""All that is asked of a policy before it is believed: baselines, intervals, costs, regimes, stress, and gates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.build.sections import Evaluation
from pacesetter.envs.batch.bank import Bank
from pacesetter.evaluation.backtest.backtest import (
    Backtest,
    PlayedMarket,
    backtest,
    backtest_many,
    fit_views,
    forget_risk_tables,
    make_sizer,
)
from pacesetter.evaluation.backtest.sensitivity import FACTORS, scaled_costs, sensitivity_scenarios
from pacesetter.evaluation.backtest.stress import AS_IT_WAS, stress_scenarios
from pacesetter.evaluation.baselines.catalogue import BASELINES, drop_equal, evaluate_baselines, make_baseline
from pacesetter.evaluation.baselines.forecasting import Forecasting
from pacesetter.evaluation.programme.decision import held_gates
from pacesetter.evaluation.programme.gate_sets import GateSet, read_gate_set
from pacesetter.evaluation.programme.measured import RunRecord
from pacesetter.evaluation.statistics.capacity import Capacity, find_capacity
from pacesetter.evaluation.statistics.contribution import Contribution, contribution
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.evaluation.statistics.intervals import Interval, intervals
from pacesetter.evaluation.statistics.metrics import annual_return, metrics, sharpe, total_return
from pacesetter.evaluation.statistics.prior_gain import PriorGain
from pacesetter.evaluation.statistics.regimes import Index, benchmark_table, index_returns, regime_table
from pacesetter.evaluation.statistics.verdict import Verdict, judge
from pacesetter.features.table import forget_tables
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy
from pacesetter.progress import LogLines
from pacesetter.stamps import bars_per_day

__all__ = ["JudgedAccount", "Judgement", "judge_policy"]

Tell = Callable[[str], object]
WINDOWS = 10  # equal parts of the judged bars, in how many of which a gain is asked for
SIDE_BY_SIDE = 3  # accounts in one market at once
STRESSED = 2  # markets at once: one of 143 symbols takes 250 MB with its features and correlations
HISTORY_BARS = 500  # kept before the judged bars in stressed markets, for features and allocations


class IndexFigures(NamedTuple):
    """A symbol that stands for the market, and what it returned over the judged bars without costs."""

    name: str
    annual_return: float
    total_return: float
    sharpe: float


FIGURES = ("total_return", "annual_return", "volatility", "sharpe", "max_drawdown", "turnover")  # of a repr
MOST_SHOWN = 12  # policies in it


@dataclass(frozen=True, eq=False, repr=False)
class Judgement:
    """One policy beside others over the same bars, none of which it was fitted on.

    results     the policy's own backtest first, then those of the baselines, by name
    verdict     what the returns are evidence for
    intervals   name -> annualised Sharpe ratio with its interval
    figures     (policy, metric)            benchmark   (policy, figure) against all symbols in equal parts
    regimes     (regime, figure)            stress      (scenario, figure) of the policy alone
    rules       (scenario, figure) under other costs and limits
    windows     (window,) total return of equal parts of the bars
    index       the symbol that benchmark, alpha and beta are measured against; None: all in equal parts
    rewards     (time, `reward` and `reward_…`) that the training's reward pays for it; empty where none is known
    is_fast     left out: stressed markets and other limits; verdict, baselines, costs and gates are whole
    same        which baselines earned what another did, in words; they are in no table, and count once
    refits      moments at which the policy was refitted, the first included; None: one fit, one test
    capacity    equity at which impact halves the net return; None without a gain or a volume
    served      of a walk-forward account: figures of its last fit alone, on the bars after its own training
    trials      what else is to be said of the other trials, in words; see `Trials.describe_others`
    prior       what the agent adds to the prior that it began at; None without one
    """

    results: dict[str, Backtest]
    verdict: Verdict
    intervals: dict[str, Interval]
    figures: pd.DataFrame
    benchmark: pd.DataFrame
    regimes: pd.DataFrame
    stress: pd.DataFrame
    rules: pd.DataFrame
    windows: Array
    contribution: Contribution
    capacity: Capacity | None = None
    gates: tuple[Gate, ...] = ()
    index: IndexFigures | None = None
    rewards: pd.DataFrame = field(default_factory=pd.DataFrame)
    same: str = ""
    trials: str = ""
    is_fast: bool = False
    refits: pd.DatetimeIndex | None = None
    served: dict[str, float] = field(default_factory=dict)
    prior: PriorGain | None = None

    @property
    def walk(self) -> str:
        """How a walk-forward account came about, in words; empty of a single split."""
        if self.refits is None:
            return ""
        starts = ", ".join(f"{each:%Y-%m-%d}" for each in self.refits)
        return f"Walk-forward: one account, refitted before each of {len(self.refits)} tests in a row ({starts})."

    @property
    def result(self) -> Backtest:
        """The judged policy's own."""
        return self.results[self.verdict.name]

    def __repr__(self) -> str:
        shown = [name for name in FIGURES if name in self.figures.columns]
        table = self.figures.loc[:, shown].head(MOST_SHOWN).to_string(float_format="{:,.3g}".format)
        return f"{self.verdict.sentence}\n\n{table}"

    @property
    def sentence(self) -> str:
        """The verdict in words, and what is to be said of baselines that are the same and of the other trials."""
        return " ".join(filter(None, (self.verdict.sentence, self.walk, self.same, self.trials)))

    def with_acceptance(self, gates: GateSet, record: RunRecord | None = None) -> Judgement:
        """With the gates of a set, held against these figures and what else the run left."""
        beside = record or RunRecord({}, index=gates.index)
        # Without returns no interval is drawn once more: `pacesetter validate` shows them.
        held = held_gates(replace(beside, judged=self.to_json(), returns=None), gates.gates)
        return replace(self, gates=tuple(each.gate for each in held))

    def to_json(self) -> dict[str, object]:
        """Every figure by name, as a regression gate reads it."""
        tables = {"figures": self.figures, "regimes": self.regimes, "stress": self.stress, "rules": self.rules}
        return {
            "policy": self.verdict.name,
            "headline": self.verdict.headline,
            "sentence": self.sentence,
            "has_edge": self.verdict.has_edge,
            "is_evidence": self.verdict.is_evidence,
            "verdict": _to_plain(asdict(self.verdict)),
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "gates": [asdict(gate) | {"passed": gate.passed} for gate in self.gates],
            "windows": self.windows.tolist(),
            "bars_per_year": self.result.bars_per_year,
            "capacity": None if self.capacity is None else self.capacity._asdict(),
            "served": self.served,
            "prior": None if self.prior is None else self.prior.to_json(),
            "refits": [] if self.refits is None else [each.isoformat() for each in self.refits],
            "index": None if self.index is None else self.index._asdict(),
        } | {name: table.to_dict("index") for name, table in tables.items()}


@dataclass(frozen=True, eq=False)
class JudgedAccount:
    """The account that policies are judged in, from the close of bar `first` to the end of the panel.

    bank_of   gives the features that the policies read, also of stressed markets
    few_of    gives some features by their names, for stressed markets of which a policy reads no more; None: all
    risk      how much risk it takes: a policy's weights are then views around its base, and hold and the sized
              regressions are shown through the same step too
    refits    moments at which the policy is refitted, a walk-forward account; regressions are then refitted too
    index     the symbol that stands for the market, with its returns; None: all symbols in equal parts
    """

    panel: Panel
    first: int
    market: MarketParameters = field(default_factory=MarketParameters)
    bank_of: Callable[[Panel], Bank] = market_bank
    window_bars: int = 24
    risk: RiskOptions | None = None
    refits: pd.DatetimeIndex | None = None
    index: Index | None = None
    few_of: Callable[[Panel, tuple[str, ...]], Bank] | None = None

    @cached_property
    def bank(self) -> Bank:
        return self.bank_of(self.panel)

    def fit_scale(self, policy: Policy) -> JudgedAccount:
        """With the scale of the policy's views, so that costs, limits and stress do not measure it again."""
        risk = self.risk
        if risk is None or not risk.is_on:
            return replace(self, risk=None)
        sizer = make_sizer(
            risk, policy, self.panel, self.first, bank=self.bank, window_bars=self.window_bars, market=self.market
        )
        return replace(self, risk=replace(risk, scale=sizer.scale))

    def reading_few(self, policy: Policy) -> tuple[Policy, Callable[[Panel], Bank]]:
        """A policy for other markets, and what gives their features: no more than it reads, where that is known.

        All of them take longer to compute than the policy to play the market, and ten times its memory.
        """
        few, few_of = policy.window_features, self.few_of
        if few is None or few_of is None:
            return policy, self.bank_of
        return policy.on_features(few), lambda panel: few_of(panel, few)

    def play(self, policy: Policy) -> Backtest:
        return backtest(
            policy,
            self.panel,
            first=self.first,
            bank=self.bank,
            window_bars=self.window_bars,
            market=self.market,
            risk=self.risk,
        )

    def play_many(self, policy: Policy, markets: Sequence[MarketParameters]) -> list[Backtest]:
        """The policy by each of the rules, all of them side by side."""
        played = [PlayedMarket(self.panel, self.bank, each, self.risk) for each in markets]
        return backtest_many(policy, played, first=self.first, window_bars=self.window_bars)

    def play_baselines(
        self, names: Sequence[str] | None, risk: RiskOptions | None = None, tell: Tell | None = None
    ) -> dict[str, Backtest]:
        """The named baselines, or all possible ones; through the risk step only where `risk` is given."""
        return evaluate_baselines(
            self.panel,
            self.first,
            names,
            bank=self.bank,
            window_bars=self.window_bars,
            market=self.market,
            risk=risk,
            refits=self.refits,
            tell=tell,
        )


def judge_policy(
    policy: Policy,
    account: JudgedAccount,
    *,
    others: Sequence[Policy] = (),
    rivals: Sequence[Policy] = (),
    baselines: Sequence[str] | None = None,
    other_sharpes: ArrayLike = (),
    draws: int = 1000,
    seed: int = 0,
    is_fast: bool = False,
    tell: Tell | None = None,
) -> Judgement:
    """Judge a policy in an account.

    others          policies to be shown beside it, which it need not beat; `rivals` it must, as it must baselines, of
                    which `baselines` None is all that are possible
    other_sharpes   see `verdict.judge`
    is_fast         leave out stressed markets, and limits other than the costs that the verdict reads
    tell            hears a line as each part begins
    """
    tell = tell or (lambda line: None)
    panel, index = account.panel, account.index
    tell(f"{policy.name} on {len(panel) - 1 - account.first:,} test bars")
    # First: a policy that was fitted on these bars is refused before anything else is computed.
    account = account.fit_scale(policy)
    played = [account.play(each) for each in (policy, *others)]
    # Before the baselines: two more markets beside the results of twenty policies would be the peak of memory.
    stressed = [] if is_fast else [_play_stresses(policy, account, tell)]
    tell("baselines")
    plain = account.play_baselines(baselines, tell=tell)
    sized, without = _play_sized(account, plain)
    beaten = {each.name: account.play(each) for each in rivals}
    own, *shown = _name_apart(played, beaten | plain | sized)
    idle = _idle_names(sized, without)
    simple, same = drop_equal(beaten | plain | sized, explained=idle)
    limits, costs = _play_variants(policy, account, own, tell, is_fast)
    tell(f"{draws:,} bootstrap draws of {len(simple) + 1} policies")
    verdict = judge(
        own,
        _rivals(simple, account.risk),
        without=without,
        index=None if index is None else (index.name, index.returns[panel.index.get_indexer(own.times)]),
        other_sharpes=other_sharpes,
        costs=costs,
        draws=draws,
        seed=seed,
    )
    results = {each.name: each for each in (own, *shown)} | simple
    judgement = Judgement(
        results=results,
        verdict=verdict,
        intervals=_intervals(results, draws, seed),
        figures=_figures(results, panel, index),
        benchmark=benchmark_table(results, panel, None if index is None else index.returns),
        regimes=regime_table(own, panel),
        stress=pd.concat([_frame({AS_IT_WAS: metrics(own)}), *stressed]),
        rules=limits,
        windows=_windows(own),
        contribution=contribution(own),
        capacity=find_capacity(own, panel, account.market.costs),
        same=" ".join(filter(None, (same, _idle_sentence(idle, without)))),
        refits=account.refits,
        is_fast=is_fast,
        index=None if index is None else _index_figures(index, own, panel),
    )
    return judgement.with_acceptance(read_gate_set(Evaluation().acceptance))


def _name_apart(played: Sequence[Backtest], baselines: Mapping[str, Backtest]) -> list[Backtest]:
    """The policies' results, each under a name that neither a baseline nor another policy has."""
    taken, named = set(baselines), list[Backtest]()
    for result in played:
        name, number = result.name, 1
        while name in taken:
            number += 1
            name = f"{result.name} (policy)" if number == 2 else f"{result.name} (policy {number - 1})"
        taken.add(name)
        named.append(result if name == result.name else replace(result, name=name))
    return named


SIZED = ("hold", "lasso_sized", "ridge_sized")  # shown through the risk step too


def _play_sized(account: JudgedAccount, plain: Mapping[str, Backtest]) -> tuple[dict[str, Backtest], Backtest | None]:
    """Hold and the sized regressions at the same risk, by name, and the base alone; nothing without a risk.

    Hold is scaled alone: as a view around the base it would be the base by another name.
    """
    risk = account.risk
    if risk is None:
        return {}, None
    at = "" if risk.target_volatility is None else f" at {risk.target_volatility:.0%} volatility"
    own = replace(risk, scale=None)
    played: dict[str, Backtest] = {}
    for name in (name for name in SIZED if name in plain):
        step = _alone(own, account) if name == "hold" else own
        if step.is_on:
            result = account.play_baselines([name], step)[name]
            label = f"{name}{at}" if at else f"{name} around its base"
            played[label] = replace(result, name=label)
    if not risk.has_base:
        return played, None
    base = account.play_baselines(["cash"], replace(risk, scale=0.0))["cash"]
    label = f"{risk.base if isinstance(risk.base, str) else 'the given base'}{at}"
    without = replace(base, name=label)
    return {label: without} | played, without


def _alone(risk: RiskOptions, account: JudgedAccount) -> RiskOptions:
    """The same volatility of hold without a base, by one scale from the second half of the earlier bars."""
    step, first = replace(risk, base="cash", tracking_error=None), account.first
    if step.views_volatility is None:
        return step
    hold = make_baseline("hold", account.bank, account.market)
    bank, rules = account.bank, account.market
    window_bars, start = account.window_bars, first // 2
    scale = fit_views(step, hold, account.panel, first, bank=bank, window_bars=window_bars, market=rules, start=start)
    return replace(step, scale=scale)


def _idle_names(sized: Mapping[str, Backtest], without: Backtest | None) -> list[str]:
    """Regressions at the same risk that are nothing but their base, or cash."""
    return [name for name, each in sized.items() if each is not without and not np.nan_to_num(each.orders).any()]


def _idle_sentence(idle: Sequence[str], without: Backtest | None) -> str:
    """Why they are; empty where none is."""
    if not idle:
        return ""
    stays = f"{'is' if len(idle) == 1 else 'are'} {'cash' if without is None else without.name}"
    return f"{' and '.join(idle)} {stays}: no fit earned its costs on bars that it had not seen."


def _rivals(simple: Mapping[str, Backtest], risk: RiskOptions | None) -> list[Backtest]:
    """What the account must be better than: around a base regressions are views too, and count through the step only.

    A regression without the base is another kind of account, which the table shows beside it.
    """
    if risk is None or not risk.has_base:
        return list(simple.values())
    return [
        each for name, each in simple.items() if not (name in BASELINES and issubclass(BASELINES[name], Forecasting))
    ]


def _windows(result: Backtest) -> Array:
    # Equal parts of time, not of trades: a gain in few of them came from a single stretch.
    return np.array([total_return(part) for part in np.array_split(result.returns, WINDOWS)])


def _frame(figures: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """(scenario, figure) of the same policy."""
    return pd.DataFrame(figures).T.rename_axis("scenario")


def _play_variants(
    policy: Policy, account: JudgedAccount, own: Backtest, tell: Tell, is_fast: bool
) -> tuple[pd.DataFrame, dict[float, Backtest]]:
    """(scenario, figure) by other costs and limits, and the account by multiple of the costs; `own` is by its own.

    Each distinct set of rules is played once, a few of them side by side, of which no more than the figures are kept.
    """
    rules = account.market
    costs = {scaled_costs(rules, factor): factor for factor in FACTORS}
    labels = {
        each.label: each.market or rules for each in sensitivity_scenarios(account.panel, account.first, market=rules)
    }
    asked = dict.fromkeys([*costs, *([] if is_fast else labels.values())])
    others = [each for each in asked if each != rules]
    tell(f"{len(others)} other costs and limits")
    figures, kept = {rules: metrics(own)}, {rules: own}
    lines = LogLines("played", len(others), "other costs and limits", tell)
    for place in range(0, len(others), SIDE_BY_SIDE):
        part = others[place : place + SIDE_BY_SIDE]
        for market, result in zip(part, account.play_many(policy, part), strict=True):
            figures[market] = metrics(result)
            if market in costs:
                kept[market] = result
        lines.update(place + len(part))
    table = {label: figures[market] for label, market in labels.items() if market in figures}
    return _frame(table), {factor: kept[market] for market, factor in costs.items()}


def _play_stresses(policy: Policy, account: JudgedAccount, tell: Tell) -> pd.DataFrame:
    """(scenario, figure) under each stress; features are recomputed of as many bars as they need."""
    # Features of every stressed market are computed again; older bars would only cost time.
    history, first, risk = HISTORY_BARS, account.first, account.risk
    if risk is not None:
        # Three half-lives of the correlations, which are three times those of the volatilities.
        history = max(history, math.ceil(9 * risk.half_life_days) * bars_per_day(account.panel.index))
    recent, start = account.panel.rows(max(first - history, 0), len(account.panel)), min(first, history)
    scenarios = stress_scenarios(recent, start, market=account.market)[1:]  # behind the market as it was
    figures: dict[str, dict[str, float]] = {}
    policy, bank_of = account.reading_few(policy)
    forget_tables()  # those of training are not asked for again
    for place in range(0, len(scenarios), STRESSED):
        part, markets = scenarios[place : place + STRESSED], list[PlayedMarket]()
        for number, scenario in enumerate(part, start=place + 1):
            tell(f"stress {number} of {len(scenarios)}: {scenario.label}")
            markets.append(PlayedMarket(scenario.panel, bank_of(scenario.panel), scenario.market, risk))
            forget_tables()  # the bank has all that is read of it
        played = backtest_many(policy, markets, first=start, window_bars=account.window_bars)
        figures |= {scenario.label: metrics(each) for scenario, each in zip(part, played, strict=True)}
        # The tables of a stressed market are not asked for again.
        forget_risk_tables()
    return _frame(figures)


def _intervals(results: Mapping[str, Backtest], draws: int, seed: int) -> dict[str, Interval]:
    ratios = [partial(sharpe, bars_per_year=each.bars_per_year) for each in results.values()]
    known = intervals([each.returns for each in results.values()], ratios, draws=draws, seed=seed)
    return dict(zip(results, known, strict=True))


def _index_figures(index: Index, own: Backtest, panel: Panel) -> IndexFigures:
    moves, year = index.returns[panel.index.get_indexer(own.times)], own.bars_per_year
    figures = (annual_return(moves, year), total_return(moves), sharpe(moves, year))
    return IndexFigures(index.name, *map(float, figures))


def _figures(results: Mapping[str, Backtest], panel: Panel, named: Index | None) -> pd.DataFrame:
    index = index_returns(panel) if named is None else named.returns
    places = panel.index.get_indexer(next(iter(results.values())).times)
    return pd.DataFrame({name: metrics(each, index[places]) for name, each in results.items()}).T.rename_axis("policy")


def _to_plain(content: object) -> Any:
    """With texts for keys, as JSON has them."""
    if isinstance(content, dict):
        return {str(key): _to_plain(value) for key, value in content.items()}
    return list(content) if isinstance(content, tuple) else content
