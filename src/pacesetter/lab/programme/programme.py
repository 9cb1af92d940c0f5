"""The programme: its phases as stages, a status page that follows them, a report of each, and the way back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from pacesetter.build import Plan
from pacesetter.errors import ConfigError, RunError, did_you_mean
from pacesetter.evaluation.programme.decision import MADE_UP, NO_GO
from pacesetter.evaluation.programme.status import (
    DONE,
    FAILED,
    ROLLED_BACK,
    RUNNING,
    STOPPED,
    WAITING,
    PhaseStatus,
    ProgrammeStatus,
    latest_status,
    read_status,
    write_status,
)
from pacesetter.evaluation.report.judgement_page import write_pages
from pacesetter.jobs.pipeline.main_job import load_panel, run_job
from pacesetter.jobs.pipeline.stages import CACHE, Job, Stage, StageResult, StageWatch
from pacesetter.lab.programme.deliverables import REPORTS
from pacesetter.lab.programme.phases import (
    check_data,
    check_phases,
    check_tuning,
    phase_decision,
    run_baselines,
    run_fleet,
    run_master,
    run_prototype,
    run_tuning,
    run_validation,
    without_tuning,
)
from pacesetter.runs import write_atomic

__all__ = ["PHASES", "ProgrammeResult", "roll_back", "run_programme"]

PHASES = ("data", "baselines", "prototype", "tuning", "fleet", "master", "validation", "bundle")
TRADED = ("data", "features", "task", "agent", "risk", "train", "job", "programme")
JUDGED = (*TRADED, "evaluation")
Bundle = Callable[[Job, Path], StageResult]


class ProgrammeResult:
    """A programme that ended: its job, where it stands, and whether a gate stopped it."""

    def __init__(self, job: Job, status: ProgrammeStatus) -> None:
        self.job, self.status = job, status

    @property
    def is_stopped(self) -> bool:
        """Whether a NO-GO ended it."""
        return any(phase.state == STOPPED for phase in self.status.phases)


def phase_stages(bundle: Bundle) -> dict[str, Stage]:
    """The phases as stages of the pipeline; `bundle` makes the last, which needs what serves."""
    return {
        stage.name: stage
        for stage in (
            Stage("load", load_panel, is_kept=False),
            Stage("data", check_data, ("load",), ("data",)),
            Stage("baselines", run_baselines, ("load", "data"), TRADED),
            Stage("prototype", run_prototype, ("load", "baselines"), JUDGED, check=check_phases),
            Stage("tuning", run_tuning, ("load", "prototype"), TRADED, check=check_tuning, skipped=without_tuning),
            Stage("fleet", run_fleet, ("load", "prototype", "tuning"), JUDGED),
            Stage("master", run_master, ("load", "fleet"), JUDGED),
            Stage("validation", run_validation, ("load", "fleet", "master"), JUDGED),
            Stage("bundle", bundle, ("load", "validation"), ("job",), is_kept=False),
        )
    }


def run_programme(
    config: Plan,
    bundle: Bundle,
    console: Console | None = None,
    *,
    until: str = PHASES[-1],
    despite_no_go: bool = False,
) -> ProgrammeResult:
    """Go through the phases up to `until`; what an earlier programme left for the same inputs is kept.

    A NO-GO ends it after that phase, unless `despite_no_go`. Refuses an unknown phase.
    """
    if until not in PHASES:
        raise ConfigError(f"phase={until} is unknown{did_you_mean(until, PHASES)}")
    watch = _Board(despite_no_go)
    try:
        job = run_job(config, console, stages=until, table=phase_stages(bundle), watch=watch)
    # Ctrl-C too: the status page must not say "running" of a programme that is not.
    except BaseException as problem:
        watch.fail_phase(problem)
        raise
    assert watch.status is not None
    return ProgrammeResult(job, watch.status)


def roll_back(runs: Path, folder: Path | None = None) -> tuple[Path, ProgrammeStatus, list[str]]:
    """Go back to the last good state of a programme, the latest where none is named.

    That is before the first phase that failed or was stopped; where all are good, before the last one that is done, so
    that a bundle that misbehaves goes first. Gives its folder, its status now, and the phases that were rolled back.
    What was kept of them is moved aside, not deleted, and the next programme makes them again. Refuses where nothing
    was done.
    """
    programme = folder or latest_status(runs)
    if programme is None:
        raise RunError(f"{runs} has no programme; start one with: pacesetter lab programme")
    status = read_status(programme)
    begun = [phase for phase in status.phases[status.last_good() + 1 :] if phase.state not in (WAITING, ROLLED_BACK)]
    begun = begun or [phase for phase in status.phases if phase.state == DONE][-1:]
    if not begun:
        raise RunError(f"{programme.name} has nothing to roll back: {status.sentence}")
    for phase in begun:
        _set_aside(runs, phase)
        status = status.with_phase(phase.name, state=ROLLED_BACK, decision="", line="", seconds=None)
    write_status(status, programme)
    return programme, status, [phase.name for phase in begun]


def _set_aside(runs: Path, phase: PhaseStatus) -> None:
    kept = runs / CACHE / phase.kept
    if phase.kept and kept.is_dir():
        aside = kept.with_name(f"rolled-back-{datetime.now(UTC):%Y%m%dT%H%M%S}-{phase.kept}")
        # Moved, not deleted: a roll-back can be looked into, and undone by hand.
        shutil.move(kept, aside)


class _Board(StageWatch):
    """Keeps the status page and the report of each phase while a programme runs."""

    def __init__(self, despite_no_go: bool) -> None:
        self.despite_no_go = despite_no_go
        self.status: ProgrammeStatus | None = None
        self._folder = Path()

    def begin_stage(self, job: Job, stage: Stage) -> None:
        if self.status is None:
            self._folder = job.run.folder
            self.status = ProgrammeStatus(
                job.run.folder.name,
                datetime.now(UTC).isoformat(timespec="seconds"),
                tuple(PhaseStatus(name) for name in PHASES),
                synthetic=job.plan.data.source in MADE_UP,
            )
        self._update(stage.name, state=RUNNING)

    def should_continue(self, job: Job, stage: Stage) -> bool:
        if stage.name not in PHASES:
            return True
        finding, decision = job.findings[stage.name], phase_decision(job.folder(stage.name))
        is_over = decision == NO_GO and not self.despite_no_go
        report = self._report(job, stage, decision)
        self._update(
            stage.name,
            state=STOPPED if is_over else DONE,
            decision=decision,
            line=finding.line,
            seconds=job.costs[stage.name]["seconds"],
            report=report,
            kept=job.folder(stage.name).name if stage.name in job.keys else "",
        )
        if is_over:
            job.console.print(
                f"The phase '{stage.name}' is a NO-GO; go on all the same with --despite-no-go", highlight=False
            )
        return not is_over

    def fail_phase(self, problem: BaseException) -> None:
        """The phase that was running failed, or was interrupted."""
        running = next((phase for phase in self.status.phases if phase.state == RUNNING), None) if self.status else None
        if running is not None:
            self._update(running.name, state=FAILED, line=str(problem) or type(problem).__name__)

    def _report(self, job: Job, stage: Stage, decision: str) -> str:
        """The completion report of a phase: what it came to, its tables, what it took, and on what bars."""
        finding, cost = job.findings[stage.name], job.costs[stage.name]
        facts = {
            "decision": decision or "no gates",
            "seconds": f"{cost['seconds']:g}",
            "peak memory": f"{cost['peak_mb']:g} MB",
            "data fingerprint": job.panel.fingerprint,
            "config hash": job.run.manifest["config_hash"],
            "seed": str(job.plan.seed),
        }
        notes = [*job.panel.notes, *(("The bars are SYNTHETIC.",) if self.status and self.status.synthetic else ())]
        page = job.run.path(f"{REPORTS}/{stage.name}.html")
        write_pages(page, f"Phase: {stage.name}", list(finding.sections), [finding.line, *notes], facts)
        stored = {"facts": facts, "sections": [section.to_json() for section in finding.sections]}
        write_atomic(page.with_suffix(".json"), json.dumps(stored))
        return page.relative_to(job.run.folder).as_posix()

    def _update(self, name: str, **changes: object) -> None:
        if self.status is not None:
            self.status = self.status.with_phase(name, **changes)
            write_status(self.status, self._folder)
