"""The line that shows a run at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pacesetter.jobs.run.callbacks import LiveFigures, Session, Validator
from pacesetter.learning.learner import Learner
from pacesetter.progress import LogLines

__all__ = ["progress", "status"]


@contextmanager
def progress(
    session: Session[Learner], meter: LiveFigures[Learner], validator: Validator[Learner]
) -> Iterator[Callable[[], None]]:
    """A bar of steps with live metrics and the time left; the function it gives brings it up to date."""
    columns = (
        TextColumn("train"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[live]}"),
    )
    # A bar drawn into a log file would be thousands of lines.
    if not session.console.is_terminal and session.config.track.progress:
        yield _log_progress(session, meter, validator)
        return
    with Progress(*columns, console=session.console, disable=not session.config.track.progress) as bar:
        task = bar.add_task("train", total=session.config.train.steps, completed=session.learner.step, live="")
        yield lambda: bar.update(task, completed=session.learner.step, live=status(meter, validator))


def _log_progress(
    session: Session[Learner], meter: LiveFigures[Learner], validator: Validator[Learner]
) -> Callable[[], None]:
    """The same for a log: a line a minute."""
    step, steps = session.learner.step, session.config.train.steps
    lines = LogLines("train", steps, "steps", lambda line: session.console.print(line, soft_wrap=True), done=step)
    return lambda: lines.update(session.learner.step, status(meter, validator))


def status(meter: LiveFigures[Learner], validator: Validator[Learner]) -> str:
    """What the meter tells and the best validation score, in one line."""
    parts = meter.figures()
    return " ".join([*parts, f"best {validator.state['best']:+.4f}"] if parts and validator.state["scores"] else parts)
