"""How a run's policy would be served, as its gates read it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.runs import EVALUATION
from pacesetter.serving.bundle.served import measure_served


def test_the_graph_is_the_policy_and_its_time_is_measured(trained_run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained_run, tmp_path / trained_run.name))
    (folder / EVALUATION).mkdir(exist_ok=True)
    found = json.loads(measure_served(folder).read_text(encoding="utf-8"))
    assert 0 <= found["difference"] < 1e-5
    assert 0 < found["p50_ms"] <= found["p95_ms"]
    assert found["p50_ms"] < found["p50_ms_143"] <= found["p95_ms_143"]
    assert 0.9 < found["bfloat16_agreement"] <= 1  # tiny, but far from a choice of another policy


def test_gates_of_serving_measure_and_others_may_not_apply(trained_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained_run, tmp_path / trained_run.name)
    served = CliRunner().invoke(app, ["validate", str(folder), "gates=phase_f", "--draws", "20"])
    assert "by the gates 'phase_f'" in served.output
    assert "0 not measured" in served.output
    refused = CliRunner().invoke(app, ["validate", str(folder), "gates=phase_c"])
    assert refused.exit_code == 1
    assert refused.output.startswith("NOT APPLICABLE: the gates 'phase_c' are about shaping or objectives")
    memo = (Path(folder) / EVALUATION / "decision.md").read_text(encoding="utf-8")
    assert "phase_f" in memo  # what does not apply decides nothing
