"""The stage of the pipeline that learns how far back to look: an agent, and beside it fixed windows and heuristics."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pacesetter.build import Plan, build_fold, check_unseen, load_lookback, stored_plan
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.evaluation import LookbackEvaluation, evaluate_lookback
from pacesetter.errors import DataError
from pacesetter.evaluation.report import pictures
from pacesetter.evaluation.report.page import Section
from pacesetter.jobs.pipeline.stages import Job, StageResult, train_quietly
from pacesetter.leadlag.lookback.baselines import WindowScores, baseline_policies
from pacesetter.learning.methods import AgentOptions
from pacesetter.panel import Panel
from pacesetter.registry import configure

__all__ = [
    "AGENT",
    "check_bars",
    "check_windows",
    "learn_lookback",
    "longest_window",
    "lookback_config",
    "lookback_run",
    "missing_bars",
]

AGENT = "agent"
SHARPE, FOLLOW = "sharpe", "follow_through"  # of following the leaders, after costs
HINDSIGHT = "hindsight"  # knows the future: shown as the limit, never as a competitor
SHOWN = (AGENT, "volatility", "cross-validated")
TASK = {
    "view": {
        "options": {"variant": "difference"},
        "encoder": "signature_summary",
        "context": ["volatility_10"],
        "record_bars": [10, 20, 40, 80, 160],  # what was lately best says more than what was best over a year
        "state_bars": 1000,  # and where volatility tells the window, what was best in bars of such volatility
    },
    "reward": {"components": {"signal": 1.0, "switching": 0.05}},
}
LEARNER = {
    "algorithm": "full_information",
    "network": "mlp_tiny",
    "heads": [32],
    "n_steps": 32,
    "n_epochs": 8,  # segments are as good for one policy as for another, and few are drawn
    "learning_rate": 3e-4,  # it begins at a good rule, and the bars are few to learn better from
    "ent_coef": 0.002,
    "record_coef": 60.0,
}
ENVS = 32


def lookback_config(config: Plan, folder: Path) -> Plan:
    """The run of the lookback agent inside the pipeline, on the first half of the bars that traders learn from.

    What it chooses on bars that it learned from is not shown to anybody: traders see its windows from there on.
    """
    steps, (first, second) = config.job.lookback_steps, config.train.shares
    # Half of the traders' training bars: on the other half its choices are out-of-sample, as they will be later.
    learned = replace(config.train, shares=(first / 2, second / 2), steps=steps, envs=ENVS)
    return replace(
        config,
        name="lookback",
        runs=str(folder),
        task=configure(LookbackConfig, TASK, "task"),
        agent=AgentOptions.configure(LEARNER),
        # It begins at a good rule and moves little: two validations, each plays all validation bars.
        train=replace(learned, validate_every=max(steps // 2, 1), checkpoint_every=0),
        track=replace(config.track, progress=False, mlflow="off", tensorboard="off"),
    )


def longest_window(config: Plan) -> int:
    """The most bars that the lookback agent of a job could choose."""
    longest: int = lookback_config(config, Path()).lookback.windows.longest
    return longest


def learn_lookback(job: Job, folder: Path) -> StageResult:
    """Train an agent, and judge it on the test years beside other policies."""
    start = int(build_fold(job.plan, job.panel).test[0])
    run = lookback_run(job) or train_quietly(lookback_config(job.plan, folder))
    check_unseen("job.lookback: the agent of", run, job.panel.index[start - 1])
    evaluation = _judge_agent(run, job.panel, start, folder)
    return StageResult(_comparison_line(evaluation), (_section(job.panel, evaluation),), {"Lookback": ("switches",)})


def check_windows(config: Plan, folder: Path, panel: Panel) -> tuple[str, Section]:
    """The same with all training bars of the configuration: what is said of it, and its section."""
    own = lookback_config(config, folder)
    own = replace(own, train=replace(own.train, shares=config.train.shares))
    evaluation = _judge_agent(train_quietly(own), panel, int(build_fold(config, panel).test[0]), folder)
    return _comparison_line(evaluation), _section(panel, evaluation)


def _judge_agent(run: Path, panel: Panel, start: int, folder: Path) -> LookbackEvaluation:
    """A trained agent beside fixed windows and heuristics, from bar `start` on."""
    agent, task = load_lookback(run, panel), stored_plan(run).lookback
    # What a trader earns with the windows is judged, not learned from.
    reward = replace(task.reward, components={FOLLOW: 0.0} | task.reward.components)
    task = replace(task, reward=reward)
    scores = WindowScores(task.windows.grid, task.view.method, task.view.horizon_bars, dict(task.view.options))
    policies: dict[str, Any] = {AGENT: agent} | baseline_policies(scores)
    evaluation = evaluate_lookback(policies, panel, task, start=start)
    evaluation.table().to_csv(folder / "table.csv")
    return evaluation


def lookback_run(job: Job) -> Path | None:
    """The run of a lookback agent that the job was given; None where it trains one. Refuses a run of another task."""
    if job.plan.job.lookback is None:
        return None
    run = Path(job.plan.job.lookback)
    stored_plan(run).problem.check("lookback", run)
    return run


def check_bars(job: Job) -> None:
    """Refuse bars of which half of the training set has no room for a decision behind the longest window."""
    if why := missing_bars(job):
        raise DataError(f"{why}, or raise the first of train.shares")


def missing_bars(job: Job) -> str:
    """How many bars the lookback agent needs and has, where they are too few for it to be trained; else empty."""
    if lookback_run(job) is not None:
        return ""
    config, panel = lookback_config(job.plan, Path()), job.panel
    task, learned = config.lookback, int(build_fold(config, panel).train[-1]) + 1
    least = task.windows.longest + task.view.horizon_bars + 2
    if learned >= least:
        return ""
    return (
        f"the lookback agent is trained on half of the training set, {learned} of {len(panel)} bars, and needs "
        f"{least}; give {math.ceil(len(panel) * least / learned)} bars"
    )


def _best_fixed(evaluation: LookbackEvaluation) -> str:
    means = evaluation.rewards.mean(axis=0)
    fixed = [place for place, name in enumerate(evaluation.names) if name not in (AGENT, HINDSIGHT)]
    return evaluation.names[max(fixed, key=lambda place: means[place])]


def _comparison_line(evaluation: LookbackEvaluation) -> str:
    best = _best_fixed(evaluation)
    gap, error = evaluation.gap(AGENT, best)
    if np.isnan(error):
        return f"too few bars to distinguish the agent from '{best}', the best of the others"
    if not abs(gap) > 2 * error:
        return f"no evidence that the agent differs from '{best}', the best of the others"
    return f"the agent is {'better' if gap > 0 else 'worse'} than '{best}', the best of the others"


def _section(panel: Panel, evaluation: LookbackEvaluation) -> Section:
    best, (gap, error) = _best_fixed(evaluation), evaluation.gap(AGENT, _best_fixed(evaluation))
    days = panel.index[evaluation.bars]
    text = (
        f"Mean reward (how well the window's leaders predicted the next bar, less the cost of switching) over the "
        f"test years, {days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}, {_errors(error)}. The agent minus "
        f"'{best}', the best of the others in hindsight: {_pair(gap, error)}. "
        f"{_comparison_line(evaluation).capitalize()}. "
        f"{_trader_sentence(evaluation, best)}"
        "'hindsight' knows the future and is an upper bound that no policy can reach."
    )
    chosen = {name: evaluation.lookbacks[:, evaluation.names.index(name)] for name in SHOWN}
    figure = pictures.lookbacks(days, chosen)
    return Section("Lookback", text, (figure,), *_table(evaluation))


def _trader_sentence(evaluation: LookbackEvaluation, best: str) -> str:
    """What a trader earns with the windows; empty where the reward of a run has no `follow_through`."""
    table = evaluation.table()
    if SHARPE not in table:
        return ""
    own, other = (float(table[SHARPE].loc[name]) for name in (AGENT, best))
    return (
        "A trader who follows each window's leaders, after costs, has an annualised Sharpe ratio of "
        f"{own:+.2f} by the agent's windows and {other:+.2f} by '{best}'. "
    )


def _errors(error: float) -> str:
    """What stands beside a mean reward."""
    return "± one standard error of block means" if np.isfinite(error) else "too few for a standard error"


def _table(evaluation: LookbackEvaluation) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Policies by reward, the best first."""
    table = evaluation.table().sort_values("reward", ascending=False)
    rows = tuple(
        (
            str(name),
            _pair(row["reward"], row["reward_se"]),
            f"{row[SHARPE]:+.2f}" if SHARPE in row else "–",
            f"{row['mean_lookback']:.0f}",
            f"{row['switches']:.0%}",
        )
        for name, row in table.iterrows()
    )
    return ("policy", "reward", "a trader's Sharpe", "mean window (bars)", "switches"), rows


def _pair(value: float, error: float) -> str:
    return f"{value:+.4f}" + (f" ± {error:.4f}" if np.isfinite(error) else "")
