"""The stage of the main job that judges what was trained: on the test years, beside baselines, with an explanation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pacesetter.evaluation.judgement_page import BRIEF, VERDICT, judgement_sections, store_judgement
from pacesetter.evaluation.report import Section
from pacesetter.training.job import Found, Job, only_run

if TYPE_CHECKING:
    from pacesetter.evaluation.evaluate import StoredRun

__all__ = ["judge_agents"]

EXPLAINED_BARS = 120  # latest ones that the explanation looks at


def judge_agents(job: Job, folder: Path) -> Found:
    """The trading agents in one account, from the first bar that none of them saw."""
    from pacesetter.evaluation.evaluate import StoredRun

    run = StoredRun(only_run(job.folder("agents")))
    found = run.judge(job.config.job.draws)
    store_judgement(found, folder, {"config hash": job.run.manifest["config_hash"]})
    moved_most = str(found.contribution.table.index[0])
    sections = (*judgement_sections(found), *_explanations(run, moved_most))
    passed = sum(gate.passed for gate in found.gates)
    claim = "evidence" if found.verdict.is_evidence else "no evidence"
    line = f"{claim} that the agents beat cash and every baseline; {passed} of {len(found.gates)} gates passed"
    return Found(line, sections, {VERDICT: BRIEF})


def _explanations(run: StoredRun, symbol: str) -> list[Section]:
    """What the agent of one symbol looked at and did in the latest bars."""
    from pacesetter.evaluation.explanation import explain_agent
    from pacesetter.evaluation.policies import AgentPolicy

    assert isinstance(run.policy, AgentPolicy)
    first = max(run.first, len(run.panel) - EXPLAINED_BARS)
    found = explain_agent(
        run.policy,
        run.panel,
        first=first,
        symbol=symbol,
        market=run.task.market,
        bank=run.bank(run.panel),
        window_bars=run.task.window_bars,
    )
    return [replace(finding.section(), title=f"{finding.title} ({symbol})") for finding in found]
