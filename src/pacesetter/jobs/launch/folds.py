"""A run's configuration retrained on each fold and tested on what it has not seen: walk-forward, purged paths."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pacesetter.build import (
    Plan,
    build_learner,
    build_supervised,
    build_table,
)
from pacesetter.build.members import members_of
from pacesetter.build.plan import parse_plan
from pacesetter.data.splits import Fold
from pacesetter.errors import ConfigError, check_range
from pacesetter.evaluation.backtest.walk_forward import (
    Each,
    Paths,
    Tell,
    WalkForward,
    combinatorial_paths,
    walk_forward,
)
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.report.page import Section, number
from pacesetter.jobs.hydra.overrides import parse_override
from pacesetter.learning.learner import StepRecord
from pacesetter.panel import Panel
from pacesetter.policies.ensemble import average_policies
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy

__all__ = [
    "BRIEF",
    "Refit",
    "change_config",
    "fold_report",
    "paths_section",
    "run_combinatorial",
    "run_walk_forward",
    "walk_forward_section",
]

BESIDE = "equal_weight"
HEADER = (
    "test from",
    "to",
    "trained on",
    "trained",
    "return",
    "Sharpe ratio",
    "drawdown",
    "round trips",
    "equal weight",
)
BRIEF = ("to", "trained", "round trips")  # columns left out on a console of 80 letters
SHOWN = {"total_return": "+.1%", "sharpe": "+.2f", "max_drawdown": ".1%", "round_trips": ".0f"}


def change_config(config: Plan, overrides: Sequence[str]) -> Plan:
    """The configuration with keys such as `train.steps=1000` set; refuses an unknown one."""
    # A deep copy in plain types, as `configure` reads them.
    plain = json.loads(json.dumps(config.to_dict()))
    for text in overrides:
        key, is_set, _ = text.partition("=")
        *path, name = key.split(".")
        node = plain
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        if not is_set or not isinstance(node, dict):
            raise ConfigError(f"'{text}' does not set a key of the run; give e.g. train.steps=1000")
        node[name] = parse_override(text).value()
    return parse_plan(plain)


class FoldReport(NamedTuple):
    """What refitting fold by fold came to: a name for its files, a section, and the whole table."""

    name: str
    section: Section
    table: pd.DataFrame


def fold_report(
    config: Plan,
    panel: Panel,
    folds: int,
    *,
    expanding: bool = True,
    refit_every: int = 1,
    is_combinatorial: bool = False,
    tell: Tell | None = None,
    each: Each = map,
) -> FoldReport:
    """Refit by the way that the task declares to be judged; refuses a task that folds cannot test.

    `each` runs the fits, e.g. `WorkerPool.run`.
    """
    config.problem.check("folds")
    reports = {"account": _account_report, "windows": _windows_report}
    report = reports[config.problem.judged_as]
    return report(config, panel, folds, expanding, refit_every, is_combinatorial, tell, each)


def _account_report(
    config: Plan,
    panel: Panel,
    folds: int,
    expanding: bool,
    refit_every: int,
    is_combinatorial: bool,
    tell: Tell | None,
    each: Each,
) -> FoldReport:
    if is_combinatorial:
        paths = run_combinatorial(config, panel, folds, tell=tell, each=each)
        return FoldReport("combinatorial", paths_section(paths), paths.table())
    walks = run_walk_forward(config, panel, folds, expanding=expanding, refit_every=refit_every, tell=tell, each=each)
    return FoldReport("walk_forward", walk_forward_section(*walks), walks[0].table())


def _windows_report(
    config: Plan,
    panel: Panel,
    folds: int,
    expanding: bool,
    refit_every: int,
    is_combinatorial: bool,
    tell: Tell | None,
    each: Each,
) -> FoldReport:
    from pacesetter.jobs.launch.lookback_folds import lookback_paths, lookback_walk_forward

    if each is not map:
        raise ConfigError("folds of task=lookback are refitted one after another; leave launcher=… out")
    if is_combinatorial:
        return FoldReport("combinatorial", *lookback_paths(config, panel, folds, tell))
    walked = lookback_walk_forward(config, panel, folds, expanding=expanding, refit_every=refit_every, tell=tell)
    return FoldReport("walk_forward", *walked)


def run_walk_forward(
    config: Plan,
    panel: Panel,
    folds: int,
    *,
    expanding: bool = True,
    refit_every: int = 1,
    tell: Tell | None = None,
    each: Each = map,
) -> tuple[WalkForward, WalkForward]:
    """The agent of `config` and equal weights on `folds` tests in a row, which share the second half of the bars."""
    check_range(1, folds=folds)
    train_bars, purge_bars = len(panel) // 2, config.train.purge_bars
    tested = len(panel) - train_bars - purge_bars
    # Rounded up, so that the folds cover all bars; the last one may be shorter.
    test_bars = -(-tested // folds)
    if test_bars < 2 or tested % test_bars == 1:  # refused before hours of training, not by the statistics after them
        raise ConfigError(f"folds={folds} leaves one bar per test of {tested}; use fewer folds")
    common = _market(config, panel) | {"train_bars": train_bars, "test_bars": test_bars, "purge_bars": purge_bars}
    beside = make_baseline(BESIDE, common["bank"], common["market"])
    options: dict[str, Any] = {"expanding": expanding, "refit_every": refit_every, "tell": tell, "each": each}
    own = walk_forward(Refit(config, panel), panel, risk=config.risk, **options, **common)
    return own, walk_forward(lambda train, fold: beside, panel, expanding=expanding, **common)


def run_combinatorial(config: Plan, panel: Panel, folds: int, *, tell: Tell | None = None, each: Each = map) -> Paths:
    """The paths of the agent of `config` through all bars, two of `folds` blocks tested at a time.

    A decision is paid by the next bar, so one bar on each side of a test is purged; episodes end with their training
    bars. Behind a test as many are embargoed as an observation reaches back, by its window and its features' memory,
    so that no agent learns from an observation of a test. Refuses blocks that are too short for it.
    """
    common, memory_bars = _market(config, panel), build_table(config, panel).memory_bars
    # A window of w bars whose oldest feature remembers m reaches w + m − 2 bars behind its newest.
    reach, block = common["window_bars"] + memory_bars - 2, len(panel) // max(folds, 1)
    if reach + 1 >= block - 1:
        raise ConfigError(
            f"folds={folds} leaves blocks of {block} bars, but observations reach back {reach} bars (a window of "
            f"{common['window_bars']} and features of {memory_bars}), which are embargoed after each test; use fewer "
            "folds, or features.names with less memory"
        )
    options: dict[str, Any] = {"purge_bars": 1, "embargo_bars": reach, "tell": tell, "each": each}
    return combinatorial_paths(Refit(config, panel), panel, folds=folds, risk=config.risk, **options, **common)


def _market(config: Plan, panel: Panel) -> dict[str, Any]:
    """Rules, features and window of every test; refuses a task that declares that folds cannot test it."""
    config.problem.check("folds")
    task = config.trading
    bank = market_bank(panel, build_table(config, panel), build_supervised(config, panel))
    return {"market": task.market, "bank": bank, "window_bars": task.window_bars}


@dataclass(frozen=True)
class Refit:
    """A `Fit` that trains for `train.steps` with fresh weights, and takes the agent as it is at the end.

    Features are those of the whole panel, which are causal; episodes stay within unbroken runs of training bars. It
    pickles, so that folds can be fitted in other processes.
    """

    config: Plan
    panel: Panel

    def __call__(self, train: tuple[Panel, ...], fold: Fold) -> Policy:
        seeds = range(self.config.seed, self.config.seed + members_of(self.config))
        policies = [self._fit_one(replace(self.config, seed=seed), fold) for seed in seeds]
        return policies[0] if len(policies) == 1 else average_policies(policies)

    def _fit_one(self, config: Plan, fold: Fold) -> Policy:
        task = config.problem
        learner = build_learner(config, task.fold_parts(config, self.panel, fold))
        # To the last step, without validation: choosing the best step on test bars would be in-sample.
        learner.learn(config.train.steps, _Silent())
        policy = task.learned_policy(learner, config, self.panel.index[fold.train[-1]])
        assert isinstance(policy, Policy)
        return policy


class _Silent:
    """A watcher that lets an agent learn to the end."""

    def step(self, record: StepRecord) -> None:
        pass

    def between_rounds(self) -> None:
        pass

    __call__ = between_rounds  # all that a fleet tells: its steps are many at a time


# ---- on paper -------------------------------------------------------------------------------------------------------


def walk_forward_section(own: WalkForward, beside: WalkForward) -> Section:
    """A row for each fold, and what they come to."""
    table, others = own.table(), beside.table()["total_return"]
    rows = tuple(
        (
            f"{row['from']:%Y-%m-%d}",
            f"{row['to']:%Y-%m-%d}",
            row["train_bars"],
            "yes" if row["fitted"] else "kept",
            *(number(row[name], form) for name, form in SHOWN.items()),
            number(other, "+.1%"),
        )
        for (_, row), other in zip(table.iterrows(), others, strict=True)
    )
    better = float(np.mean(table["total_return"] > others))
    text = (
        f"Retrained before each test and never chosen by one; a gain in {own.positive_share:.0%} of the tests, more "
        f"than {BESIDE.replace('_', ' ')} in {better:.0%}."
    )
    return Section("Walk-forward", text, (), HEADER, rows)


def paths_section(paths: Paths) -> Section:
    """A row for each path."""
    table = paths.table()
    rows = tuple(
        (f"path {place}", number(total, "+.1%"), number(ratio, "+.2f")) for place, total, ratio in table.itertuples()
    )
    text = (
        f"{len(table)} paths over {len(paths.times)} bars, each tested out-of-sample: Sharpe ratio "
        f"{table['sharpe'].mean():+.2f} on average, from {table['sharpe'].min():+.2f} to {table['sharpe'].max():+.2f}; "
        f"{float(np.mean(table['total_return'] > 0)):.0%} of the paths had a gain."
    )
    return Section("Combinatorial paths", text, (), ("path", "total return", "Sharpe ratio"), rows)
