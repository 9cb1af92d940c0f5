"""Steps and seconds to 80 % of the last validation score, from a run's metrics."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pacesetter.lab.league.speed import speed


def write(folder: Path, scores: list[float | None], part: str = "policy") -> None:
    lines = []
    for place, score in enumerate(scores, start=1):
        lines.append({"step": 100 * place, "seconds": {part: 2.0 * place, "environment": 1.0 * place}})
        lines.append({"step": 100 * place, "validation": {"score": score}})
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(("part", "seconds"), [("policy", 6.0), ("rollout", 4.0)])
def test_the_first_validation_near_the_last_score_counts(part: str, seconds: float, tmp_path: Path) -> None:
    write(tmp_path, [0.1, 0.8, 0.7, 1.0], part)
    found = speed(tmp_path, 400)
    assert (found.steps, found.steps_to, found.seconds_to) == (400, 200.0, seconds)


@pytest.mark.parametrize("scores", [[], [0.3, -0.1], [None]])
def test_who_ends_with_nothing_has_learned_nothing(scores: list[float | None], tmp_path: Path) -> None:
    write(tmp_path, scores)
    assert np.isnan(speed(tmp_path, 400).steps_to)
