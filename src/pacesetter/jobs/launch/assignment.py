"""One training run as a task for a worker: it has its own folder, and resumes from the last checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from pacesetter.errors import RunError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import Report, train
from pacesetter.runs import Run

__all__ = ["Assignment", "InterruptedRunError", "RunOutcome", "run_task"]


@dataclass(frozen=True)
class Assignment:
    """Overrides of one run, and the folder that is its own."""

    folder: str
    overrides: tuple[str, ...]

    @property
    def earlier_run(self) -> Run | None:
        """The run that an earlier worker left in the folder; None before one was begun."""
        # Folders begin with a time stamp: the last one is the latest try.
        left = sorted(Path(self.folder).glob("*/manifest.json"))
        return Run(left[-1].parent) if left else None


@dataclass(frozen=True)
class RunOutcome:
    """What the run came to, as in `TrainingResult`, in plain values."""

    run: str
    steps: int
    score: float
    weights_hash: str
    stopped: str


class InterruptedRunError(RunError):
    """The run was told to stop by a signal, and so is what it is part of."""


def run_task(task: Assignment, report: Report | None = None) -> RunOutcome:
    """Train, or go on with the run in the task's folder; a finished one is not run again."""
    quiet = Console(quiet=True)  # many at a time would write over each other
    earlier = task.earlier_run
    if earlier:
        result = train(resume=earlier.folder, report=report, console=quiet)
    else:
        result = train(resolve([*task.overrides, f"runs='{task.folder}'"]), report=report, console=quiet)
    if result.stopped == "signal":
        raise InterruptedRunError("stopped by a signal; resume with --resume and the folder printed first")
    return RunOutcome(str(result.run.folder), result.steps, result.score, result.weights_hash, result.stopped)
