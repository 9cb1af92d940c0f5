"""A comparison says of a run that learned offline what it learned from, and what the data said of it."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from pacesetter.errors import RunError
from pacesetter.evaluation.report.compare import Judged
from pacesetter.methods.offline.page import offline_section

ESTIMATES = [
    {"name": "WIS", "value": 1.25, "low": 1.0, "high": 1.5},
    {"name": "market", "value": -0.00031249, "low": -0.0020401, "high": 0.0},
]
DATASET = {"source": "random", "regimes": ["random"], "episodes": 5120, "rows": 512_000}


def judged(folder, name: str, facts: dict | None) -> Judged:
    place = folder / name / "evaluation"
    place.mkdir(parents=True)
    if facts is not None:
        (folder / name / "offline.json").write_text(json.dumps(facts))
    return Judged(name, {"policy": "agent"}, pd.DataFrame(), place)


def test_offline_runs_have_a_table_of_their_own(tmp_path):
    facts = {"held_out": {"accuracy": 0.91}, "estimates": ESTIMATES, "agent": "cql", "dataset": DATASET}
    runs = [judged(tmp_path, "online", None), judged(tmp_path, "offline", facts)]
    section = offline_section(runs)
    assert section is not None
    (row,) = section.rows
    assert row[:5] == ("offline", "cql", "random (random)", "5,120", "91.0%")
    cells = dict(zip(section.header, row, strict=True))
    assert cells["WIS"] == "+1.25 (+1.00 to +1.50)"
    assert cells["DR"] == "–"  # what could not be estimated
    assert cells["market"] == "-0.000312 (-0.00204 to 0)"
    assert offline_section(runs[:1]) is None


def test_a_damaged_report_is_refused(tmp_path):
    with pytest.raises(RunError, match="is damaged"):
        offline_section([judged(tmp_path, "a", {"held_out": {}})])
