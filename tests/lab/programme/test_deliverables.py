"""The completion report and the risk log of a programme."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.errors import RunError
from pacesetter.evaluation.programme.decision import GateDecision
from pacesetter.evaluation.programme.gate_sets import GateSet
from pacesetter.evaluation.programme.status import PhaseStatus, ProgrammeStatus, write_status
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.statistics.gates import Limit, Measured, hold
from pacesetter.lab.programme.deliverables import find_risks, write_completion
from pacesetter.lab.programme.phases import standing_decision
from pacesetter.runs import DECISION


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A programme that a gate of its prototype stopped."""
    programme = tmp_path / "20260101-programme"
    phases = (
        PhaseStatus("data", "done", line="1 warning", seconds=1.0, report="reports/data.html"),
        PhaseStatus("prototype", "stopped", "NO-GO", "1 of 3 passed", 2.0, "reports/prototype.html"),
        PhaseStatus("fleet"),
    )
    for name in ("data", "prototype", "reports"):
        (programme / name).mkdir(parents=True)
    write_status(ProgrammeStatus(programme.name, "2026", phases), programme)
    finding = {"severity": "warning", "rule": "gap", "symbol": "A", "count": 2, "what": "bars are missing"}
    dump(programme / "data" / "readiness.json", {"findings": [finding], "survivorship": ""})
    row = {"name": "numpy", "value": "1.0", "wanted": ">=2", "is_enough": False}
    dump(programme / "data" / "environment.json", [row])
    held = [gate("sharpe", 0.2, "FAIL"), gate("max_drawdown", 0.1, "pass"), gate("repeat_difference", None)]
    dump(programme / "prototype" / DECISION, {"decision": "NO-GO", "held": held})
    for name, second in (("data", "7.0"), ("prototype", "9.0")):
        section = Section("Environment", f"What {name} saw.", (), ("what", ""), (("Python", "ok"),)).to_json()
        facts = {"decision": "no gates", "seconds": second, "seed": "3"}
        dump(programme / "reports" / f"{name}.json", {"facts": facts, "sections": [section]})
    return programme


def dump(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def gate(metric: str, value: float | None, state: str = "not measured") -> dict[str, object]:
    return {"metric": metric, "about": metric, "value": value, "sense": ">", "limit": 0.3, "state": state}


def call(*words: object) -> str:
    found = CliRunner().invoke(app, ["lab", "programme", *map(str, words)], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_the_completion_report_has_every_phase_that_ended(folder: Path) -> None:
    said = call(f"runs={folder.parent}", "--reports")
    assert str(folder / "completion.html") in said
    text = (folder / "completion.md").read_text(encoding="utf-8")
    assert text.index("## data: Environment") < text.index("## prototype: Environment")
    assert "| prototype | stopped | NO-GO | 2 | 1 of 3 passed |" in text
    assert "fleet: " not in text
    page = (folder / "completion.html").read_text(encoding="utf-8")
    assert "prototype: seconds" in page
    (folder / "reports" / "data.json").unlink()
    with pytest.raises(RunError, match="run the same pacesetter lab programme again"):
        write_completion(folder)


def test_the_risk_log_names_what_failed_what_is_not_known_and_what_is_missing(folder: Path) -> None:
    said = call(f"runs={folder.parent}", "--risks")
    assert str(folder / "risks.csv") in said
    with (folder / "risks.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["phase"], row["severity"]) for row in rows] == [
        ("prototype", "high"),  # the phase stopped
        ("prototype", "high"),  # its Sharpe ratio failed
        ("data", "medium"),
        ("prototype", "medium"),
        ("data", "low"),
    ]
    assert "0.2, and > 0.3 is asked for" in rows[1]["evidence"]
    assert rows[3]["response"] == "pacesetter verify RUN"
    assert rows[4]["risk"] == "numpy 1.0"
    assert "5 risks: 2 high, 2 medium, 1 low" in (folder / "risks.md").read_text(encoding="utf-8")


def test_gates_of_the_sets_that_do_not_stand_are_risks_too(folder: Path) -> None:
    (folder / "fleet").mkdir()
    dump(folder / "fleet" / DECISION, {"decision": "GO", "held": [gate("sharpe", 1.2, "pass")]})
    held = [gate("trades", 9.0, "FAIL"), gate("gain_over_supervised", None, "FAIL")]  # the latter is infinite
    dump(folder / "fleet" / "decision-targets.json", {"decision": "NO-GO", "held": held})
    seen = [risk for risk in find_risks(folder) if risk.phase == "fleet"]
    assert [(risk.severity, risk.response) for risk in seen] == [("medium", "know why before real money")] * 2
    assert [risk.evidence.partition(",")[0] for risk in seen] == ["9", "no finite number"]


@pytest.mark.parametrize(
    ("names", "stands"),
    [
        (("GO", "NO-GO", "GO"), "final"),
        (("NO-GO", "GO", "GO"), "validation"),  # folds or stress that fail are not made good by the test set
        (("NO-GO", "GO", "NO-GO"), "validation"),
        (("GO", "GO", "NO-GO"), "final"),
    ],
)
def test_a_no_go_of_the_phases_own_gates_stands(names: tuple[str, ...], stands: str) -> None:
    decisions = [decision(each, name) for each, name in zip(("validation", "targets", "final"), names, strict=True)]
    assert standing_decision(decisions).gates.name == stands


def decision(gates: str, name: str) -> GateDecision:
    """One that comes to a name."""
    limit = Limit("sharpe", ">", 1.0)
    held = hold([limit], {"sharpe": Measured(2.0 if name == "GO" else 0.0)})
    return GateDecision(GateSet(gates, "x", (limit,)), "run", held, (), "No edge found")


def test_synthetic_bars_are_a_risk_and_a_programme_without_a_phase_has_no_report(tmp_path: Path) -> None:
    write_status(ProgrammeStatus("p", "2026", (PhaseStatus("data"),), synthetic=True), tmp_path)
    assert [risk.severity for risk in find_risks(tmp_path)] == ["high"]
    with pytest.raises(RunError, match="has no finished phase to report on"):
        write_completion(tmp_path)
