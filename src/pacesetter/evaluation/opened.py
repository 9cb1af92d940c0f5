"""A run folder opened for evaluation, by what its task declares that it is judged as."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pacesetter.build import stored_plan
from pacesetter.late import load

if TYPE_CHECKING:
    from pacesetter.evaluation.lookback.stored import LookbackRun
    from pacesetter.evaluation.stored_run import StoredRun

__all__ = ["RUNS", "open_run"]

RUNS = {  # what a task is judged as -> the class that does it
    "account": "pacesetter.evaluation.stored_run:StoredRun",
    "windows": "pacesetter.evaluation.lookback.stored:LookbackRun",
}


def open_run(folder: Path) -> StoredRun | LookbackRun:
    """The run in `folder` with what evaluate, compare and inspect ask of it."""
    task = stored_plan(folder).problem
    task.check("evaluate", folder)
    opened: StoredRun | LookbackRun = load(RUNS[task.judged_as])(folder)
    return opened
