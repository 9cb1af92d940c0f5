"""What a programme hands over beside its bundle: the completion report of its phases, and the log of its risks."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pacesetter.errors import RunError
from pacesetter.evaluation.programme.measured import find_metric
from pacesetter.evaluation.programme.status import FAILED, STOPPED, ProgrammeStatus, read_status
from pacesetter.evaluation.report.judgement_page import write_pages
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.statistics.gates import NOT_MEASURED
from pacesetter.runs import DECISION, write_atomic

__all__ = ["Risk", "find_risks", "write_completion", "write_risks"]

REPORTS = "reports"
HIGH, MEDIUM, LOW = "high", "medium", "low"
WEIGHT = {HIGH: 0, MEDIUM: 1, LOW: 2}


# ---- completion -----------------------------------------------------------------------------------------------------


def write_completion(folder: Path) -> list[Path]:
    """`completion.html` and `.md`: the reports of all phases that are done, in their order, after the status."""
    status = read_status(folder)
    stored = {each.name: _report(folder, each.name) for each in status.phases if each.report}
    if not stored:
        raise RunError(f"{folder.name} has no finished phase to report on; {status.sentence}")
    sections = [status.section()]
    facts: dict[str, str] = {}
    for name, report in stored.items():
        own = [Section.from_json(each) for each in report["sections"]]
        sections += [replace(section, title=f"{name}: {section.title}") for section in own]
        facts |= {
            f"{name}: {key}": value for key, value in report["facts"].items() if key in ("seconds", "peak memory")
        }
        facts |= {
            key: value for key, value in report["facts"].items() if key not in ("decision", "seconds", "peak memory")
        }
    return write_pages(folder / "completion.html", f"Completion report: {folder.name}", sections, (), facts)


def _report(folder: Path, phase: str) -> dict[str, Any]:
    path = folder / REPORTS / f"{phase}.json"
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise RunError(
            f"{path} cannot be read ({type(problem).__name__}); run the same pacesetter lab programme again: what it "
            "did is kept, and the report is written again"
        ) from problem
    return report


# ---- risks ----------------------------------------------------------------------------------------------------------


class Risk(NamedTuple):
    """One thing that may go wrong: where it was seen, what was seen, how grave it is, and what is to be done."""

    phase: str
    risk: str
    evidence: str
    severity: str
    response: str


def write_risks(folder: Path) -> list[Path]:
    """`risks.html`, `.md` and `.csv` of a programme, the gravest first."""
    status, risks = read_status(folder), find_risks(folder)
    counts = ", ".join(f"{sum(risk.severity == each for risk in risks)} {each}" for each in WEIGHT)
    text = f"{len(risks)} risks: {counts}. {status.sentence}"
    section = Section("Risks", text, (), Risk._fields, tuple(tuple(risk) for risk in risks))
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([Risk._fields, *risks])
    pages = write_pages(folder / "risks.html", f"Risk log: {folder.name}", [section])
    return [*pages, write_atomic(folder / "risks.csv", table.getvalue())]


def find_risks(folder: Path) -> list[Risk]:
    """What the phases of a programme left that speaks against trusting it, the gravest first."""
    status = read_status(folder)
    risks = [*_of_status(status), *_of_data(folder), *_of_environment(folder)]
    risks += [risk for phase in status.phases for risk in _of_gates(folder, phase.name)]
    return sorted(risks, key=lambda risk: WEIGHT[risk.severity])


def _of_status(status: ProgrammeStatus) -> Iterator[Risk]:
    if status.synthetic:
        yield Risk("data", "the bars are synthetic", "no market had them", HIGH, "repeat it on real bars")
    for phase in status.phases:
        if phase.state in (FAILED, STOPPED):
            yield Risk(phase.name, f"the phase is {phase.state}", phase.line, HIGH, "mend it, or --rollback")


def _of_data(folder: Path) -> Iterator[Risk]:
    path = folder / "data" / "readiness.json"
    report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"findings": []}
    for each in report["findings"]:
        severity = HIGH if each["severity"] == "error" else MEDIUM
        where = f"{each['symbol'] or 'all'}, {each['count']} times"
        yield Risk("data", f"{each['rule']}: {each['what']}", where, severity, "read the bars again, or say data.allow")
    if report.get("survivorship"):
        yield Risk("data", "survivorship", report["survivorship"], MEDIUM, "take bars with symbols that vanished")


def _of_environment(folder: Path) -> Iterator[Risk]:
    path = folder / "data" / "environment.json"
    for row in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else ():
        if not row["is_enough"]:
            yield Risk(
                "data", f"{row['name']} {row['value']}", f"{row['wanted']} is asked for", LOW, "install from the lock"
            )


def _of_gates(folder: Path, phase: str) -> Iterator[Risk]:
    """Of every set that the phase was held against; the one that stands is `decision.json`."""
    for path in sorted((folder / phase).glob(f"{Path(DECISION).stem}*.json")):
        yield from _of_decision(json.loads(path.read_text(encoding="utf-8")), phase, stands=path.name == DECISION)


def _of_decision(decision: Mapping[str, Any], phase: str, stands: bool) -> Iterator[Risk]:
    is_over = stands and decision["decision"] == "NO-GO"
    response = "do not go on" if stands else "know why before real money"
    for held in decision["held"]:
        wanted = f"{held['sense']} {held['limit']:g}"
        if held["state"] == NOT_MEASURED:
            metric = find_metric(held["metric"])
            how = metric.by if metric is not None and metric.by else "evaluate the run in full"
            yield Risk(phase, f"{held['about']} is not known", f"{wanted} is asked for", MEDIUM, how)
        elif held["state"] == "FAIL":
            value = "no finite number" if held["value"] is None else f"{held['value']:.4g}"
            evidence = f"{value}, and {wanted} is asked for"
            yield Risk(phase, f"{held['about']} fails its gate", evidence, HIGH if is_over else MEDIUM, response)
