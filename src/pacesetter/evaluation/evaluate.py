"""From a run folder to a judgement: its agent on the bars it never saw, and on other markets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pacesetter.build import (
    Config,
    FleetTrading,
    Portfolio,
    best_fleet,
    build_environment,
    build_fold,
    build_panel,
    build_table,
    build_task,
    fitted_until,
    load_agent,
    stored_config,
)
from pacesetter.envs.bank import Bank
from pacesetter.envs.lookback_batch import LookbackConfig
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.evaluation.backtest import Policy, market_bank
from pacesetter.evaluation.fleet_policy import FleetPolicy
from pacesetter.evaluation.judgement import Judgement, judge_policy
from pacesetter.evaluation.markets import (
    adversarial_scenarios,
    monte_carlo_scenarios,
    universe_scenarios,
    unstable_windows,
)
from pacesetter.evaluation.policies import AgentPolicy
from pacesetter.evaluation.scenarios import Scenario, evaluate_scenarios
from pacesetter.evaluation.trials import Trial, Trials
from pacesetter.panel import Panel

__all__ = ["MARKETS", "StoredRun"]

BESIDE = ("cash", "hold", "equal_weight")  # shown beside a policy on other markets


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A trained run, its bars, and the policy that it came to.

    Refuses a run that trades nothing; one without a checkpoint is refused when its policy is asked for.
    """

    folder: Path

    @cached_property
    def config(self) -> Config:
        return stored_config(self.folder)

    @cached_property
    def task(self) -> Any:
        task = build_task(self.config)
        if isinstance(task, LookbackConfig):
            raise ConfigError(
                f"{self.folder} chooses windows and trades nothing; its table of policies is in `pacesetter run`"
            )
        return task

    @cached_property
    def panel(self) -> Panel:
        return build_panel(self.config)

    @cached_property
    def first(self) -> int:
        """The first bar that the agent neither learned from nor was chosen by."""
        test = build_fold(self.config, self.panel).test
        if len(test) == 0:
            raise DataError(f"{self.folder} left no test bars; train with train.shares that add up to less than 1")
        return int(test[0])

    def bank(self, panel: Panel) -> Bank:
        """The features that the agent reads, of this or another panel."""
        return market_bank(panel, build_table(self.config, panel))

    @cached_property
    def policy(self) -> Policy:
        """The best agent of the run; a symbol agent is asked for every symbol of one account, a fleet for its own."""
        until = fitted_until(self.config, self.panel)
        if isinstance(self.task, FleetTrading):
            return FleetPolicy(best_fleet(self.folder), self.task.action, fitted_until=until)
        env = build_environment(self.config, self.panel, 1)
        is_whole = isinstance(self.task, Portfolio)
        name = str(self.config.agent["algorithm"])
        return AgentPolicy(load_agent(self.folder, env), name, self.task.action, is_whole, until)

    def judge(self, draws: int = 1000) -> Judgement:
        """The judgement on the test bars; the run is counted among the trials on this data and task."""
        trials = Trials(self.folder.parent)
        task, seed = str(self.config.task["problem"]), self.config.seed
        trial = Trial(self.panel.fingerprint, task, self.folder.name, seed)
        trials.add(trial)
        found = judge_policy(
            self.policy,
            self.panel,
            self.first,
            market=self.task.market,
            bank_of=self.bank,
            window_bars=self.task.window_bars,
            trial_sharpes=trials.sharpes(trial.data, task),
            draws=draws,
            seed=seed,
        )
        trials.add(Trial(trial.data, task, trial.run, seed, sharpe=_per_bar(found)))
        return found

    def on(self, market: str) -> pd.DataFrame:
        """Figures of the policy and simple baselines by (scenario, policy) on other markets: see `MARKETS`."""
        if market not in MARKETS:
            raise ConfigError(f"no other market '{market}' is known{did_you_mean(market, MARKETS)}")
        return self.over(MARKETS[market](self))

    def over(self, scenarios: Any) -> pd.DataFrame:
        """The same over given scenarios."""
        return evaluate_scenarios(
            [self.policy, *BESIDE], scenarios, bank_of=self.bank, window_bars=self.task.window_bars
        )


def _per_bar(found: Judgement) -> float:
    return float(found.verdict.sharpe.value / found.result.bars_per_year**0.5)


def _monte_carlo(run: StoredRun) -> Any:
    return monte_carlo_scenarios(run.panel, market=run.task.market, seed=run.config.seed)


def _adversarial(run: StoredRun) -> list[Scenario]:
    return adversarial_scenarios(run.panel, unstable_windows(run.panel, run.first), market=run.task.market)


def _universes(run: StoredRun) -> list[Scenario]:
    return universe_scenarios(run.panel, run.first, market=run.task.market)


MARKETS: dict[str, Callable[[StoredRun], Any]] = {
    "montecarlo": _monte_carlo,
    "adversarial": _adversarial,
    "universes": _universes,
}
