"""The line of a running training: the meter's figures, and the best score once there is one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pacesetter.jobs.run.progress import status


@pytest.mark.parametrize(
    ("figures", "state", "line"),
    [
        ([], {"best": 0.0, "scores": [0.5]}, ""),
        (["reward +0.1", "entropy 1.2"], {"best": 0.0, "scores": []}, "reward +0.1 entropy 1.2"),
        (["reward +0.1"], {"best": 0.25, "scores": [0.25]}, "reward +0.1 best +0.2500"),
    ],
)
def test_the_best_score_joins_the_figures(figures, state, line):
    assert status(SimpleNamespace(figures=lambda: figures), SimpleNamespace(state=state)) == line
