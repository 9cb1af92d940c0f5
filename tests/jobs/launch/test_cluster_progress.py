"""Following runs by their metrics: whole lines, files that are cut, and the table of those at work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.jobs.launch import cluster_progress
from pacesetter.jobs.launch.assignment import Assignment, RunOutcome
from pacesetter.jobs.launch.cluster_progress import Follower, Progress
from pacesetter.jobs.launch.worker_pool import TrackedTask
from pacesetter.runs import Run


@pytest.fixture
def task(tmp_path: Path) -> Assignment:
    return Assignment(str(tmp_path / "group000"), ())


@pytest.fixture
def metrics(task: Assignment) -> Path:
    """The file that the run of `task` logs into, with 64 steps and a validation."""
    run = Run.create(task.folder, "run", {})
    run.log(step=64, steps_per_second=100.0)
    run.log(step=64, validation={"score": 0.5})
    return run.folder / "metrics.jsonl"


def test_a_run_that_has_not_begun_has_no_steps(task: Assignment) -> None:
    follower = Follower(task)
    follower.read_log()
    assert (follower.step, follower.score, follower.steps_per_second) == (0, None, None)


def test_new_lines_are_taken_in_when_they_are_whole(task: Assignment, metrics: Path) -> None:
    follower = Follower(task)
    follower.read_log()
    assert (follower.step, follower.score, follower.steps_per_second) == (64, 0.5, 100.0)
    line = json.dumps({"step": 128, "validation": {"score": 0.25}})
    with metrics.open("a") as stream:
        stream.write(line[:9])
        stream.flush()
        follower.read_log()
        assert follower.step == 64
        stream.write(line[9:] + "\n")
    follower.read_log()
    assert (follower.step, follower.score) == (128, 0.5)  # the best so far


def test_a_file_that_a_resume_cut_is_read_anew(task: Assignment, metrics: Path) -> None:
    follower = Follower(task)
    follower.read_log()
    metrics.write_text('{"step": 32}\n')
    follower.read_log()
    assert follower.step == 32


def test_what_changes_is_shown_told_and_kept_once(
    task: Assignment, metrics: Path, tmp_path: Path, console: Console
) -> None:
    progress = Progress(Run(tmp_path), [task], 256, console)
    assert progress.steps_left(task) == 192
    job: TrackedTask[Assignment, RunOutcome] = TrackedTask(task, "running", "host:7", 1)
    progress.watch([job])
    progress.watch([job])
    table = progress.table()
    assert table.title == "0 of 1 runs ended, 64 of 256 steps"
    assert [row[:4] for row in table.rows] == [("group000", "64", "+0.5000", "100")]
    job.settle(RunOutcome("", 256, float("-inf"), "", "steps"), None)
    progress.watch([job])
    kept = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert [(row["state"], row["step"], row["score"]) for row in kept] == [("running", 64, 0.5), ("done", 256, None)]
    assert "group000 running: on host:7, try 1" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("metrics")
def test_a_run_that_an_earlier_call_finished_has_the_worker_and_tries_of_then(
    task: Assignment, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = RunOutcome("", 256, 0.75, "", "steps")
    monkeypatch.setattr(cluster_progress, "run_task", lambda task: outcome)
    kept = json.dumps({"run": "group000", "state": "running", "worker": "host:7", "tries": 2})
    (tmp_path / "progress.jsonl").write_text(f'{kept}\n{{"run": "gr')  # killed while it wrote
    progress = Progress(Run(tmp_path), [task, Assignment(str(tmp_path / "group001"), ())], 256, console)
    assert progress.restore_finished(task) == TrackedTask(task, "done", "host:7", 2, outcome)
    assert str(progress) == "1 of 2 runs ended, 256 of 512 steps"
