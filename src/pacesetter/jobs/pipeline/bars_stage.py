"""The first pages of the pipeline: what the bars are worth, and what they look like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pacesetter.build import build_table
from pacesetter.evaluation.report import pictures
from pacesetter.evaluation.report.page import Section, span_text
from pacesetter.features import REGIMES, FeatureTable, regime_labels
from pacesetter.jobs.pipeline.stages import Job, StageResult
from pacesetter.panel import Panel
from pacesetter.words import count_noun

if TYPE_CHECKING:
    from pacesetter.arrays import Array

__all__ = ["check_panel", "describe", "summary"]


def check_panel(job: Job, folder: Path) -> StageResult:
    readiness = job.config.data.check()
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
    table = build_table(job.plan, panel)
    sections = (_bars_section(panel, labels), _features_section(table), _regimes_section(panel, labels))
    line = f"{len(table.names)} features" + (f", left out: {', '.join(table.left_out)}" if table.left_out else "")
    return StageResult(line, sections)


def _bars_section(panel: Panel, labels: Array) -> Section:
    text = f"{len(panel):,} bars of {len(panel.symbols)} symbols, {span_text(panel.index)}."
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
