"""The stage of the pipeline that judges what was trained: on the test years, beside baselines, with explanations."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from pacesetter.build import Plan, build_fold, stored_plan
from pacesetter.build.trading import FleetTrading
from pacesetter.errors import DataError
from pacesetter.evaluation.baselines.forecasting import forget_fits
from pacesetter.evaluation.judgement import Judgement
from pacesetter.evaluation.report.judgement_page import BRIEF, VERDICT, judgement_sections, store_judgement
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.statistics.metrics import max_drawdown, sharpe, total_return
from pacesetter.jobs.pipeline.master_stage import judged_run, master_config, needs_no_master
from pacesetter.jobs.pipeline.memory import release_memory
from pacesetter.jobs.pipeline.stages import Job, StageResult, only_run, train_quietly
from pacesetter.words import count_noun

__all__ = ["judge_agents", "walk_section"]

LEAST_SHARE = 0.4  # of the bars before the test set, that the first fit of a walk-forward account is left


def judge_agents(job: Job, folder: Path) -> StageResult:
    """The fleet or its master in one account, from the first bar that none of them saw."""
    from pacesetter.evaluation.backtest.reading import share_readings

    agents = judged_run(job)
    earlier = _earlier_fits(job, agents, folder)
    with share_readings():  # from here on nothing is trained
        return _judge(job, agents, earlier, folder)


def _judge(job: Job, agents: Path, earlier: tuple[Path, ...], folder: Path) -> StageResult:
    from pacesetter.evaluation.explain.findings import insight_sections
    from pacesetter.evaluation.report.risk_page import RISK, risk_section, views_sentence
    from pacesetter.evaluation.stored_run import StoredRun, WalkForwardRun

    walk = WalkForwardRun(agents, earlier=earlier)
    run = walk if earlier else StoredRun(agents)
    is_fast = job.plan.job.fast
    judgement = run.judge(job.plan.job.draws, is_fast=is_fast, tell=job.tell)
    store_judgement(judgement, folder, {"config hash": job.run.manifest["config_hash"]})
    line = judgement.verdict.headline
    forget_fits()  # the verdict is done: no regression is played again
    release_memory()  # explanations read whole markets again
    insights = [] if is_fast else insight_sections(walk.fits[-1], judgement)
    shown: dict[str, tuple[str, ...]] = {VERDICT: BRIEF}
    sized = []
    if run.sizing is not None:
        sized, shown = [risk_section(run, judgement.result)], shown | {RISK: ()}
        line = f"{line}; {views_sentence(judgement.result, run.sizing)}"
    walked = [walk_section(judgement)] if earlier else []
    return StageResult(line, (*judgement_sections(judgement), *walked, *sized, *insights), shown)


def _earlier_fits(job: Job, agents: Path, folder: Path) -> tuple[Path, ...]:
    """Runs of the same configuration, each trained until as many bars before the next one as the test set has.

    None where too few of the bars that were learned from would be left.
    """
    fleet = only_run(job.folder("agents"))
    config, panel = stored_plan(fleet), job.panel
    first = int(build_fold(config, panel).test[0])
    starts = [first - fold * (len(panel) - first) for fold in range(job.plan.job.folds - 1, 0, -1)]
    starts = [start for start in starts if start >= LEAST_SHARE * first]
    if starts and not config.problem.allocates:
        # A direct policy learns in seconds; a fleet is why a job takes long.
        job.tell(
            f"{count_noun(len(starts), 'refit')}, each about as long as the stages that trained; job.folds=1 judges a "
            "single test instead"
        )
    folders: list[Path] = []
    for place, start in enumerate(starts, start=1):
        learned, chosen = (share * start / first for share in config.train.shares)
        own = replace(config, runs=str(folder / "fits"), train=replace(config.train, shares=(learned, chosen)))
        job.tell(f"refit {place} of {len(starts)}: trained on the bars before {panel.index[start]:%Y-%m-%d}")
        try:
            folders.append(_refit(job, own, folder / "fits"))
        except DataError as problem:
            job.tell(f"refit {place} is left out: {problem}")
    return tuple(_of_same_orders(folders, agents))


def _refit(job: Job, config: Plan, folder: Path) -> Path:
    """The fleet's run or that of a master over it, whichever did better on its own validation years.

    The choice between the last two was made on years that are test years here.
    """
    fleet = train_quietly(config)
    if needs_no_master(job):
        return fleet
    from pacesetter.methods.master.page import better_run

    return better_run(fleet, train_quietly(master_config(job.plan, folder, fleet)))


def _of_same_orders(folders: list[Path], last: Path) -> list[Path]:
    """Those before the last run that give orders of its kind: an account does not change from orders to targets."""
    kinds = [_gives_targets(folder) for folder in (*folders, last)]
    odd = [place for place, kind in enumerate(kinds) if kind != kinds[-1]]
    return folders[max(odd) + 1 :] if odd else folders


def _gives_targets(run: Path) -> bool:
    task = stored_plan(run).task
    return not isinstance(task, FleetTrading) or task.trades == "targets"


def walk_section(judgement: Judgement) -> Section:
    """A row for each test of a walk-forward account, beside hold."""
    own, starts = judgement.result, judgement.refits
    assert starts is not None
    hold = judgement.results.get("hold")
    places = [*own.times.searchsorted(starts, side="right"), len(own)]
    rows = []
    for begin, end in pairwise(places):
        part = own.returns[begin:end]
        beside = math.nan if hold is None else float(total_return(hold.returns[begin:end]))
        figures = (total_return(part), sharpe(part, own.bars_per_year), max_drawdown(part))
        days = (f"{own.times[place]:%Y-%m-%d}" for place in (begin, end - 1))
        rows.append((*days, *map(number, map(float, figures), ("+.1%", "+.2f", ".1%")), number(beside, "+.1%")))
    header = ("test from", "to", "return", "Sharpe ratio", "drawdown", "hold")
    return Section("Walk-forward", judgement.walk, (), header, tuple(rows))
