"""The demo, step by step: who leads, an agent that trades on it, the verdict, other costs, and where it is gone."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from pacesetter.build import Plan, build_table
from pacesetter.build.stored import SCALE
from pacesetter.envs.batch.bank import Bank
from pacesetter.evaluation.backtest.backtest import Backtest, PlayOptions, backtest
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines, possible_baselines
from pacesetter.evaluation.report.judgement_page import results_section
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.statistics.intervals import Difference, Interval, interval, paired_difference
from pacesetter.evaluation.statistics.metrics import metrics, sharpe
from pacesetter.evaluation.statistics.regression import RESULT
from pacesetter.evaluation.statistics.trials import RETURNS
from pacesetter.evaluation.statistics.verdict import Verdict, judge
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.label import label_of
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.lookback_stage import check_windows
from pacesetter.jobs.pipeline.stages import train_quietly
from pacesetter.lab.demo.market import DemoMarket, demo_market
from pacesetter.lab.demo.picture import DemoPicture, leadership_of
from pacesetter.leadlag.answer import StrengthMeasure, answer_window
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.market.ledger import Column
from pacesetter.market.risk import RiskOptions
from pacesetter.methods.direct.page import LearnedRelations
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.runs import EVALUATION, Run, write_atomic

__all__ = ["COSTS_BPS", "Demo", "DemoSettings"]

VERDICT_BPS = 1.0  # a side, of the verdict
COSTS_BPS = (0.0, 1.0, 5.0, 10.0)
TREES = "trees_sized"  # not among the default baselines: with many symbols it takes minutes
REGRESSIONS = ("lasso_sized", "ridge_sized", TREES)  # sized to the same volatility as the agent
BESIDE = (*REGRESSIONS, "hold")
HOLD, CASH, EQUAL = "hold", "cash", "equal_weight"
HIDDEN = ("turnover", "costs", "round trips")
TARGET, FAR = 0.1, 4.0  # annual volatility that is asked for, and one that no account has
COMMON = (
    *("task=fleet", "agent=direct", "features.names=[return_1]", "features.leadlag.lookback=null"),
    *(f"risk.target_volatility={TARGET}", "market.position_cap=1", "market.orders.minimum_trade=0"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)
WINDOW, EXPECTED_WINDOW = 250, 1_000  # bars behind the lead–lag features, which the baseline `expected` reads


@dataclass(frozen=True)
class DemoSettings:
    """How long it learns; fewer steps and draws are for tests.

    direct_steps     bars of accounts in which the policy learns its shape
    lookback_steps   environment steps of the agent that chooses the window; 0 leaves it out
    draws            of the bootstrap behind every interval
    """

    direct_steps: int = 61_440
    lookback_steps: int = 10_240
    draws: int = 2_000


@dataclass
class Demo:
    """One run of the demo: prints every finding when it is known, and keeps all of them for the report."""

    runs: str = "runs"
    settings: DemoSettings = field(default_factory=DemoSettings)
    console: Console = field(default_factory=Console)
    market: DemoMarket = field(default_factory=demo_market)
    sections: list[Section] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    _banks: dict[int, Bank] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.started = time.perf_counter()
        config = self.config(VERDICT_BPS)
        self.run = Run.create(self.runs, "demo", config.to_dict(), label_of(config))

    def play(self) -> Run:
        """All steps; the policy of the verdict is that of `agent_run`."""
        if self.market.note:
            self.say(self.market.note)
        self.say(f"Market: {self.market.about}, {_period(self.market.known)}.")
        self.find_leaders()
        agents = {bps: self.train(bps) for bps in COSTS_BPS}
        self.agent_run = agents[VERDICT_BPS]
        self.judge(self.agent_run)
        self.compare_costs(agents)
        self.judge_later(self.agent_run)
        if self.settings.lookback_steps:
            self.check_lookback()
        self.draw(self.agent_run)
        return self.finish()

    # ---- steps ----------------------------------------------------------------------------------------------------

    def find_leaders(self) -> None:
        """Leader scores before the test, beside the order that is known."""
        from scipy.stats import spearmanr

        market = self.market
        panel = market.known.between(end=market.choose_until)
        answer = answer_window(np.diff(np.log(panel.close), axis=0), panel.symbols, StrengthMeasure("ccf_peak"))
        scores = row_mean(answer.leadership)
        agreement = float(spearmanr(scores, market.order).statistic)
        order = np.argsort(-scores)
        rows = tuple((str(place + 1), panel.symbols[k], f"{scores[k]:+.3f}") for place, k in enumerate(order))
        text = (
            f"Leadership over {_period(panel)}: how much better a symbol's past predicts the others than theirs "
            f"predicts it. Rank correlation with {market.order_name}: {agreement:+.2f}."
        )
        self.leader = panel.symbols[int(order[0])]
        self.figures["order"] = agreement
        self.add(Section("Who leads", text, (), ("rank", "symbol", "leader score"), rows))

    def train(self, bps: float) -> StoredRun:
        """A direct policy that pays so much a side; learned and chosen before the test."""
        run = StoredRun(train_quietly(self.config(bps, str(self.run.folder / "agents"))))
        # On the years that chose it: there its signals are out-of-sample.
        start = int(run.panel.index.searchsorted(self.market.learn_until, "right"))
        write_atomic(run.folder / SCALE, json.dumps({"scale": run.measure_scale(start)}) + "\n")
        run = StoredRun(run.folder)
        if bps == VERDICT_BPS:
            learned = LearnedRelations.of(run.folder, self.market.known)
            self.sections.append(learned.section())
            self.say(f"Trained to {self.market.learn_until:%Y}: {learned.sentence}.")
        return run

    def judge(self, run: StoredRun) -> None:
        """The verdict at the main cost, beside every baseline."""
        known = self.market.known
        names = (*possible_baselines(self.bank(known)), TREES)
        own, simple = self._play(run, known, run.first), self.baselines(run, known, run.first, names)
        self._judged = own, simple
        scaled = self.scaled_hold(run, known, run.first, own)
        simple = {**simple, scaled.name: scaled}
        self._give_verdict(f"Verdict at {VERDICT_BPS:g} bp a side", own, simple, "verdict")

    def judge_later(self, run: StoredRun) -> None:
        """The same policy where the effect is known to be gone."""
        later, first = self.market.later, self.market.first_later
        own, simple = self._play(run, later, first), self.baselines(run, later, first, (CASH, *BESIDE))
        scaled = self.scaled_hold(run, later, first, own)
        simple = {**simple, scaled.name: scaled}
        self._give_verdict("The same policy where the effect is gone", own, simple, "later")

    def compare_costs(self, agents: Mapping[float, StoredRun]) -> None:
        """Sharpe ratios at several costs, each policy trained at its own, and the paired difference to hold."""
        rows = []
        for bps, run in agents.items():
            # The verdict's cost is one of those compared: its backtests are used again.
            own, simple = self._judged if bps == VERDICT_BPS else self._play_beside(run)
            gap = self._above_hold(own, simple)
            ratios = {own.name: _ratio(own)} | {name: _ratio(simple[name]) for name in BESIDE}
            self.figures.setdefault("costs", {})[f"{bps:g}"] = ratios | {"above_hold": list(gap)}
            money = metrics(own)
            earned = f"{money['annual_return']:+.1%}", f"{money['max_drawdown']:.1%}"
            rows.append((f"{bps:g}", *earned, *(f"{value:+.2f}" for value in ratios.values()), str(gap)))
        header = ("bps a side", "annual return", "drawdown", "direct", *BESIDE, "Sharpe difference to hold")
        text = (
            f"By costs on {_period(self.market.known, self.market.choose_until)}: what direct earned a year and its "
            "drawdown, then annualised Sharpe ratios, and the paired difference with its 95 % interval. Each policy "
            "was trained at its own cost."
        )
        self.add(Section("By costs", text, (), header, tuple(rows)))

    def _play_beside(self, run: StoredRun) -> tuple[Backtest, dict[str, Backtest]]:
        known = self.market.known
        return self._play(run, known, run.first), self.baselines(run, known, run.first, BESIDE)

    def check_lookback(self) -> None:
        """The agent that chooses the window, beside fixed windows and heuristics, on the same periods."""
        base = self.config(VERDICT_BPS)
        config = replace(base, job=replace(base.job, lookback_steps=self.settings.lookback_steps))
        line, section = check_windows(config, self.run.path("lookback"), self.market.known)
        self.sections.append(section)
        self.say(f"How far back to look: {line}.")

    def draw(self, run: StoredRun) -> None:
        """The picture, as a file and in the report."""
        market = self.market
        leadership = leadership_of(market.whole, market.whole.symbols.index(self.leader))
        after, rules, bank = market.after, run.task.market, run.bank(market.after)
        first = int(after.index.searchsorted(market.choose_until))
        sized: PlayOptions = {"market": rules, "bank": bank, "window_bars": run.task.window_bars, "risk": run.sizing}
        own = backtest(run.policy, after, first=first, **sized)
        hold = evaluate_baselines(after, first, (HOLD,), market=rules, bank=bank)[HOLD]
        equities = own, hold, self.scaled_hold(run, after, first, own, bank)
        title = f"{self.leader} led the others, an agent learned it, and then it was gone"
        picture = DemoPicture(market, self.leader, leadership, equities, title)
        picture.to_png(self.run.path("demo.png"))
        text = f"Above: how far {self.leader} leads the others. Below: what an account became after costs."
        self.sections.insert(0, Section("The picture", text, (picture.to_plotly(),)))

    def finish(self) -> Run:
        """Report and figures, and where they are."""
        seconds = time.perf_counter() - self.started
        notes = self.market.known.notes
        write_report(self.run.path("report.html"), "demo", self.sections, notes)
        self.run.write_json("figures.json", self.figures | {"seconds": seconds})
        self.run.finish(data_fingerprint=self.market.known.fingerprint)
        for note in notes:
            self.say(f"Note: {note}.")
        self.say(f"Picture: {self.run.folder / 'demo.png'}")
        self.say(f"Report: {self.run.folder / 'report.html'} ({seconds:.0f} s)")
        return self.run

    # ---- parts ----------------------------------------------------------------------------------------------------

    def config(self, bps: float, runs: str = "") -> Plan:
        """The run of a policy that pays `bps` a side."""
        steps = self.settings.direct_steps
        learned, chosen = self.market.shares
        own = (
            *(f"costs={bps}", f"train.shares=[{learned:.9f},{chosen:.9f}]"),
            *(f"train.steps={steps}", f"train.validate_every={max(steps // 2, 1)}", f"train.log_every={steps}"),
        )
        return resolve([*COMMON, *self.market.overrides, *own, "name=demo", f"runs={runs or self.runs}"])

    def bank(self, panel: Panel) -> Bank:
        """Features of a panel, those of lead–lag among them, computed once: costs do not change them."""
        # By identity: the demo has a handful of panels, which live as long as it does.
        if id(panel) not in self._banks:
            config = self.config(VERDICT_BPS)
            leadlag = replace(config.features.leadlag, lookback=WINDOW, expected_lookback=EXPECTED_WINDOW)
            table = build_table(replace(config, features=replace(config.features, leadlag=leadlag)), panel)
            self._banks[id(panel)] = market_bank(panel, table)
        return self._banks[id(panel)]

    def baselines(self, run: StoredRun, panel: Panel, first: int, names: tuple[str, ...]) -> dict[str, Backtest]:
        """Backtests of the named baselines with the rules of the run; regressions at its risk, each with its scale."""
        options: dict[str, Any] = {"market": run.task.market, "window_bars": run.task.window_bars}
        options["bank"] = self.bank(panel)
        plain = [name for name in names if name not in REGRESSIONS]
        sized = [name for name in names if name in REGRESSIONS]
        played = evaluate_baselines(panel, first, plain, **options)
        return played | evaluate_baselines(panel, first, sized, risk=replace(run.risk, scale=None), **options)

    def scaled_hold(
        self, run: StoredRun, panel: Panel, first: int, own: Backtest, bank: Bank | None = None
    ) -> Backtest:
        """All symbols in equal parts with the volatility that the agent's account had, the rest in cash."""
        volatility = metrics(own)["volatility"]
        options: dict[str, Any] = {"market": run.task.market, "bank": bank or self.bank(panel)}
        whole = evaluate_baselines(panel, first, (EQUAL,), **options)[EQUAL]
        share = volatility / metrics(whole)["volatility"]
        # No target that would change the share from bar to bar.
        risk = RiskOptions(target_volatility=FAR, scale=share)
        hold = evaluate_baselines(panel, first, (EQUAL,), risk=risk, **options)[EQUAL]
        return replace(hold, name=f"hold at {volatility:.1%} volatility")

    def _play(self, run: StoredRun, panel: Panel, first: int) -> Backtest:
        options: dict[str, Any] = {
            "market": run.task.market,
            "window_bars": run.task.window_bars,
            "risk": run.sizing,
        }
        return backtest(run.policy, panel, first=first, bank=self.bank(panel), **options)

    def _give_verdict(self, title: str, own: Backtest, simple: Mapping[str, Backtest], name: str) -> None:
        verdict = judge(own, list(simple.values()), draws=self.settings.draws)
        gap = self._above_hold(own, simple)
        results = {each.name: each for each in (own, *simple.values())}
        intervals = {
            key: interval(each.returns, _statistic(each), draws=self.settings.draws) for key, each in results.items()
        }
        period = f"{own.times[0]:%Y-%m-%d} to {own.times[-1]:%Y-%m-%d}"
        said = verdict.sentence  # begins with the headline where no edge was found
        said = said if said.startswith(verdict.headline) else f"{verdict.headline}. {said}"
        text = (
            f"{period}. {said} Sharpe difference to hold: {gap}. {_money(own)} Hold: "
            f"{_money(simple[HOLD])} On average {_invested_share(own):.0%} of equity was invested "
            f"(hold: {_invested_share(simple[HOLD]):.0%})."
        )
        self.figures[name] = _facts(verdict, gap) | {"money": {key: metrics(each) for key, each in results.items()}}
        if name == "verdict":
            self._store_verdict(verdict, text, results, intervals)
        table = results_section(results, intervals)
        self.add(replace(table, title=title, text=text, is_evidence=verdict.is_evidence, headline=verdict.headline))

    def _store_verdict(
        self, verdict: Verdict, text: str, results: Mapping[str, Backtest], intervals: Mapping[str, Interval]
    ) -> None:
        """What the list of runs and a comparison read; no gates are asked of a demonstration."""
        folder = self.run.path(EVALUATION)
        folder.mkdir(exist_ok=True)
        about: dict[str, object] = {
            "policy": verdict.name,
            "headline": verdict.headline,
            "sentence": text,
            "gates": [],
            "regimes": {},
        }
        about |= {"has_edge": verdict.has_edge, "is_evidence": verdict.is_evidence}
        about |= {"bars_per_year": results[verdict.name].bars_per_year}
        about |= {"intervals": {key: list(each) for key, each in intervals.items()}}
        about |= {"figures": {key: metrics(each) for key, each in results.items()}}
        write_atomic(folder / RESULT, json.dumps(about, indent=2) + "\n")
        returns = {key: each.returns for key, each in results.items()}
        pd.DataFrame(returns, results[verdict.name].times).to_parquet(folder / RETURNS)

    def _above_hold(self, own: Backtest, simple: Mapping[str, Backtest]) -> Difference:
        hold = simple[HOLD]
        return paired_difference(own.returns, hold.returns, _statistic(own), draws=self.settings.draws)

    def add(self, section: Section) -> None:
        """Print a section, and keep it for the report."""
        self.sections.append(section)
        self.console.print(section.table.cut(HIDDEN))
        self.say(section.text)

    def say(self, text: str) -> None:
        """A line, with the seconds since the start."""
        spent = f"[{time.perf_counter() - self.started:5.0f} s] "
        self.console.print(spent + text, highlight=False, markup=False, soft_wrap=True)


def _period(panel: Panel, after: Any = None) -> str:
    days = panel.index if after is None else panel.index[panel.index > after]
    return f"{days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}"


def _statistic(result: Backtest) -> Any:
    return partial(sharpe, bars_per_year=result.bars_per_year)


def _ratio(result: Backtest) -> float:
    return float(sharpe(result.returns, result.bars_per_year))


def _money(result: Backtest) -> str:
    """What an account earned and risked, in a sentence; with what was asked for where its risk was stated."""
    figures = metrics(result)
    asked = f", where {TARGET:.0%} was asked for" if result.risk is not None else ""
    return (
        f"{figures['annual_return']:+.1%} a year at a volatility of {figures['volatility']:.1%} by days and "
        f"{figures['volatility_21_days']:.1%} by months{asked}; drawdown {figures['max_drawdown']:.1%}."
    )


def _invested_share(result: Backtest) -> float:
    """Mean share of equity in positions."""
    return float(result.ledger[:, Column.EXPOSURE].mean())


def _facts(verdict: Verdict, gap: Difference) -> dict[str, object]:
    """What a machine reads of a verdict."""
    plain = {name: value for name, value in asdict(verdict).items() if name != "costs"}
    stored: dict[str, object] = json.loads(json.dumps(plain))
    return stored | {"headline": verdict.headline, "is_evidence": verdict.is_evidence, "above_hold": list(gap)}
