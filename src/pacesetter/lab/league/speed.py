"""How soon a run had learned most of what it came to, from the metrics that it wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pacesetter.evaluation.programme.measured import seconds_learning

__all__ = ["NO_SPEED", "Speed", "speed"]

MOST = 0.8  # of the last validation score


@dataclass(frozen=True)
class Speed:
    """Steps of a run, and steps and seconds of learning until 80 % of its last validation score; NaN without one.

    A run that ends where it scores nothing has learned nothing, and no time for it.
    """

    steps: int
    steps_to: float
    seconds_to: float


NO_SPEED = Speed(0, float("nan"), float("nan"))


def speed(folder: Path, steps: int) -> Speed:
    """The speed of the run in `folder`; as fine as its validations are frequent."""
    path = folder / "metrics.jsonl"  # a run shorter than what it logs by has none
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    scores = {line["step"]: line["validation"]["score"] for line in lines if "score" in line.get("validation", {})}
    last = list(scores.values())[-1] if scores else None
    if last is None or last <= 0:
        return Speed(steps, *(float("nan"),) * 2)
    # The last score itself reaches it, so there always is one.
    reached = next(step for step, score in scores.items() if score is not None and score >= MOST * last)
    spent = [seconds_learning(line["seconds"]) for line in lines if "seconds" in line and line["step"] <= reached]
    return Speed(steps, float(reached), spent[-1] if spent else float("nan"))
