"""A lookback agent retrained on each fold and judged on bars it has not seen: walk-forward, and purged paths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from pacesetter.build import Plan, build_learner
from pacesetter.data.splits import Fold, combinatorial_purged, walk_forward
from pacesetter.envs.lookback.evaluation import LookbackEvaluation, evaluate_lookback
from pacesetter.errors import ConfigError, check_range
from pacesetter.evaluation.lookback.judgement import AGENT
from pacesetter.evaluation.report.page import Section
from pacesetter.leadlag.lookback.baselines import CrossValidatedLookback, WindowScores
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy
from pacesetter.learning.learner import Between
from pacesetter.panel import Panel

__all__ = ["lookback_paths", "lookback_walk_forward"]

LEARNED, VALIDATED, BEST = "constant by training", "cross-validated", "best constant in hindsight"
Tell = Callable[[str], object]


def lookback_walk_forward(
    config: Plan, panel: Panel, folds: int, *, expanding: bool, refit_every: int, tell: Tell | None = None
) -> tuple[Section, pd.DataFrame]:
    """The agent on `folds` tests in a row, which share the second half of the bars; refitted every so many."""
    check_range(1, folds=folds, refit_every=refit_every)
    train_bars, purge = len(panel) // 2, _purge(config)
    test_bars = -(-(len(panel) - train_bars - purge) // folds)
    splits = walk_forward(panel, train_bars, test_bars, expanding, purge)
    rows, agent = [], None
    for number, fold in enumerate(splits.folds):
        is_fitted = number % refit_every == 0
        agent = _fit_agent(config, panel, fold) if is_fitted or agent is None else agent
        evaluation = _play_block(agent, config, panel, fold, int(fold.test[0]), int(fold.test[-1]))
        rows.append({"from": panel.index[fold.test[0]], "to": panel.index[fold.test[-1]]} | _figures(evaluation))
        rows[-1] |= {"train_bars": len(fold.train), "fitted": is_fitted}
        _describe_fold(tell, number + 1, len(splits.folds), rows[-1])
    table = pd.DataFrame(rows).rename_axis("fold")
    return _walk_section(table), table


def lookback_paths(config: Plan, panel: Panel, folds: int, tell: Tell | None = None) -> tuple[Section, pd.DataFrame]:
    """Paths through all bars, two of `folds` blocks tested at a time.

    A decision is paid by the bars of its outcome, which are purged; behind a test as many bars are embargoed as a
    window reaches back, so that no agent learns from an observation of a test.
    """
    windows = config.lookback.windows
    reach, block = max(windows.longest, windows.seen[-1]), len(panel) // max(folds, 1)
    if reach + _purge(config) >= block - 1:
        raise ConfigError(
            f"folds={folds} leaves blocks of {block} bars, but windows reach back {reach} bars, which are embargoed "
            "after each test; use fewer folds, or shorter task.windows"
        )
    splits = combinatorial_purged(panel, folds, 2, _purge(config), reach)
    tested: dict[int, list[dict[str, object]]] = {}
    for number, fold in enumerate(splits.folds, start=1):
        agent = _fit_agent(config, panel, fold)
        for block_number in np.unique(np.minimum(fold.test // block, folds - 1)):
            bars = fold.test[np.minimum(fold.test // block, folds - 1) == block_number]
            evaluation = _play_block(agent, config, panel, fold, int(bars[0]), int(bars[-1]))
            tested.setdefault(int(block_number), []).append(_figures(evaluation))
        _describe_fold(tell, number, len(splits.folds), tested[int(block_number)][-1])
    paths = zip(*(tested[key] for key in sorted(tested)), strict=True)
    rows = [{name: float(np.mean([part[name] for part in path])) for name in path[0]} for path in paths]
    table = pd.DataFrame(rows).rename_axis("path")
    return _paths_section(table), table


def _purge(config: Plan) -> int:
    """Bars whose outcome a decision may still wait for."""
    # A decision is filled in the next bar, and its outcome takes `horizon_bars` from there.
    return max(int(config.lookback.view.horizon_bars) + 1, config.train.purge_bars)


def _fit_agent(config: Plan, panel: Panel, fold: Fold) -> LookbackPolicy:
    """An agent with fresh weights, trained on the fold's training bars and taken as it is at the end."""
    task = config.problem
    learner = build_learner(config, task.fold_parts(config, panel, fold))
    learner.learn(config.train.steps, Between())
    policy = task.learned_policy(learner, config, panel.index[fold.train[-1]])
    assert isinstance(policy, LookbackPolicy)
    return policy


def _play_block(
    agent: LookbackPolicy, config: Plan, panel: Panel, fold: Fold, first: int, last: int
) -> LookbackEvaluation:
    """The agent beside constants and cross-validation on a block of bars; the training bars choose a constant."""
    task = config.lookback
    scores = WindowScores(task.windows.grid, task.view.method, task.view.horizon_bars, dict(task.view.options))
    # The constant is chosen on training bars alone, like the agent.
    known = scores.table(panel)[fold.train]
    known = known[np.isfinite(known).all(axis=1)]
    learned = task.windows.grid[int(known.mean(axis=0).argmax())] if len(known) else task.windows.start
    policies: dict[str, LookbackPolicy] = {AGENT: agent, LEARNED: ConstantLookback(learned)}
    policies |= {VALIDATED: CrossValidatedLookback(scores)}
    policies |= {f"constant {bars}": ConstantLookback(bars) for bars in task.windows.grid}
    # Every candidate window must fit before the first decision, or constants would be scored on different bars.
    start = max(first, task.windows.longest, task.windows.seen[-1])
    return evaluate_lookback(policies, panel, task, start=start, stop=last, block_bars=50)


def _figures(evaluation: LookbackEvaluation) -> dict[str, object]:
    means = dict(zip(evaluation.names, evaluation.rewards.mean(axis=0).tolist(), strict=True))
    best = max(value for name, value in means.items() if name.startswith("constant "))
    chosen = {name: means[name] for name in (AGENT, LEARNED, VALIDATED)}
    switches = float((np.diff(evaluation.lookbacks[:, 0]) != 0).mean()) if len(evaluation.bars) > 1 else 0.0
    return chosen | {BEST: best, "switches": switches}


def _describe_fold(tell: Tell | None, number: int, folds: int, row: dict[str, object]) -> None:
    if tell is not None:
        tell(f"fold {number} of {folds}: reward {row[AGENT]:+.4f}, {LEARNED} {row[LEARNED]:+.4f}")


def _walk_section(table: pd.DataFrame) -> Section:
    names = (AGENT, LEARNED, VALIDATED, BEST)
    rows = tuple(
        (
            f"{row['from']:%Y-%m-%d}",
            f"{row['to']:%Y-%m-%d}",
            row["train_bars"],
            "yes" if row["fitted"] else "kept",
            *(f"{row[name]:+.4f}" for name in names),
            f"{row['switches']:.1%}",
        )
        for _, row in table.iterrows()
    )
    header = ("test from", "to", "trained on", "trained", *names, "switches")
    text = f"Retrained before each test and never chosen by one; {_compare_means(table)}."
    return Section("Walk-forward", text, (), header, rows)


def _paths_section(table: pd.DataFrame) -> Section:
    names = (AGENT, LEARNED, VALIDATED, BEST)
    rows = tuple(
        (f"path {place}", *(f"{row[name]:+.4f}" for name in names), f"{row['switches']:.1%}")
        for place, row in table.iterrows()
    )
    text = f"{len(table)} paths through all bars, each tested out-of-sample; {_compare_means(table)}."
    return Section("Combinatorial paths", text, (), ("path", *names, "switches"), rows)


def _compare_means(table: pd.DataFrame) -> str:
    share = float((table[AGENT] > table[LEARNED]).mean())
    gap = table[AGENT] - table[LEARNED]
    return f"{gap.mean():+.4f} a bar more than the {LEARNED}, better in {share:.0%} of them"
