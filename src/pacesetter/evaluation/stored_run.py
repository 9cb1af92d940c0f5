"""From a run folder to a judgement: its agent on the bars it never saw, and on other markets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.build import (
    Plan,
    build_fold,
    build_panel,
    build_supervised,
    build_table,
    stored_plan,
)
from pacesetter.build.environments import without_leadlag
from pacesetter.build.members import load_policy
from pacesetter.build.plan import has_prior
from pacesetter.build.prior import prior_alone
from pacesetter.build.stored import stored_risk
from pacesetter.build.tasks.task import Stored
from pacesetter.build.trading import Trading
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.evaluation.backtest.backtest import Backtest, PlayOptions, applied_risk, backtest, fit_views
from pacesetter.evaluation.backtest.markets import (
    adversarial_scenarios,
    monte_carlo_scenarios,
    universe_scenarios,
    unstable_windows,
)
from pacesetter.evaluation.backtest.refitted import RefittedPolicy
from pacesetter.evaluation.backtest.scenarios import Scenario, evaluate_scenarios
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines
from pacesetter.evaluation.explain.reward_audit import reward_frame
from pacesetter.evaluation.judgement import JudgedAccount, Judgement, judge_policy
from pacesetter.evaluation.programme.gate_sets import read_gate_set
from pacesetter.evaluation.programme.measured import read_record
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.statistics.prior_gain import PriorGain
from pacesetter.evaluation.statistics.regimes import Index
from pacesetter.evaluation.statistics.trials import Trial, Trials
from pacesetter.features import FEATURES, FeatureTable
from pacesetter.features.feature import default_names
from pacesetter.features.table import forget_tables
from pacesetter.late import load
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy
from pacesetter.runs import Run

__all__ = ["MARKETS", "StoredRun", "WalkForwardRun", "fitted_risk"]

MOST_MEASURED = 3_000  # bars of training and validation that the scale of views is measured on, the latest
BESIDE = ("cash", "hold", "equal_weight")  # shown beside a policy on other markets


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A trained run, its bars, and the policy that it came to.

    Refuses a run that trades nothing; one without a checkpoint is refused when its policy is asked for.

    brief   columns of the verdict that a narrow console leaves out
    like    a run of the same data and features, whose tables are used instead of computing them once more
    is_alone   no baseline is played beside it: features that only those read are left out
    bars    those of its data, all symbols, where they have been read
    shown   figures of another market, by the names they are shown under     figure   the one whose spread is printed
    """

    folder: Path
    like: StoredRun | None = None
    is_alone: bool = False
    bars: Panel | None = None
    brief: ClassVar[tuple[str, ...]] = ("volatility", "volatility (21 days)", "turnover", "costs", "round trips")
    shown: ClassVar[Mapping[str, str]] = {
        "annual_return": "annual return",
        "sharpe": "Sharpe ratio",
        "max_drawdown": "drawdown",
        "turnover": "turnover",
        "round_trips": "round trips",
    }
    figure: ClassVar[str] = "sharpe"

    @cached_property
    def config(self) -> Plan:
        return stored_plan(self.folder)

    @property
    def printed(self) -> int:
        """Sections that a console shows: verdict and gates, and what was added to a prior."""
        return 2 + has_prior(self.config)

    @cached_property
    def risk(self) -> RiskOptions:
        """How much risk its account takes, with the scale of its views once training has fitted and stored it."""
        return stored_risk(self.folder, self.config)

    @cached_property
    def sizing(self) -> RiskOptions | None:
        """The risk that its weights are sized to, with the scale of its views; None where its account is not sized.

        A scale that training did not store is fitted to training and validation bars, at most the latest 3,000.
        """
        risk = applied_risk(self.policy, self.risk)
        if risk is None or risk.scale is not None or risk.views_volatility is None:
            return risk
        return replace(risk, scale=self.measure_scale(self.first - MOST_MEASURED))

    def measure_scale(self, start: int = 0) -> float:
        """The scale of its views from what the policy wants over the bars from `start` on, before the test set."""
        return fit_views(
            self.risk,
            self.policy,
            self.panel,
            self.first,
            bank=self.bank(self.panel),
            window_bars=self.task.window_bars,
            market=self.task.market,
            start=start,
        )

    def _play_options(self, risk: RiskOptions | None) -> PlayOptions:
        bank = self.bank(self.panel)
        return {"market": self.task.market, "bank": bank, "window_bars": self.task.window_bars, "risk": risk}

    @property
    def refits(self) -> pd.DatetimeIndex | None:
        """Moments at which its policy is refitted; None: never."""
        return None

    @cached_property
    def task(self) -> Trading:
        """Its options; refuses a task that declares that it cannot be evaluated."""
        task = self.config.problem
        task.check("evaluate", self.folder)
        if task.judged_as != "account":
            raise ConfigError(f"{self.folder} chooses windows and does not trade; give a run that trades")
        return self.config.trading

    @cached_property
    def whole(self) -> Panel:
        """All symbols of its data, by which trials are counted."""
        if self.like is not None:
            return self.like.whole
        return build_panel(self.config) if self.bars is None else self.bars

    @cached_property
    def panel(self) -> Panel:
        """The symbols that it trades; refuses lead–lag features that read others too."""
        if self.like is not None:
            return self.like.panel
        symbols = self.task.symbols
        if not symbols:
            return self.whole
        if self.config.features.leadlag.is_on and set(symbols) != set(self.whole.symbols):
            raise ConfigError(
                f"{self.folder} trades {len(symbols)} symbols with lead–lag features of {len(self.whole.symbols)}; "
                "give a run of all of them, or name its symbols by data.symbols"
            )
        return self.whole.select(symbols)

    @cached_property
    def first(self) -> int:
        """The first bar that the agent neither learned from nor was chosen by."""
        return int(build_fold(self.config, self.panel).test[0])

    def bank(self, panel: Panel) -> Bank:
        """The features that the agent reads, of this or another panel; refuses one that lacks what they need."""
        # Identity, not equality: comparing two panels bar by bar would cost as much as computing features.
        if panel is self.panel:
            return self._own_bank
        table = self._table(panel)
        return market_bank(panel, table, self._classify_bars(panel, table))

    def few_features(self, panel: Panel, names: tuple[str, ...]) -> Bank:
        """Some features of another panel, for a policy that reads no more."""
        config = without_leadlag(self.config)
        return market_bank(panel, build_table(replace(config, features=replace(config.features, names=names)), panel))

    @cached_property
    def table(self) -> FeatureTable:
        """The features of its own bars, computed once."""
        return self._table(self.panel) if self.like is None else self.like.table

    def _forget_table(self) -> None:
        """Free the table once the bank has all that is read of it: both are the largest that a judgement holds."""
        self.bank(self.panel)
        vars(self).pop("table", None)
        forget_tables()

    @cached_property
    def _own_bank(self) -> Bank:
        if self.like is not None:
            return self.like.bank(self.panel)
        return market_bank(self.panel, self.table, build_supervised(self.config, self.panel))

    def _table(self, panel: Panel) -> FeatureTable:
        asked = self.config.features
        # The features of its own bars, also on a market with more fields: the network has one input for each.
        names = [name for name in asked.names or default_names() if set(FEATURES[name].needs) <= set(self.panel.fields)]
        config = replace(self.config, features=replace(asked, names=tuple(names)))
        if (self.is_alone or panel is not self.panel) and not config.problem.reads_context:
            # Of its own bars they are there for a baseline that reads them; on other markets none does.
            config = without_leadlag(config)
        table = build_table(config, panel)
        for name, why in table.left_out.items():
            raise DataError(
                f"the agent of {self.folder} uses the feature {name}, which {why}; give bars that have it, or train "
                "with features.names of those available"
            )
        return table

    def _classify_bars(self, panel: Panel, table: FeatureTable) -> Array | None:
        """What the run's classifiers say of another market; None without one."""
        if not self.config.features.classifiers:
            return None
        from pacesetter.methods.supervised.direction import Examples
        from pacesetter.methods.supervised.forecasts import Forecasts

        models = [Forecasts.load(folder).model for folder in self.config.features.classifiers]
        windows = {model.config.window_bars for model in models}
        examples = {bars: Examples.of(panel, table, bars) for bars in windows}
        said = [examples[model.config.window_bars].predict(model, 0, len(panel)) for model in models]
        return np.concatenate(said, axis=2)

    @cached_property
    def policy(self) -> Policy:
        """The best policy of the run; a symbol agent is asked for every symbol of one account, a fleet for its own."""
        policy = load_policy(Stored(self.folder, self.config, self.panel, self.table))
        assert isinstance(policy, Policy)  # of an account that trades
        return policy

    def report(self, judgement: Judgement) -> list[Section]:
        """Everything that a report says of a judgement."""
        from pacesetter.evaluation.report.judgement_page import judgement_sections

        return [*judgement_sections(judgement), *self.sections()]

    def header(self) -> dict[str, str]:
        """What a report is about: data, test period, costs, capital and seed."""
        from pacesetter.evaluation.report.page import page_header

        source, judged = self.config.data.source, self.panel.index[self.first :]
        return page_header(source, judged, self.panel.symbols, self.config.seed, self.task.market)

    def store(self, judgement: Judgement, folder: Path, facts: Mapping[str, str]) -> None:
        """Write what other commands read of a judgement."""
        from pacesetter.evaluation.report.judgement_page import store_judgement

        store_judgement(judgement, folder, facts)

    def insights(self, judgement: Judgement) -> list[Section]:
        """Explanations: what the agent looks at, what it is paid for, when the structure broke."""
        from pacesetter.evaluation.explain.findings import insight_sections

        return insight_sections(self, judgement)

    def sections(self) -> list[Section]:
        """What its training left for a report, e.g. a direct policy's relations."""
        page = self.config.problem.page
        sections: list[Section] = load(page)(self.folder, self.panel) if page else []
        return sections

    def play(self) -> Backtest:
        """The policy alone on the test bars."""
        return backtest(self.policy, self.panel, first=self.first, **self._play_options(self.sizing))

    def at_risk(self, risk: RiskOptions) -> dict[str, Backtest]:
        """The policy, its base alone (cash) and simple baselines on the test bars, each through the same risk step."""
        options = self._play_options(risk)
        own = backtest(self.policy, self.panel, first=self.first, **options)
        return {own.name: own} | evaluate_baselines(self.panel, self.first, BESIDE, **options)

    def judge(
        self,
        draws: int = 1000,
        trader: Path | None = None,
        *,
        is_fast: bool = False,
        tell: Callable[[str], object] | None = None,
    ) -> Judgement:
        """The judgement on the test bars; the run is counted among the trials on this data and task.

        Refuses a `trader`, which is for runs of task=lookback. See `judge_policy` for `is_fast` and `tell`.
        """
        if trader is not None:
            raise ConfigError(f"--trader is for lookback agents, but {self.folder} trades itself; leave it out")
        policy, trials, trial = self.policy, self.trials, self.trial  # a run that cannot be judged is not a trial
        rivals = () if self.prior is None else (self.prior,)
        self._forget_table()
        account = JudgedAccount(
            self.panel,
            self.first,
            self.task.market,
            self.bank,
            self.task.window_bars,
            risk=self.sizing,
            refits=self.refits,
            index=self.index,
            few_of=None if self.config.features.classifiers else self.few_features,
        )
        judgement = judge_policy(
            policy,
            account,
            rivals=rivals,
            other_sharpes=trials.sharpes_beside(trial),
            draws=draws,
            seed=trial.seed,
            is_fast=is_fast,
            tell=tell,
        )
        # Added after judging: a run that fails to be judged has not been looked at, and is not a trial.
        judgement = self._apply_gates(judgement)
        trials.add(replace(trial, sharpe=_per_bar(judgement)))
        returns = pd.Series(judgement.result.returns, judgement.result.times)
        rewards = reward_frame(judgement.result, self.task.reward, self.config.train.steps)
        said = trials.describe_others(trial, returns)
        return replace(judgement, rewards=rewards, trials=said, prior=self._prior_gain(judgement, draws))

    @cached_property
    def prior(self) -> Policy | None:
        """What its agents began at, by itself; None of a run without a prior."""
        if not has_prior(self.config):
            return None
        return prior_alone(Stored(self.folder, self.config, self.panel, self.table))

    def _prior_gain(self, judgement: Judgement, draws: int) -> PriorGain | None:
        # One that stays in cash is shown and counted as cash.
        alone = None if self.prior is None else judgement.results.get(self.prior.name)
        if alone is None:
            return None
        term = self.task.reward.components.get("mean_variance")
        aversion = 0.0 if term is None else float(term.options["aversion"])
        train, manifest = self.config.train, Run.open(self.folder).manifest
        steps = int(manifest["best_step"]) if train.validate_every else train.steps, train.steps
        cap = self.task.market.limits.position_cap_fraction
        return PriorGain.of(judgement.result, alone, cap, steps, aversion, draws, self.trial.seed)

    @property
    def trials(self) -> Trials:
        """The ledger that counts this run."""
        return Trials.for_runs(self.folder.parent)

    @property
    def trial(self) -> Trial:
        """This run as its ledger enters it."""
        return Trial(self.whole.fingerprint, str(self.config.task.problem), self.folder.name, self.config.seed)

    def trial_sharpes(self) -> dict[str, float]:
        """The Sharpe ratio per bar of each trial on this data and task by the name of its run, NaN where not known."""
        alike = self.trials.of(self.trial.data, self.trial.task)
        return {each.run: float("nan") if each.sharpe is None else each.sharpe for each in alike}

    @property
    def index(self) -> Index | None:
        """The symbol of `evaluation.index`, traded or not."""
        symbol = self.config.evaluation.index
        return None if symbol is None else Index.of(self.whole, symbol)

    def _apply_gates(self, judgement: Judgement) -> Judgement:
        """By the gates of `evaluation.acceptance`, which may read what training left too."""
        gates = read_gate_set(self.config.evaluation.acceptance)
        return judgement.with_acceptance(gates, read_record(self.folder, gates.index, judgement.to_json()))

    def on(self, market: str) -> pd.DataFrame:
        """Figures of the policy and simple baselines by (scenario, policy) on other markets: see `MARKETS`."""
        if market not in MARKETS:
            raise ConfigError(f"unknown market '{market}'{did_you_mean(market, MARKETS)}")
        return self.evaluate_scenarios(MARKETS[market](self))

    def evaluate_elsewhere(self, name: str, panel: Panel) -> pd.DataFrame:
        """The same on the bars of another source, from a fifth of them on."""
        # A fifth is history for features and allocations.
        start = max(len(panel) // 5, self.task.window_bars)
        return self.evaluate_scenarios([Scenario(name, panel, start, market=self.task.market, is_unseen=True)])

    def evaluate_scenarios(self, scenarios: Iterable[Scenario]) -> pd.DataFrame:
        """The same over given scenarios; refuses a market of more or fewer symbols for an agent of all at once.

        The policy is sized as the run is; the baselines are whole portfolios and are not.
        """
        return evaluate_scenarios(
            [self.policy, *BESIDE],
            map(self._check_scenario, scenarios),
            bank_of=self.bank,
            window_bars=self.task.window_bars,
            risk=self.sizing,
        )

    def _check_scenario(self, scenario: Scenario) -> Scenario:
        symbols = self.panel.symbols, scenario.label, scenario.panel.symbols
        self.config.problem.check_symbols(self.folder, *symbols)
        return scenario


@dataclass(frozen=True, eq=False)
class WalkForwardRun(StoredRun):
    """A run with earlier fits of itself, in one account: each decides until the next begins.

    earlier   folders of runs of the same configuration, fitted on fewer bars, the first first
    """

    earlier: tuple[Path, ...] = ()

    @cached_property
    def fits(self) -> tuple[StoredRun, ...]:
        """All of them, this one last, as it would be used from now on."""
        return tuple(StoredRun(folder, like=self) for folder in (*self.earlier, self.folder))

    @property
    def refits(self) -> pd.DatetimeIndex:
        return self.panel.index[[run.first for run in self.fits]]

    @cached_property
    def first(self) -> int:
        return self.fits[0].first

    @cached_property
    def policy(self) -> Policy:
        sizes = tuple(1.0 if run.sizing is None else run.sizing.scale or 0.0 for run in self.fits)
        return RefittedPolicy(tuple(run.policy for run in self.fits), self.refits, sizes)

    def judge(
        self,
        draws: int = 1000,
        trader: Path | None = None,
        *,
        is_fast: bool = False,
        tell: Callable[[str], object] | None = None,
    ) -> Judgement:
        """The judgement of the whole account, with what its last fit, the one that is served, did by itself."""
        judgement = super().judge(draws, trader, is_fast=is_fast, tell=tell)
        return replace(judgement, served=metrics(self.fits[-1].play()))

    @cached_property
    def sizing(self) -> RiskOptions | None:
        """The stated risk; each fit brings the scale of its own views."""
        risk = applied_risk(self.policy, self.risk)
        return None if risk is None else replace(risk, scale=1.0)


def _per_bar(judgement: Judgement) -> float:
    return float(judgement.verdict.edge.value / judgement.result.bars_per_year**0.5)


def _monte_carlo(run: StoredRun) -> Iterator[Scenario]:
    return monte_carlo_scenarios(run.panel, market=run.task.market, seed=run.config.seed)


def _adversarial(run: StoredRun) -> list[Scenario]:
    return adversarial_scenarios(run.panel, unstable_windows(run.panel, run.first), market=run.task.market)


def _universes(run: StoredRun) -> list[Scenario]:
    return universe_scenarios(run.panel, run.first, market=run.task.market)


MARKETS: dict[str, Callable[[StoredRun], Iterable[Scenario]]] = {
    "montecarlo": _monte_carlo,
    "adversarial": _adversarial,
    "universes": _universes,
}


def fitted_risk(run: Path) -> RiskOptions | None:
    """The stated risk of a run of several members, whose scale training does not store; None of any other run."""
    risk = stored_risk(run, stored_plan(run))
    if not risk.is_on or risk.scale is not None or risk.views_volatility is None:
        return None
    return StoredRun(run).sizing
