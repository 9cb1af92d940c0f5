"""A student of a run: smaller, stored with its teacher's hash, bundled with it, side by side with its teacher."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pacesetter.build import best_fleet, read_plan, stored_plan
from pacesetter.cli import app
from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.state import tensors_hash
from pacesetter.methods.offline import distill as module
from pacesetter.methods.offline.distill import Student, distill
from pacesetter.runs import Run
from pacesetter.serving.bundle.packaging import bundle_run


def test_a_student_is_smaller_and_carries_its_teachers_hash(run, tmp_path):
    told = io.StringIO()
    asked = Student("mlp", {"width": 8}, heads=8, steps=16_384, episodes=64)
    student = distill(run, asked, console=Console(file=told, width=150))
    manifest = Run.open(student.folder).manifest
    teacher = tensors_hash(best_fleet(run).state_dict())
    assert manifest["teacher"] == {"run": run.name, "weights_hash": teacher}
    rows = json.loads((student.folder / "distillation.json").read_text())["fleets"]
    assert [row["name"] for row in rows] == ["teacher", "student"]
    assert rows[1]["parameters"] < rows[0]["parameters"]
    assert rows[0]["agreement"] == 1.0
    assert rows[1]["agreement"] > 0.6
    assert "same orders" in told.getvalue()
    assert "beside, Sharpe on the validation set: hold " in told.getvalue()
    _, bundle = bundle_run(student.folder, tmp_path / "store", observations=20)
    assert bundle.manifest["training"]["teacher"]["weights_hash"] == teacher


def test_a_teacher_of_a_gpu_is_distilled_where_there_is_none(run, monkeypatch):
    stored = stored_plan(run)
    monkeypatch.setattr(module, "stored_plan", lambda _: replace(stored, train=replace(stored.train, device="cuda")))
    asked = Student("mlp", {"width": 8}, heads=8, steps=64, episodes=8)
    student = distill(run, asked, console=Console(quiet=True))
    assert read_plan(student).train.device == "cpu"


def test_a_temperature_is_learned_with_and_stored(run):
    asked = Student("mlp", {"width": 8}, heads=8, steps=512, episodes=16)
    students = {
        warm: distill(run, replace(asked, temperature=warm), console=Console(quiet=True)) for warm in (1.0, 4.0)
    }
    told = {warm: json.loads((student.folder / "distillation.json").read_text()) for warm, student in students.items()}
    assert {warm: facts["student"]["temperature"] for warm, facts in told.items()} == {1.0: 1.0, 4.0: 4.0}
    assert len({Run.open(student.folder).manifest["weights_hash"] for student in students.values()}) == 2


def test_a_temperature_that_cannot_be_is_refused_before_a_folder_is_made(run):
    before = sorted(run.parent.iterdir())
    result = CliRunner().invoke(app, ["distill", str(run), "--temperature", "0.5"])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == "temperature=0.5 must be in 1 … 100"
    assert sorted(run.parent.iterdir()) == before


def test_what_cannot_be_distilled_is_refused(run, tmp_path):
    with pytest.raises(ConfigError, match=r"the student has .* parameters, its teacher"):
        distill(run, Student("mlp", {"width": 256}))
    with pytest.raises(RunError, match="is not a run folder"):
        distill(tmp_path, Student())
    with pytest.raises(ConfigError, match="steps"):
        Student(steps=0)
    with pytest.raises(ConfigError, match=r"^device=tpu cannot be used here"):
        distill(run, Student(), device="tpu")
