"""The pipeline: its stages, and what is printed at the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from rich.console import Console

from pacesetter.build.study import StudyPlan, build_panel, share_panel
from pacesetter.errors import PacesetterError, check_installed
from pacesetter.evaluation.report.leadlag_page import leadlag_rows, leadlag_sections, store_leadlag
from pacesetter.evaluation.report.page import page_header, write_report
from pacesetter.jobs.hydra.label import label_of
from pacesetter.jobs.pipeline.memory import check_budget, within_budget
from pacesetter.jobs.pipeline.stages import Job, Stage, StageResult, StageWatch, check_stages, chosen_stages, run_stage
from pacesetter.jobs.run.interrupts import exit_on_sigterm, on_sigterm, print_when_stopped
from pacesetter.leadlag.study import Study
from pacesetter.runs import Run
from pacesetter.words import cell, count_noun

__all__ = ["PAGE", "STAGES", "run_job"]


def load_panel(job: Job, folder: Path) -> StageResult:
    job.panel = build_panel(job.config)
    check_budget(job.panel, job.config.job.memory_mb)
    job.panel.save(folder / "panel.parquet")
    return StageResult(repr(job.panel))


def _study(job: Job) -> Study:
    """The study that was asked for, with the window that a lookback agent chooses, where `lag.lookback` names one."""
    if job.config.lag.agent is None:
        return job.config.lag
    from pacesetter.build.stored import with_window  # here: its agent needs what a study does not

    return with_window(job.config.lag, job.panel)


def check_window(job: Job) -> None:
    """Refuse bars that hold no window of the study."""
    study = _study(job).at(job.panel)
    study.make_gauge().check(study.bars)


def find_leaders(job: Job, folder: Path) -> StageResult:
    study = _study(job).run(job.panel)
    store_leadlag(study, folder)
    rows = leadlag_rows(study)
    leaders, followers = (sum(row[2] == role for row in rows) for role in ("leader", "follower"))
    count, firm = study.network.number_of_edges(), study.firm_links()
    flagged = f" ({count - firm} flagged)" if firm < count else ""
    named = count_noun(leaders, "leader"), count_noun(followers, "follower"), count_noun(count, "significant link")
    line = f"{', '.join(named)}{flagged}"
    details = ", ".join(filter(None, (line, str(study.cache))))
    shown: dict[str, tuple[str, ...]] = {"Lead–lag": ("rank interval",), "Groups": (), "When it began and ended": ()}
    return StageResult(details, tuple(leadlag_sections(study)), shown)


def write_page(job: Job, folder: Path) -> StageResult:
    """The report, its parts in the order of what a reader wants to know first."""
    sections = [section for name in PAGE if name in job.findings for section in job.findings[name].sections]
    manifest = job.run.manifest
    facts = {
        "config hash": manifest["config_hash"],
        "data fingerprint": job.panel.fingerprint,
        "seed": str(job.config.seed),
        "commit": manifest["commit"] or "none",
        "versions": ", ".join(f"{name} {version}" for name, version in manifest["versions"].items()),
    }
    rules = job.plan.market if "judge" in job.findings else None
    header = page_header(job.config.data.name, job.panel.index, job.panel.symbols, job.config.seed, rules)
    write_report(job.run.path("report.html"), str(manifest["label"]), sections, job.panel.notes, facts, header)
    return StageResult(f"{len(sections)} sections")


HERE = "pacesetter.jobs.pipeline"
TRADED = ("data", "features", "task", "agent", "risk", "train", "job")
REPORTED = ("load", "check", "describe", "leadlag", "lookback", "agents", "master", "judge")
STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage("load", load_panel, is_kept=False),
        Stage("check", f"{HERE}.bars_stage:check_panel", ("load",), ("data",)),
        Stage("describe", f"{HERE}.bars_stage:describe", ("load",), ("features",)),
        Stage("leadlag", find_leaders, ("load",), ("lag",), check=check_window),
        Stage(
            "lookback",
            f"{HERE}.lookback_stage:learn_lookback",
            ("load",),
            ("data", "train", "job"),
            check=f"{HERE}.lookback_stage:check_bars",
            skipped=f"{HERE}.agents_stage:needs_no_lookback",
        ),
        Stage(
            "agents",
            f"{HERE}.agents_stage:train_fleet",
            ("load", "lookback"),
            TRADED,
            check=f"{HERE}.agents_stage:check_episodes",
        ),
        Stage(
            "master",
            f"{HERE}.master_stage:train_master",
            ("load", "lookback", "agents"),
            ("agent", "train", "job"),
            skipped=f"{HERE}.master_stage:needs_no_master",
        ),
        Stage(
            "judge", f"{HERE}.judge_stage:judge_agents", ("load", "lookback", "agents", "master"), ("job", "evaluation")
        ),
        Stage("report", write_page, REPORTED, is_kept=False),
    )
}
# stages with sections, in the order of the report
PAGE = ("judge", "leadlag", "lookback", "master", "agents", "describe", "check")


def run_job(
    config: StudyPlan,
    console: Console | None = None,
    stages: Sequence[str] | str = "report",
    table: Mapping[str, Stage] = STAGES,
    watch: StageWatch | None = None,
) -> Job:
    """Run the stages named, or one with all it needs, into a new run folder; print what was found and where it is.

    table   all stages there are        watch   hears of each stage, and may end the job after one
    """
    chosen = chosen_stages(table, stages) if isinstance(stages, str) else [table[name] for name in stages]
    watch = watch or StageWatch()
    trains = any(stage.name == "agents" for stage in chosen)
    if trains:
        check_installed("the pipeline", "run", "torch")
    label = _label(config, trains)
    job = Job(config, Run.create(config.runs, config.name, config.to_dict(), label), console or Console())
    job.console.print(f"[bold]pacesetter[/] {cell(label)} → {job.run.folder}", soft_wrap=True)
    if any(stage.name == "judge" for stage in chosen):
        from pacesetter.build.sentence import describe_plan
        from pacesetter.jobs.pipeline.agents_stage import traded_config  # here, and below: a study trades nothing

        plan = describe_plan(traded_config(job.plan), job.plan.job.folds)
        job.console.print(plan, soft_wrap=True, highlight=False, markup=False)
    stopped = print_when_stopped(
        job.run, job.console, lambda: f"run the same command to resume after {len(job.findings)} finished stages"
    )
    with stopped, on_sigterm(exit_on_sigterm), ExitStack() as loaded:
        for number, stage in enumerate(chosen, start=1):
            watch.begin_stage(job, stage)
            with _remove_if_refused(job.run) if stage.name == "load" else nullcontext():
                run_stage(job, stage, f"{number}/{len(chosen)} {stage.name}")
                if stage.name == "load":
                    # Only now is the size of the panel known, by which the budget is divided.
                    loaded.enter_context(within_budget(job.panel, config.job.memory_mb))
                    loaded.enter_context(share_panel(config.data, job.panel))
                    # As soon as bars are known: an hour of training before a later stage refuses them would be lost.
                    check_stages(job, chosen)
            if not watch.should_continue(job, stage):
                break
    facts = {"data_fingerprint": job.panel.fingerprint, "seed": config.seed, "stages": job.keys}
    job.run.finish(**facts, costs=job.costs)
    _show(job)
    _warn_of_memory(job)
    return job


@contextmanager
def _remove_if_refused(run: Run) -> Iterator[None]:
    """A job that is refused before it has worked leaves no folder behind, as a training does."""
    try:
        yield
    except PacesetterError:
        shutil.rmtree(run.folder, ignore_errors=True)
        raise


def _label(config: StudyPlan, trains: bool) -> str:
    if not trains:
        return label_of(config, has_agent=False)
    from pacesetter.build.plan import Plan
    from pacesetter.jobs.pipeline.agents_stage import RISK, traded_config

    assert isinstance(config, Plan)
    return label_of(traded_config(config), has_agent=True, standard=RISK)


def _warn_of_memory(job: Job) -> None:
    """Name the stage that took more memory than the budget, where one did."""
    most, budget = max(job.costs, key=lambda name: job.costs[name]["peak_mb"]), job.config.job.memory_mb
    peak = job.costs[most]["peak_mb"]
    if budget is not None and peak > budget:
        job.console.print(f"Note: stage {most} took {peak:,.0f} MB, above job.memory_mb={budget}", soft_wrap=True)


def _show(job: Job) -> None:
    """What a reader wants to know at once: tables and sentences, notes on the data, and where the report is."""
    for finding in job.findings.values():
        for section in finding.sections:
            if section.title in finding.shown:
                if section.headline:
                    job.console.print(f"[bold]{section.headline}[/]", highlight=False)
                if section.rows:
                    job.console.print(section.table.cut(finding.shown[section.title]))
                job.console.print(section.text, highlight=False, markup=False)
    for note in job.panel.notes:
        job.console.print(f"Note: {note}", soft_wrap=True, markup=False)
    if "report" in job.findings:
        job.console.print(f"Report: {job.run.folder / 'report.html'}", soft_wrap=True)
