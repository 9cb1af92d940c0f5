"""The stage of the main job that judges what was trained: on the test years, beside baselines, with explanations."""

from __future__ import annotations

from pathlib import Path

from pacesetter.evaluation.report.judgement_page import BRIEF, VERDICT, judgement_sections, store_judgement
from pacesetter.jobs.pipeline.master_stage import judged_run
from pacesetter.jobs.pipeline.stages import Job, StageResult

__all__ = ["judge_agents"]


def judge_agents(job: Job, folder: Path) -> StageResult:
    """The fleet or its master in one account, from the first bar that none of them saw."""
    from pacesetter.evaluation.explain.findings import insight_sections
    from pacesetter.evaluation.report.risk_page import RISK, risk_section, views_sentence
    from pacesetter.evaluation.stored_run import StoredRun

    run = StoredRun(judged_run(job))
    is_fast = job.config.job.fast
    judgement = run.judge(job.config.job.draws, is_fast=is_fast, tell=job.tell)
    store_judgement(judgement, folder, {"config hash": job.run.manifest["config_hash"]})
    passed = sum(gate.passed for gate in judgement.gates)
    line = f"{judgement.verdict.headline}; {passed} of {len(judgement.gates)} gates passed"
    insights = [] if is_fast else insight_sections(run, judgement)
    shown: dict[str, tuple[str, ...]] = {VERDICT: BRIEF}
    sized = []
    if run.sizing is not None:
        sized, shown = [risk_section(run, judgement.result)], shown | {RISK: ()}
        line = f"{line}; {views_sentence(judgement.result, run.sizing)}"
    return StageResult(line, (*judgement_sections(judgement), *sized, *insights), shown)
