"""Runs on many machines while they work: step, score and rate of each, shown together and kept in progress.jsonl."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from pacesetter.cells import Table
from pacesetter.jobs.launch.assignment import Assignment, RunOutcome, run_task
from pacesetter.jobs.launch.worker_pool import TrackedTask
from pacesetter.runs import Run

__all__ = ["Follower", "Progress"]

COLUMNS = ("run", "step", "score", "steps/s", "try", "worker")


@dataclass
class Follower:
    """Step, best validation score and steps per second of a run, from the metrics.jsonl that it writes anywhere."""

    task: Assignment
    step: int = 0
    score: float | None = None
    steps_per_second: float | None = None
    read: int = field(default=0, repr=False)  # bytes of the file

    def read_log(self) -> None:
        """Take in what the run has logged since the last look."""
        for line in self._new_lines():
            self.step = line.get("step", self.step)
            self.steps_per_second = line.get("steps_per_second", self.steps_per_second)
            score = line.get("validation", {}).get("score")
            if score is not None:
                self.score = score if self.score is None else max(self.score, score)

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        """Whole lines alone; a resume cuts the file, which is then read from its start."""
        run = self.task.earlier_run
        if run is None or not (path := run.folder / "metrics.jsonl").is_file():
            return
        with path.open("rb") as stream:
            if stream.seek(0, os.SEEK_END) < self.read:
                self.read = 0
            stream.seek(self.read)
            text = stream.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.read += len(whole)
        yield from _lines(whole)


def _lines(text: bytes) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        with suppress(ValueError):  # cut by a kill, or cut and grown again between two looks
            yield json.loads(line)


class Progress:
    """What all runs do, each to make `steps`; `watch` is for `WorkerPool.settle`."""

    def __init__(self, run: Run, tasks: Sequence[Assignment], steps: int, console: Console) -> None:
        self.path, self.steps, self.console = run.path("progress.jsonl"), steps, console
        self.followers = {task: Follower(task) for task in tasks}
        for follower in self.followers.values():
            follower.read_log()  # an earlier worker may have begun
        self.kept = {line["run"]: line for line in _lines(self.path.read_bytes())} if self.path.is_file() else {}
        self.rows: dict[str, dict[str, Any]] = {}

    def restore_finished(self, task: Assignment) -> TrackedTask[Assignment, RunOutcome]:
        """A run that an earlier call finished, with the worker and the tries that it kept."""
        name = Path(task.folder).name
        kept = self.kept.get(name, {})
        job = TrackedTask(task, "done", kept.get("worker", ""), kept.get("tries", 0), run_task(task))
        self.rows[name] = self._row(job)
        return job

    def steps_left(self, task: Assignment) -> int:
        """Steps that the run has still to make."""
        return self.steps - self.followers[task].step

    def open_table(self) -> Live:
        """A table of the runs at work, brought up to date while it is open; only a terminal shows it."""
        return Live(get_renderable=self.table, console=self.console, refresh_per_second=2, transient=True)

    def watch(self, jobs: Sequence[TrackedTask[Assignment, RunOutcome]]) -> None:
        """Look at every run, and tell and keep what has changed."""
        for job in jobs:
            name, row = Path(job.task.folder).name, self._row(job)
            before = self.rows.get(name, {"state": "waiting"})
            if row != before:
                self.rows[name] = row
                self._keep(name, row)
            if row["state"] != before["state"]:
                self.console.print(_sentence(name, row), highlight=False, soft_wrap=True)

    def _row(self, job: TrackedTask[Assignment, RunOutcome]) -> dict[str, Any]:
        follower = self.followers[job.task]
        if job.state == "running":
            follower.read_log()
        step, score = follower.step, follower.score
        if job.result is not None:  # a fleet's score may still change after its last validation
            step, score = job.result.steps, job.result.score if math.isfinite(job.result.score) else None
        progress = {"step": step, "score": score, "steps_per_second": follower.steps_per_second}
        return {"state": job.state, "worker": job.worker, "tries": job.tries, **progress}

    def _keep(self, name: str, row: dict[str, object]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"time": now, "run": name} | row) + "\n")

    def __str__(self) -> str:
        ended = sum(row["state"] in ("done", "failed") for row in self.rows.values())
        made, runs = sum(row["step"] for row in self.rows.values()), len(self.followers)
        return f"{ended} of {runs} runs ended, {made:,} of {self.steps * runs:,} steps"

    def table(self) -> Table:
        """The runs at work."""
        running = {name: row for name, row in self.rows.items() if row["state"] == "running"}
        rows = [(name, *_cells(row), row["tries"], row["worker"]) for name, row in running.items()]
        return Table(COLUMNS, rows, str(self))


def _cells(row: Mapping[str, object]) -> tuple[str, str, str]:
    score, rate = row["score"], row["steps_per_second"]
    return (
        f"{row['step']:,}",
        "" if score is None else f"{score:+.4f}",
        "" if rate is None else f"{rate:,.0f}",
    )


def _sentence(name: str, row: dict[str, Any]) -> str:
    step, score, _ = _cells(row)
    details = {
        "running": f"on {row['worker']}, try {row['tries']}",
        "waiting": f"its worker {row['worker']} died at step {step}; moves to another",
        "done": f"{step} steps, score {score}",
        "failed": f"at step {step} of try {row['tries']}",
    }
    return f"{name} {row['state']}: {details[row['state']]}"
