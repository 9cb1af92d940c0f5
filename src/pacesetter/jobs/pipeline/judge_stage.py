"""The stage of the pipeline that judges what was trained: on the test years, beside baselines, with explanations."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from pacesetter.build import Plan, build_fold, stored_plan
from pacesetter.errors import DataError
from pacesetter.evaluation.judgement import Judgement
from pacesetter.evaluation.report.judgement_page import BRIEF, VERDICT, judgement_sections, store_judgement
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.statistics.metrics import max_drawdown, sharpe, total_return
from pacesetter.jobs.pipeline.master_stage import judged_run
from pacesetter.jobs.pipeline.stages import Job, StageResult, train_quietly
from pacesetter.panel import Panel

__all__ = ["judge_agents", "walk_section"]

LEAST_SHARE = 0.4  # of the bars before the test set, that the first fit of a walk-forward account is left


def judge_agents(job: Job, folder: Path) -> StageResult:
    """The fleet or its master in one account, from the first bar that none of them saw."""
    from pacesetter.evaluation.explain.findings import insight_sections
    from pacesetter.evaluation.report.risk_page import RISK, risk_section, views_sentence
    from pacesetter.evaluation.stored_run import StoredRun, WalkForwardRun

    agents = judged_run(job)
    earlier = _earlier_fits(job, agents, folder)
    walk = WalkForwardRun(agents, earlier=earlier)
    run = walk if earlier else StoredRun(agents)
    is_fast = job.config.job.fast
    judgement = run.judge(job.config.job.draws, is_fast=is_fast, tell=job.tell)
    store_judgement(judgement, folder, {"config hash": job.run.manifest["config_hash"]})
    passed = sum(gate.passed for gate in judgement.gates)
    line = f"{judgement.verdict.headline}; {passed} of {len(judgement.gates)} gates passed"
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

    None for a fleet, whose refits take as long as its training, and where too few of the bars that were learned from
    would be left.
    """
    config, panel = stored_plan(agents), job.panel
    if not config.problem.allocates:
        return ()
    first = int(build_fold(config, panel).test[0])
    starts = [first - fold * (len(panel) - first) for fold in range(job.config.job.folds - 1, 0, -1)]
    folders: list[Path] = []
    for start in starts:
        learned, chosen = (share * start / first for share in config.train.shares)
        if start < LEAST_SHARE * first or not _has_room(config, panel, int(learned * len(panel))):
            continue
        job.tell(f"refit {len(folders) + 1}: trained on the bars before {panel.index[start]:%Y-%m-%d}")
        own = replace(config, runs=str(folder / "fits"), train=replace(config.train, shares=(learned, chosen)))
        folders.append(train_quietly(own))
    return tuple(folders)


def _has_room(config: Plan, panel: Panel, bars: int) -> bool:
    try:
        config.problem.check_bars(config, panel, bars)
    except DataError:
        return False
    return True


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
