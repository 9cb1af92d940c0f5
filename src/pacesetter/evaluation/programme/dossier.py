"""The validation dossier of a run: its report, explanations, folds and every set of gates in one page and one PDF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from pacesetter.errors import ConfigError
from pacesetter.evaluation.programme.decision import NOT_APPLICABLE, GateDecision, decide
from pacesetter.evaluation.programme.gate_sets import gate_set_names, read_gate_set
from pacesetter.evaluation.report.page import Section, format_number, write_pdf, write_report
from pacesetter.runs import EVALUATION, Run

__all__ = ["gate_section", "write_dossier"]

DOSSIER = "dossier.html"
GATE_HEADER = ("gate", "value", "limit", "interval", "")
ORIGIN = ("commit", "config_hash", "python", "started", "finished", "weights_hash")  # of the manifest
MOST_TABLES = 8  # of other markets and folds that were evaluated


def gate_section(decision: GateDecision) -> Section:
    """A decision with every value beside its limit."""
    return Section(f"Gates: {decision.gates.name}", decision.sentence, (), GATE_HEADER, decision.rows)


def write_dossier(
    folder: Path, sections: Sequence[Section], notes: Sequence[str] = (), facts: Mapping[str, str] | None = None
) -> list[str]:
    """Write `evaluation/dossier.html` of an evaluated run and print it to PDF; gives what was written, in words.

    sections   those of its report, explanations included
    """
    manifest = Run.open(folder).manifest
    own = {name.replace("_", " "): str(manifest[name]) for name in ORIGIN if name in manifest} | dict(facts or {})
    whole = [*sections, *_gates(folder), *_tables(folder / EVALUATION)]
    page = write_report(folder / EVALUATION / DOSSIER, f"Validation dossier: {folder.name}", whole, notes, own)
    try:
        return [f"Dossier: {page}", f"Dossier: {write_pdf(page)}"]
    except ConfigError as problem:  # no browser: the page stands, and the sentence says what a PDF needs
        return [f"Dossier: {page}", str(problem)]


def _gates(folder: Path) -> Iterator[Section]:
    """A table of the decisions by all sets, then each set that is about what the run was trained with."""
    decisions = [decide(folder, read_gate_set(name)) for name in gate_set_names()]
    rows = []
    for each in decisions:
        states = [held.state for held in each.held] if each.name != NOT_APPLICABLE else []
        counts = (str(states.count(state)) if states else "" for state in ("pass", "FAIL", "not measured", "n/a"))
        rows.append((each.gates.name, each.name, *counts, each.gates.about))
    header = ("set", "decision", "passed", "failed", "not measured", "not applicable", "what it is about")
    yield Section("Decisions", "By every set of gates, on the same evaluation.", (), header, tuple(rows))
    yield from (gate_section(each) for each in decisions if each.name != NOT_APPLICABLE)


def _tables(folder: Path) -> Iterator[Section]:
    """What else was evaluated of the run: folds, other markets, a stated risk."""
    for path in sorted(folder.glob("*.csv"))[:MOST_TABLES]:
        table = pd.read_csv(path)
        rows = tuple(
            tuple(format_number(cell) if isinstance(cell, float) else str(cell) for cell in row)
            for row in table.itertuples(index=False)
        )
        yield Section(
            path.stem.replace("_", " ").capitalize(),
            f"{path.name} of this run.",
            (),
            tuple(map(str, table.columns)),
            rows,
        )
