"""Graphs of a teacher and a student side by side: the teacher agrees with itself, int8 is smaller and nearly equal."""

from __future__ import annotations

import json
import shutil
from typing import Any

from pacesetter.runs import Run
from pacesetter.serving.bundle.student import compare_served, served_graphs, served_table


def test_graphs_are_compared_by_size_time_and_orders(fleet: Any) -> None:
    graphs, observations = served_graphs(fleet.run.folder, fleet.run.folder, 20)
    assert list(graphs) == ["teacher", "student", "student, int8"]
    assert all(len(entry) == len(fleet.panel.symbols) for entry in observations[0].values())
    teacher, student, small = compare_served(graphs, observations)
    assert teacher.of_teacher == teacher.agreement == student.agreement == 1.0
    assert small.agreement > 0.9
    assert all(0 < row.p50_ms <= row.p95_ms for row in (teacher, student, small))
    assert student.kilobytes == teacher.kilobytes


def test_the_report_of_the_student_keeps_the_table(fleet: Any, tmp_path: Any) -> None:
    run = Run.open(shutil.copytree(fleet.run.folder, tmp_path / fleet.run.folder.name))
    run.write_json("distillation.json", {"held_out_divergence": 0.5})
    table = served_table(fleet.run.folder, run)
    assert len(table.rows) == 3
    facts = json.loads(run.path("distillation.json").read_text())
    assert facts["held_out_divergence"] == 0.5
    assert [row["name"] for row in facts["served"]] == ["teacher", "student", "student, int8"]
