"""The stage of the main job that judges what was trained: on the test years, beside baselines, with explanations."""

from __future__ import annotations

from pathlib import Path

from pacesetter.evaluation.judgement_page import BRIEF, VERDICT, judgement_sections, store_judgement
from pacesetter.training.job import Found, Job
from pacesetter.training.master_stage import judged_run

__all__ = ["judge_agents"]


def judge_agents(job: Job, folder: Path) -> Found:
    """The fleet or its master in one account, from the first bar that none of them saw."""
    from pacesetter.evaluation.evaluate import StoredRun
    from pacesetter.evaluation.insight import insight_sections

    run = StoredRun(judged_run(job))
    found = run.judge(job.config.job.draws)
    store_judgement(found, folder, {"config hash": job.run.manifest["config_hash"]})
    passed = sum(gate.passed for gate in found.gates)
    claim = "evidence" if found.verdict.is_evidence else "no evidence"
    line = (
        f"{claim} that the {run.policy.name} beats cash and every baseline; {passed} of {len(found.gates)} gates passed"
    )
    return Found(line, (*judgement_sections(found), *insight_sections(run, found)), {VERDICT: BRIEF})
