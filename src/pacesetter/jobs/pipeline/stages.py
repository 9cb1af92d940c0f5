"""A job of stages: each works once for the same inputs, and what it made is kept under a hash of all it depends on."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from pacesetter.build.study import StudyPlan
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.report.page import Section
from pacesetter.jobs.pipeline.memory import peak_mb, release_memory, reset_peak
from pacesetter.jobs.run.interrupts import exit_on_sigterm
from pacesetter.late import load
from pacesetter.market.jit import source_digest
from pacesetter.panel import Panel
from pacesetter.runs import Run, sha256, write_atomic

if TYPE_CHECKING:
    from pacesetter.build import Plan

__all__ = [
    "Job",
    "Stage",
    "StageResult",
    "StageWatch",
    "check_stages",
    "chosen_stages",
    "only_run",
    "run_stage",
    "train_quietly",
]

SOURCE = Path(__file__).parents[2]  # the package
CACHE = "cache"  # below the folder of the runs
RECORD = "found.json"


@dataclass(frozen=True)
class StageResult:
    """What a stage came to.

    line      what is said of it while the job goes on
    sections  its part of the report
    shown     sections whose text and table are printed at the end -> columns left out there
    """

    line: str
    sections: tuple[Section, ...] = ()
    shown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class Job:
    """Configuration, run folder, and what the stages so far have made."""

    config: StudyPlan
    run: Run
    console: Console = field(default_factory=Console)
    panel: Panel = field(init=False)
    findings: dict[str, StageResult] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    costs: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The whole plan, of a job that trains."""
        from pacesetter.build.plan import Plan

        assert isinstance(self.config, Plan)
        return self.config

    def tell(self, line: str) -> None:
        """Print how far a stage is, one line at a time."""
        self.console.print(f"      {line}", style="dim", soft_wrap=True, highlight=False, markup=False)

    def folder(self, stage: str) -> Path:
        """Where the artefacts of a stage are kept; what the run folder has of them is a copy."""
        if stage not in self.keys:
            return self.run.folder / stage
        # Shared by all jobs below one folder of runs: the key says what it is of.
        return Path(self.config.runs) / CACHE / f"{stage}-{self.keys[stage][:16]}"


@dataclass(frozen=True)
class Stage:
    """One step of a job.

    work     writes its artefacts into the folder that it is given; this and those below may be "module:function",
             imported when the stage is one of the job's
    needs    stages whose artefacts it reads
    reads    keys of the configuration that it depends on
    is_kept  whether it need not work again for the same bars, configuration, code and earlier stages
    check    refuses bars that it cannot work on, asked as soon as they are loaded
    skipped  why the job has no need of it, as a sentence; empty where it has
    """

    name: str
    work: Callable[[Job, Path], StageResult] | str
    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    is_kept: bool = True
    check: Callable[[Job], None] | str | None = None
    skipped: Callable[[Job], str] | str | None = None

    def why_skipped(self, job: Job) -> str:
        """Why the job has no need of it; empty where it has."""
        return str(load(self.skipped)(job)) if self.skipped else ""

    def make(self, job: Job, folder: Path) -> StageResult:
        """Do the work."""
        result: StageResult = load(self.work)(job, folder)
        return result


class StageWatch:
    """Hears of a job's stages; this one does nothing."""

    def begin_stage(self, job: Job, stage: Stage) -> None:
        """A stage begins."""

    def should_continue(self, job: Job, stage: Stage) -> bool:
        """Whether the job goes on after a stage is done."""
        return True


def only_run(folder: Path) -> Path:
    """The run folder that a stage left in its own."""
    return next(path.parent for path in sorted(folder.glob("*/manifest.json")))


def train_quietly(config: Plan) -> Path:
    """The run folder of a training that a stage makes without a word; where SIGTERM cuts it short, the job ends."""
    from pacesetter.jobs.run.train import train  # here: a study trains nothing

    result = train(config, console=Console(quiet=True))
    if result.stopped == "signal":
        exit_on_sigterm()
    release_memory()
    return result.run.folder


def chosen_stages(stages: Mapping[str, Stage], wanted: str) -> list[Stage]:
    """The stage `wanted` and all that it needs, in order; refuses an unknown name."""
    if wanted not in stages:
        raise ConfigError(f"stage={wanted} is not a stage of the pipeline{did_you_mean(wanted, stages)}")
    # Stages are declared in order, so that one pass from the last to the first finds all that is needed.
    needed = {wanted}
    for stage in reversed(list(stages.values())):
        if stage.name in needed:
            needed |= set(stage.needs)
    return [stage for stage in stages.values() if stage.name in needed]


def check_stages(job: Job, stages: Iterable[Stage]) -> None:
    """Refuse bars that one of the stages cannot work on, before the first of them spends any time."""
    for stage in stages:
        if stage.check and not stage.why_skipped(job):
            load(stage.check)(job)


def run_stage(job: Job, stage: Stage, label: str) -> None:
    """Take what is kept from an earlier job, or work; say in one line what was found, and how long it took.

    `job.costs` has the seconds, the processor's seconds and the peak of memory of each stage.
    """
    start, used = time.perf_counter(), time.process_time()
    release_memory()
    reset_peak()
    if why := stage.why_skipped(job):
        finding, spent = StageResult(why), "skipped"
    else:
        with job.console.status(label), _record_failure(job.run, stage.name):
            finding, is_old = _load_or_run(job, stage)
        spent = "  kept" if is_old else f"{time.perf_counter() - start:6.1f} s"
    job.findings[stage.name] = finding
    job.costs[stage.name] = {
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(time.process_time() - used, 1),  # of all threads; says more on a busy machine
        "peak_mb": round(peak_mb()),
    }
    job.console.print(f"  {label:<14}{spent:>8}  {finding.line}", soft_wrap=True, highlight=False)


def _load_or_run(job: Job, stage: Stage) -> tuple[StageResult, bool]:
    if not stage.is_kept:
        return stage.make(job, job.folder(stage.name)), False
    job.keys[stage.name] = _key(job, stage)
    kept = job.folder(stage.name)
    finding = _read(kept)
    is_old = finding is not None
    if finding is None:
        finding = _make(job, stage, kept)
    shutil.copytree(kept, job.run.folder / stage.name, ignore=shutil.ignore_patterns(RECORD))
    return finding, is_old


def _key(job: Job, stage: Stage) -> str:
    """SHA-256 over code, bars, the configuration that the stage reads, and the keys of the stages it needs."""
    config = job.config.to_dict()
    parts = {
        "stage": stage.name,
        # Any change of the package: what a stage computes may depend on any line of it.
        "code": _code_digest(),
        "bars": job.panel.fingerprint,
        "config": {name: config[name] for name in ("seed", *stage.reads)},
        "needs": {name: job.keys[name] for name in stage.needs if name in job.keys},
    }
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


@cache
def _code_digest() -> int:
    """A number that changes with any line of the package."""
    return source_digest(*sorted(SOURCE.rglob("*.py")))


def _make(job: Job, stage: Stage, kept: Path) -> StageResult:
    """Work beside the final place and move there at the end, so that a job that died leaves nothing half done."""
    # On the same disk as its final place, so that the rename is atomic; hidden, so that no command lists it.
    fresh = kept.with_name(f".{job.run.folder.name}-{stage.name}")
    fresh.mkdir(parents=True)
    try:
        finding = stage.make(job, fresh)
        files = {
            path.relative_to(fresh).as_posix(): sha256(path) for path in sorted(fresh.rglob("*")) if path.is_file()
        }
        write_atomic(fresh / RECORD, json.dumps({"files": files, "found": _to_plain(finding)}))
        # A damaged one may be there, which `_read` refused.
        shutil.rmtree(kept, ignore_errors=True)
        fresh.rename(kept)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return finding


def _read(kept: Path) -> StageResult | None:
    """What is kept there; None where there is nothing, or where a file is not as it was written."""
    try:
        record = json.loads((kept / RECORD).read_text(encoding="utf-8"))
        if any(sha256(kept / name) != digest for name, digest in record["files"].items()):
            return None
    except (OSError, ValueError, KeyError):
        return None
    stored = record["found"]
    sections = tuple(Section.from_json(each) for each in stored["sections"])
    return StageResult(stored["line"], sections, {name: tuple(hidden) for name, hidden in stored["shown"].items()})


def _to_plain(finding: StageResult) -> dict[str, object]:
    return asdict(StageResult(finding.line, (), finding.shown)) | {
        "sections": [each.to_json() for each in finding.sections]
    }


@contextmanager
def _record_failure(run: Run, stage: str) -> Iterator[None]:
    """What stops a stage is written into the run's manifest before it is raised."""
    try:
        yield
    except Exception as problem:
        run.write_json("manifest.json", run.manifest | {"failed": {"stage": stage, "why": str(problem)}})
        raise
