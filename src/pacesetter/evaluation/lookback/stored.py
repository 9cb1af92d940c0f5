"""From the folder of a lookback run to a judgement: its windows on the bars it never saw, and on other markets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from pacesetter.build import Plan, build_fold, build_panel, stored_plan
from pacesetter.build.tasks.lookback import learned_universe
from pacesetter.build.tasks.task import Stored
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.evaluation import evaluate_lookback
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.backtest.markets import (
    adversarial_scenarios,
    monte_carlo_scenarios,
    split_universes,
    universe_scenarios,
    unstable_windows,
)
from pacesetter.evaluation.backtest.scenarios import Scenario
from pacesetter.evaluation.backtest.stress import stress_scenarios
from pacesetter.evaluation.lookback.downstream_value import downstream_sentences, downstream_table
from pacesetter.evaluation.lookback.judgement import AGENT, STOCHASTIC, LookbackJudgement, judge_lookback
from pacesetter.evaluation.lookback.page import BRIEF, PRINTED, lookback_sections, store_lookback
from pacesetter.evaluation.report.page import Section, page_header
from pacesetter.evaluation.statistics.trials import Trial, Trials
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.leadlag.lookback.baselines import WindowScores, baseline_policies
from pacesetter.leadlag.lookback.policy import LookbackPolicy
from pacesetter.panel import Panel

__all__ = ["LookbackRun"]

HISTORY_BARS = 500  # before the judged bars in stressed markets
FIGURES = ("reward", "reward_se", "switches", "mean_lookback")


@dataclass(frozen=True, eq=False)
class LookbackRun:
    """A trained run of task=lookback, its bars, and the policy that it came to.

    brief   columns of the verdict that a narrow console leaves out     printed   sections that a console shows
    shown   figures of another market, by the names they are shown under     figure   the one whose spread is printed
    """

    folder: Path
    brief: ClassVar[tuple[str, ...]] = BRIEF
    printed: ClassVar[int] = PRINTED
    shown: ClassVar[Mapping[str, str]] = {
        "reward": "reward",
        "reward_se": "standard error",
        "switches": "switches",
        "mean_lookback": "mean window",
    }
    figure: ClassVar[str] = "reward"

    @cached_property
    def config(self) -> Plan:
        return stored_plan(self.folder)

    @cached_property
    def task(self) -> LookbackConfig:
        self.config.problem.check("evaluate", self.folder)
        task: LookbackConfig = self.config.lookback
        return task

    @cached_property
    def whole(self) -> Panel:
        """The bars of all symbols, those of the test universe too."""
        return build_panel(self.config)

    @cached_property
    def panel(self) -> Panel:
        """The bars of the symbols that it learned from."""
        return learned_universe(self.config, self.whole)

    @property
    def first(self) -> int:
        """The first bar that the agent neither learned from nor was chosen by, and that has the longest window."""
        longest = max(self.task.windows.longest, self.task.windows.seen[-1])
        return max(int(build_fold(self.config, self.panel).test[0]), longest)

    def agent(self, panel: Panel, is_stochastic: bool = False) -> LookbackPolicy:
        """The best policy of the run for a panel, drawn by the run's seed where it is stochastic."""
        task: Any = self.config.problem
        policy: LookbackPolicy = task.windows_policy(Stored(self.folder, self.config, panel), is_stochastic)
        return policy

    # ---- its own test bars ----------------------------------------------------------------------------------------

    def judge(
        self,
        draws: int = 1000,
        trader: Path | None = None,
        *,
        is_fast: bool = False,
        tell: Callable[[str], object] | None = None,
    ) -> LookbackJudgement:
        """The judgement on the test bars; the run is counted among the trials on this data and task.

        It is the same with `is_fast`, since it plays no stressed market; `tell` is told nothing.

        With a `trader`, the folder of a stored trading run, what it earns with these windows is added.
        """
        panel, seed = self.panel, self.config.seed
        agents = {AGENT: self.agent(panel), STOCHASTIC: self.agent(panel, is_stochastic=True)}
        trials = Trials.for_runs(self.folder.parent)
        trial = Trial(panel.fingerprint, "lookback", self.folder.name, seed)
        # Before judging: this run is one of the trials that its own level is raised for.
        trials.add(trial)
        # By run: the ledger has a line for each entry of a run.
        count = len({each.run for each in trials.of(panel.fingerprint, "lookback")})
        judgement = judge_lookback(agents, panel, self.task, self.first, trials=count, draws=draws, seed=seed)
        other = None if trader is None else StoredRun(trader)
        worth = downstream_table(judgement, panel, self.task, trader=other, draws=draws, seed=seed)
        return replace(judgement, worth=worth, notes=downstream_sentences(worth, judgement.learned))

    def play(self) -> dict[str, float]:
        """The agent alone on the test bars: reward, components, windows and switches."""
        evaluation = evaluate_lookback({AGENT: self.agent(self.panel)}, self.panel, self.task, start=self.first)
        row: Any = evaluation.table().loc[AGENT]
        return {str(name): float(value) for name, value in row.items() if np.isfinite(value)}

    def report(self, judgement: LookbackJudgement) -> list[Section]:
        """Everything that a report says of a judgement."""
        return [*lookback_sections(judgement, self.panel), self._stress(judgement)]

    def header(self) -> dict[str, str]:
        """What a report is about: data, test period and seed."""
        source, judged = self.config.data.source, self.panel.index[self.first :]
        return page_header(source, judged, self.panel.symbols, self.config.seed)

    def store(self, judgement: LookbackJudgement, folder: Path, facts: Mapping[str, str]) -> None:
        """Write what other commands read of a judgement."""
        store_lookback(judgement, self.panel, folder, facts)

    def insights(self, judgement: LookbackJudgement) -> list[Section]:
        """Explanations: what the agent looks at, what it is paid for, when the structure broke."""
        from pacesetter.evaluation.lookback.insight import lookback_insights

        return lookback_insights(self, judgement)

    def _stress(self, judgement: LookbackJudgement) -> Section:
        """The same agent, not retrained, on stressed bars, beside the constant that the training set chose."""
        start = max(
            self.first - HISTORY_BARS - self.task.windows.longest, 0
        )  # what the agent and features look back to
        recent = self.panel.rows(start, None)
        table = self.evaluate_scenarios(stress_scenarios(recent, self.first - start)[1:], judgement.learned)
        wide = table["reward"].unstack("policy")[[AGENT, judgement.learned]]
        rows = tuple(
            (str(name).replace("_", " "), *(f"{value:+.4f}" for value in row)) for name, *row in wide.itertuples()
        )
        text = "Mean reward on test bars that are changed from a third of the way on; the guide describes each stress."
        return Section("Stress", text, (), ("scenario", AGENT, judgement.learned), rows)

    # ---- other markets --------------------------------------------------------------------------------------------

    def on(self, market: str) -> pd.DataFrame:
        """Figures of the agent and simple policies by (scenario, policy) on other markets: see `MARKETS`."""
        if market not in MARKETS:
            raise ConfigError(f"unknown market '{market}'{did_you_mean(market, MARKETS)}")
        return self.evaluate_scenarios(MARKETS[market](self))

    def evaluate_elsewhere(self, name: str, panel: Panel) -> pd.DataFrame:
        """The same on the bars of another source, from a fifth of them on."""
        return self.evaluate_scenarios([Scenario(name, panel, len(panel) // 5, is_unseen=True)])

    def evaluate_scenarios(self, scenarios: Iterable[Scenario], *beside: str) -> pd.DataFrame:
        """The same over given scenarios; a market of other symbols needs a universe mask, task.view.max_assets."""
        rows: dict[tuple[str, str], Mapping[Hashable, float]] = {}
        for scenario in scenarios:
            panel, task = scenario.panel, self._check_scenario(scenario)
            view = task.view
            scores = WindowScores(task.windows.grid, view.method, view.horizon_bars, dict(view.options))
            simple = baseline_policies(scores)
            names = beside or ("volatility", "cross-validated", *(f"constant {bars}" for bars in task.windows.grid))
            policies = {AGENT: self.agent(panel)} | {name: simple[name] for name in names}
            evaluation = evaluate_lookback(policies, panel, task, start=self._start(scenario), stop=scenario.last)
            table = evaluation.table()
            rows |= {(scenario.label, name): table.loc[name, list(FIGURES)].to_dict() for name in evaluation.names}
        index = pd.MultiIndex.from_tuples(rows, names=["scenario", "policy"])
        return pd.DataFrame(list(rows.values()), index=index)

    def _start(self, scenario: Scenario) -> int:
        return max(scenario.first, self.task.windows.longest, self.task.windows.seen[-1])

    def _check_scenario(self, scenario: Scenario) -> LookbackConfig:
        """The options for a market; refuses one of more or fewer symbols where the agent has no universe mask."""
        self.config.problem.check_symbols(self.folder, self.panel.symbols, scenario.label, scenario.panel.symbols)
        return replace(self.task, trouble_limit=len(scenario.panel))  # a stressed market may halt for long


def _monte_carlo(run: LookbackRun) -> Iterator[Scenario]:
    return monte_carlo_scenarios(run.panel, seed=run.config.seed)


def _adversarial(run: LookbackRun) -> list[Scenario]:
    return adversarial_scenarios(run.panel, unstable_windows(run.panel, run.first))


def _universes(run: LookbackRun) -> list[Scenario]:
    """Training and test universe of the configuration; without them the symbols dealt into two parts."""
    if run.task.symbols:
        return split_universes(run.whole, run.task.symbols, run.first)
    return universe_scenarios(run.panel, run.first)


MARKETS: dict[str, Callable[[LookbackRun], Iterable[Scenario]]] = {
    "montecarlo": _monte_carlo,
    "adversarial": _adversarial,
    "universes": _universes,
}
