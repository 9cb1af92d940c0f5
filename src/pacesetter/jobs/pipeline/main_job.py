"""The pipeline: its stages, and what is printed at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from pacesetter.build import Plan, build_panel, build_readiness, build_study, build_table
from pacesetter.build.sentence import describe_plan
from pacesetter.build.trading import Trading
from pacesetter.errors import PacesetterError
from pacesetter.evaluation.report import pictures
from pacesetter.evaluation.report.account_page import page_header
from pacesetter.evaluation.report.leadlag_page import leadlag_rows, leadlag_sections, store_leadlag
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.features import REGIMES, FeatureTable, regime_labels
from pacesetter.jobs.hydra.label import label_of
from pacesetter.jobs.pipeline.memory import check_budget, within_budget
from pacesetter.jobs.pipeline.stages import Job, Stage, StageResult, StageWatch, check_stages, chosen_stages, run_stage
from pacesetter.jobs.run.interrupts import exit_on_sigterm, on_sigterm, print_when_stopped
from pacesetter.leadlag.strategy import COST_BPS
from pacesetter.panel import Panel
from pacesetter.runs import Run, data_name
from pacesetter.words import cell, count_noun

if TYPE_CHECKING:
    from pacesetter.arrays import Array

__all__ = ["PAGE", "STAGES", "run_job", "summary"]


def load_panel(job: Job, folder: Path) -> StageResult:
    job.panel = build_panel(job.config)
    check_budget(job.panel, job.config.job.memory_mb)
    job.panel.save(folder / "panel.parquet")
    return StageResult(repr(job.panel))


def check_panel(job: Job, folder: Path) -> StageResult:
    readiness = build_readiness(job.config)
    (folder / "readiness.json").write_text(
        json.dumps(readiness.to_json(), indent=2, default=str) + "\n", encoding="utf-8"
    )
    findings = readiness.findings
    rows = [(f.severity, f.rule, f.symbol or "all", f.when or "", f.count, f.what) for f in findings]
    section = Section(
        "Data quality",
        "Observed share of each symbol's bars, and every rule that was broken. Errors stop a load; warnings do not.",
        figures=(pictures.coverage(job.panel),),
        header=("severity", "rule", "symbol", "first at", "times", "what"),
        rows=tuple(rows),
    )
    return StageResult(count_noun(len(findings), "warning") if findings else "nothing to report", (section,))


def describe(job: Job, folder: Path) -> StageResult:
    panel, labels = job.panel, regime_labels(job.panel)
    table = build_table(job.config, panel)
    sections = (_bars_section(panel, labels), _features_section(table), _regimes_section(panel, labels))
    line = f"{len(table.names)} features" + (f", left out: {', '.join(table.left_out)}" if table.left_out else "")
    return StageResult(line, sections)


def _bars_section(panel: Panel, labels: Array) -> Section:
    text = f"{len(panel):,} bars of {len(panel.symbols)} symbols, {pictures.span_text(panel.index)}."
    return Section("Bars", text, (pictures.prices(panel),), *summary(panel, labels))


def _features_section(table: FeatureTable) -> Section:
    rows = [
        (name, f"{low:.3g}", f"{middle:.3g}", f"{high:.3g}", bars) for name, low, middle, high, bars in _spread(table)
    ]
    missing = ", ".join(table.left_out)
    return Section(
        "Features",
        "Raw values over all symbols and bars, warm-up excluded; only the network normalises them."
        + (f" Left out because the data lacks what they need: {missing}." if missing else ""),
        header=("feature", "5 %", "median", "95 %", "memory (bars)"),
        rows=tuple(rows),
    )


def _regimes_section(panel: Panel, labels: Array) -> Section:
    text = "Share of symbols in each regime, from closes up to each bar only."
    return Section("Regimes", text, figures=(pictures.regimes(panel, labels, REGIMES),))


def check_window(job: Job) -> None:
    """Refuse bars that hold no window of the study."""
    study = build_study(job.config, job.panel).at(job.panel)
    study.make_gauge().check(study.bars)


def find_leaders(job: Job, folder: Path) -> StageResult:
    study = build_study(job.config, job.panel).run(job.panel)
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
    rules = job.config.market
    source, seed = data_name(job.config.data), job.config.seed
    header = page_header(source, job.panel.index, job.panel.symbols, seed, rules if "judge" in job.findings else None)
    write_report(job.run.path("report.html"), str(manifest["label"]), sections, job.panel.notes, facts, header)
    return StageResult(f"{len(sections)} sections")


HERE = "pacesetter.jobs.pipeline"
TRADED = ("data", "features", "task", "agent", "risk", "train", "job")
REPORTED = ("load", "check", "describe", "leadlag", "lookback", "agents", "master", "judge")
STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage("load", load_panel, is_kept=False),
        Stage("check", check_panel, ("load",), ("data",)),
        Stage("describe", describe, ("load",), ("features",)),
        Stage("leadlag", find_leaders, ("load",), ("lag",), check=check_window),
        Stage(
            "lookback",
            f"{HERE}.lookback_stage:learn_lookback",
            ("load",),
            ("data", "train", "job"),
            check=f"{HERE}.lookback_stage:check_bars",
            skipped=f"{HERE}.fleet_stage:needs_no_lookback",
        ),
        Stage(
            "agents",
            f"{HERE}.fleet_stage:train_fleet",
            ("load", "lookback"),
            TRADED,
            check=f"{HERE}.fleet_stage:check_episodes",
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
    config: Plan,
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
    label, config = _label(config, trains), _with_costs(config)
    job = Job(config, Run.create(config.runs, config.name, config.to_dict(), label), console or Console())
    job.console.print(f"[bold]pacesetter[/] {cell(label)} → {job.run.folder}", soft_wrap=True)
    if any(stage.name == "judge" for stage in chosen):
        plan = describe_plan(_as_traded(config), config.job.folds)
        job.console.print(plan, soft_wrap=True, highlight=False, markup=False)
    stopped = print_when_stopped(
        job.run, job.console, lambda: f"run the same command to resume after {len(job.findings)} finished stages"
    )
    with stopped, on_sigterm(exit_on_sigterm), ExitStack() as budget:
        for number, stage in enumerate(chosen, start=1):
            watch.begin_stage(job, stage)
            with _leave_nothing(job.run) if stage.name == "load" else nullcontext():
                run_stage(job, stage, f"{number}/{len(chosen)} {stage.name}")
                if stage.name == "load":
                    # Only now is the size of the panel known, by which the budget is divided.
                    budget.enter_context(within_budget(job.panel, config.job.memory_mb))
                    # As soon as bars are known: an hour of training before a later stage refuses them would be lost.
                    check_stages(job, chosen)
            if not watch.goes_on(job, stage):
                break
    facts = {"data_fingerprint": job.panel.fingerprint, "seed": config.seed, "stages": job.keys}
    job.run.finish(**facts, costs=job.costs)
    _show(job)
    _warn_of_memory(job)
    return job


@contextmanager
def _leave_nothing(run: Run) -> Iterator[None]:
    """A job that is refused before it has worked leaves no folder behind, as a training does."""
    try:
        yield
    except PacesetterError:
        shutil.rmtree(run.folder, ignore_errors=True)
        raise


def _label(config: Plan, trains: bool) -> str:
    if not trains:
        return label_of(config, has_agent=False)
    from pacesetter.jobs.pipeline.fleet_stage import RISK  # here: a study trades nothing

    return label_of(_as_traded(config), has_agent=True, standard=RISK)


def _as_traded(config: Plan) -> Plan:
    from pacesetter.jobs.pipeline.fleet_stage import traded_config  # here: a study trades nothing

    return traded_config(config)


def _with_costs(config: Plan) -> Plan:
    """The job with one set of costs: lead–lag strategies pay what the account pays, unless `lag.cost_bps` is given."""
    if not isinstance(config.task, Trading) or config.lag.get("cost_bps", COST_BPS) != COST_BPS:
        return config
    return replace(config, lag=config.lag | {"cost_bps": config.market.costs.side_bps})


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


def summary(panel: Panel, labels: Array) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
    """One row a symbol: life, annual return and volatility of its closes, deepest drawdown, regime now."""
    header = ("symbol", "first", "last", "bars", "annual return", "volatility", "drawdown", "regime now")
    return header, tuple(_symbol_row(panel, labels, column) for column in range(len(panel.symbols)))


def _symbol_row(panel: Panel, labels: Array, column: int) -> tuple[object, ...]:
    observed = np.flatnonzero(panel.mask[:, column])
    closes = panel.close[observed, column]
    if len(closes) < 2:
        return (panel.symbols[column], "", "", len(closes), "", "", "", "")
    moves = np.diff(np.log(closes))
    years = len(moves) / panel.bars_per_year
    drawdown = float((closes / np.maximum.accumulate(closes) - 1).min())
    label = labels[observed[-1], column]
    return (
        panel.symbols[column],
        f"{panel.index[observed[0]]:%Y-%m-%d}",
        f"{panel.index[observed[-1]]:%Y-%m-%d}",
        len(closes),
        f"{(closes[-1] / closes[0]) ** (1 / years) - 1:+.1%}",
        f"{moves.std() * np.sqrt(panel.bars_per_year):.1%}",
        f"{drawdown:.1%}",
        REGIMES[label].replace("_", " ") if label >= 0 else "–",
    )


def _spread(table: FeatureTable) -> Iterator[tuple[str, float, float, float, int]]:
    """Each feature's 5 %, median and 95 % over everything that was observed."""
    for place, (name, memory) in enumerate(table.memory.items()):
        values = table.values[:, :, place]
        finite = values[np.isfinite(values)]
        low, middle, high = np.percentile(finite, (5, 50, 95)) if len(finite) else (np.nan,) * 3
        yield name, float(low), float(middle), float(high), memory
