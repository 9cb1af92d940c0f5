"""The main job, stage by stage: each stage takes the job so far, adds to it, and says in one line what it found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pacesetter.build import Config, build_panel, build_readiness, build_study, build_table
from pacesetter.data.quality import Readiness
from pacesetter.evaluation import pictures
from pacesetter.evaluation.leadlag_page import HEADER, leadlag_rows, leadlag_sections, leadlag_verdict, store_leadlag
from pacesetter.evaluation.report import Section, write_report
from pacesetter.features import REGIMES, FeatureTable, regime_labels
from pacesetter.leadlag.study import StudyResult
from pacesetter.panel import Panel
from pacesetter.runs import Run

__all__ = ["STAGES", "Job", "run_job", "summary"]


@dataclass
class Job:
    """What the stages hand on: configuration, run folder, and what was made so far."""

    config: Config
    run: Run
    sections: list[Section] = field(default_factory=list)
    panel: Panel | None = None
    readiness: Readiness | None = None
    table: FeatureTable | None = None
    labels: Any = None
    study: StudyResult | None = None


def load_panel(job: Job) -> str:
    job.panel = build_panel(job.config)
    job.panel.save(job.run.path("panel.parquet"))
    return repr(job.panel)


def check_panel(job: Job) -> str:
    job.readiness = build_readiness(job.config)
    job.run.write_json("readiness.json", job.readiness.to_json())
    findings = job.readiness.findings
    rows = [(f.severity, f.rule, f.symbol or "all", f.when or "", f.count, f.what) for f in findings]
    figure = pictures.coverage(_need(job.panel))
    section = Section(
        "Data quality",
        "Observed share of each symbol's bars, and every rule that was broken. Errors stop a load; warnings do not.",
        figures=(figure,),
        header=("severity", "rule", "symbol", "first at", "times", "what"),
        rows=tuple(rows),
    )
    job.sections.append(section)
    return f"{len(findings)} warnings" if findings else "nothing to report"


def make_features(job: Job) -> str:
    panel = _need(job.panel)
    job.table = build_table(job.config, panel)
    job.labels = regime_labels(panel)
    left_out = job.table.left_out
    rows = [
        (name, f"{low:.3g}", f"{middle:.3g}", f"{high:.3g}", bars)
        for name, low, middle, high, bars in _spread(job.table)
    ]
    note = f" Left out because the data lacks what they need: {', '.join(left_out)}." if left_out else ""
    job.sections.append(
        Section(
            "Features",
            f"Raw values over all symbols and bars, warm-up excluded; the network normalises, nothing else does.{note}",
            header=("feature", "5 %", "median", "95 %", "memory (bars)"),
            rows=tuple(rows),
        )
    )
    job.sections.append(
        Section(
            "Regimes",
            "Share of symbols in each regime, from closes up to each bar only.",
            figures=(pictures.regimes(panel, job.labels, REGIMES),),
        )
    )
    return f"{len(job.table.names)} features" + (
        f", {len(left_out)} left out ({', '.join(left_out)})" if left_out else ""
    )


def find_leaders(job: Job) -> str:
    job.study = build_study(job.config).run(_need(job.panel))
    job.sections += leadlag_sections(job.study)
    store_leadlag(job.study, job.run)
    rows = leadlag_rows(job.study)
    leaders, followers = (sum(row[2] == role for row in rows) for role in ("leader", "follower"))
    return f"{leaders} leaders, {followers} followers, {job.study.network.number_of_edges()} significant links"


def write_page(job: Job) -> str:
    panel = _need(job.panel)
    job.labels = regime_labels(panel) if job.labels is None else job.labels
    header, rows = summary(panel, job.labels)
    first = Section(
        "Summary",
        f"{len(panel)} bars of {len(panel.symbols)} symbols, {panel.index[0]:%Y-%m-%d} to {panel.index[-1]:%Y-%m-%d}.",
        figures=(pictures.prices(panel),),
        header=header,
        rows=rows,
    )
    facts = {
        "config hash": job.run.manifest["config_hash"],
        "data fingerprint": panel.fingerprint,
        "commit": job.run.manifest["commit"] or "none",
        "versions": ", ".join(f"{name} {version}" for name, version in job.run.manifest["versions"].items()),
    }
    path = write_report(job.run.path("report.html"), job.config.name, [first, *job.sections], panel.notes, facts)
    return str(path)


Stage = Callable[[Job], str]
STAGES: dict[str, Stage] = {
    "load": load_panel,
    "check": check_panel,
    "features": make_features,
    "leadlag": find_leaders,
    "report": write_page,
}


def run_job(config: Config, console: Console | None = None, stages: Sequence[str] = tuple(STAGES)) -> Job:
    """Run the stages into a new run folder, with progress; print what was found and where the report is."""
    console = console or Console()
    job = Job(config, Run.create(config.runs, config.name, config.to_dict()))
    console.print(f"[bold]pacesetter[/] {config.name} → {job.run.folder}", soft_wrap=True)
    for number, name in enumerate(stages, start=1):
        with _watched(console, f"{number}/{len(stages)} {name}") as say, _recorded(job.run, name):
            say(STAGES[name](job))
    panel = _need(job.panel)
    job.run.finish(data_fingerprint=panel.fingerprint, seed=config.seed)
    if "features" in stages:
        console.print(_console_table("What was loaded", *summary(panel, job.labels), hidden=("first", "last")))
    if job.study is not None:
        console.print(_console_table("Who leads", HEADER, leadlag_rows(job.study), hidden=("rank interval",)))
        console.print(leadlag_verdict(job.study), highlight=False)
    for note in panel.notes:
        console.print(f"Note: {note}", soft_wrap=True)
    console.print(f"Report: {job.run.folder / 'report.html'}", soft_wrap=True)
    return job


@contextmanager
def _watched(console: Console, name: str) -> Iterator[Callable[[str], None]]:
    """A spinner while a stage works; afterwards its line with the time it took."""
    start = time.perf_counter()
    found: list[str] = []
    with console.status(name):
        yield found.append
    console.print(f"  {name:<14}{time.perf_counter() - start:6.1f} s  {found[0]}", soft_wrap=True, highlight=False)


@contextmanager
def _recorded(run: Run, stage: str) -> Iterator[None]:
    """What stops a stage is written into the run's manifest before it is raised."""
    try:
        yield
    except Exception as problem:
        run.write_json("manifest.json", run.manifest | {"failed": {"stage": stage, "why": str(problem)}})
        raise


def summary(panel: Panel, labels: Any) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """One row a symbol: life, annual return and volatility of its closes, deepest drawdown, regime now."""
    header = ("symbol", "first", "last", "bars", "annual return", "volatility", "drawdown", "regime now")
    return header, tuple(_symbol_row(panel, labels, column) for column in range(len(panel.symbols)))


def _symbol_row(panel: Panel, labels: Any, column: int) -> tuple[Any, ...]:
    seen = np.flatnonzero(panel.mask[:, column])
    closes = panel.close[seen, column]
    if len(closes) < 2:
        return (panel.symbols[column], "", "", len(closes), "", "", "", "")
    moves = np.diff(np.log(closes))
    years = len(moves) / panel.bars_per_year
    drawdown = float((closes / np.maximum.accumulate(closes) - 1).min())
    label = labels[seen[-1], column]
    return (
        panel.symbols[column],
        f"{panel.index[seen[0]]:%Y-%m-%d}",
        f"{panel.index[seen[-1]]:%Y-%m-%d}",
        len(closes),
        f"{(closes[-1] / closes[0]) ** (1 / years) - 1:+.1%}",
        f"{moves.std() * np.sqrt(panel.bars_per_year):.1%}",
        f"{drawdown:.1%}",
        REGIMES[label].replace("_", " ") if label >= 0 else "–",
    )


def _console_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], hidden: Sequence[str], most: int = 25
) -> Table:
    """The first rows as a table that fits 80 columns; the report has all."""
    shown = [place for place, name in enumerate(header) if name not in hidden]
    cut = f" (first {most} of {len(rows)}; the report has all)" if len(rows) > most else ""
    table = Table(title=title + cut, title_justify="left")
    for place in shown:
        table.add_column(
            header[place], justify="left" if header[place] in ("symbol", "role", "regime now") else "right"
        )
    for row in rows[:most]:
        table.add_row(*(str(row[place]) for place in shown))
    return table


def _spread(table: FeatureTable) -> Iterator[tuple[str, float, float, float, int]]:
    """Each feature's 5 %, median and 95 % over everything that was observed."""
    for place, (name, memory) in enumerate(table.memory.items()):
        values = table.values[:, :, place]
        finite = values[np.isfinite(values)]
        low, middle, high = np.percentile(finite, (5, 50, 95)) if len(finite) else (np.nan,) * 3
        yield name, float(low), float(middle), float(high), memory


def _need(panel: Panel | None) -> Panel:
    assert panel is not None, "the load stage comes first"
    return panel
