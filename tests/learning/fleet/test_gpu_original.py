"""The arms of the programme's experiment on a GPU: what each asks of `train`, and how runs come back."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.jobs import resolve
from pacesetter.learning.fleet.storage import load_fleet, save_fleet

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu_original.py"
SHAPES = {"window": (4, 3), "position": (5,)}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("gpu_original", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_original", module)
    spec.loader.exec_module(module)
    for name in module.SETS:
        (module.FOLDER / name / "supervised" / "mlp-1").mkdir(parents=True)
    return module


def test_arms_differ_in_what_they_say(script: ModuleType) -> None:
    options = argparse.Namespace(compile=True, device="cuda", work=Path("work"))
    plans = {name: resolve(arm.overrides(options)) for name, arm in script.ARMS.items()}
    assert {plan.train.device for plan in plans.values()} == {"cuda"}
    assert {plan.train.steps for plan in plans.values()} == {114_688}
    assert {plan.agent.network for plan in plans.values()} == {"transformer"}
    assert plans["main"].features.classifiers == ("device_data/us101/supervised/mlp-1",)
    assert not plans["plain"].features.classifiers
    assert plans["curriculum"].trading.curriculum == "programme"
    assert plans["continuous"].trading.action == "continuous"
    assert plans["professional"].trading.reward != plans["main"].trading.reward
    assert len(plans["us8"].task.symbols) == 8
    assert [plans[name].seed for name in ("main", "seed1", "seed2")] == [0, 1, 2]


def test_a_run_comes_back_with_its_encoder_rounded_or_as_it_is(script: ModuleType, tmp_path: Path) -> None:
    run = tmp_path / "20260101-main-1"
    fleet = Fleet(network("mlp_tiny"), SHAPES, ("A", "B"), 7)
    save_fleet(fleet, run / "checkpoints" / "best")
    (run / "checkpoints" / "last").mkdir()
    (run / "gates.html").write_text("a page")
    back = {}
    for is_exact in (True, False):
        packed = tmp_path / f"{is_exact}.tar.xz"
        packed.write_bytes(script.archive(run, is_exact))
        with tarfile.open(packed) as opened:
            opened.extractall(tmp_path / str(is_exact), filter="data")
        folder = tmp_path / str(is_exact) / run.name
        assert not (folder / "gates.html").exists()
        assert not (folder / "checkpoints" / "last").exists()
        back[is_exact] = load_fleet(folder / "checkpoints" / "best").state_dict()
    matrices = 0
    for name, tensor in fleet.state_dict().items():
        assert torch.equal(back[True][name], tensor)
        is_rounded = name.startswith("encoder.") and tensor.ndim >= 2
        matrices += is_rounded
        assert torch.equal(back[False][name], tensor.bfloat16().float() if is_rounded else tensor)
    assert matrices


def test_the_page_of_results_reads_runs_that_came_back(script: ModuleType, tmp_path: Path) -> None:
    run = tmp_path / "20260101-main-1"
    (run / "evaluation").mkdir(parents=True)
    gates = {f"agents that pass: {gate}": {"value": 0.1 * place} for place, gate in enumerate(script.STEP_GATES)}
    lines = [
        {"step": 512, "seconds": {"rollout": 1.0}},
        {"step": 512, "agents_validation": {"A": 0.5, "B": -1.5}},
        {"step": 512, "validation": {"score": -0.5, "deterministic": {"sharpe": -0.4, "gates": gates}}},
    ]
    (run / "metrics.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    (run / "manifest.json").write_text('{"best_step": 512}')
    figures = {name: {"total_return": 0.01, "turnover": 7.7, "exposure": 0.744} for name in script.SHOWN}
    intervals = {name: [3.8, -1.6, 9.3] for name in script.SHOWN}
    judged = {"figures": figures, "intervals": intervals, "index": {"sharpe": 2.26}}
    (run / "evaluation" / "evaluation.json").write_text(json.dumps(judged))
    recovery = {"deterministic": {"entropy": {"passed": True}, "states": {"passed": False}}}
    (run / "gates.json").write_text(json.dumps({"gates": recovery}))
    held = [{"state": state} for state in ("pass", "pass", "FAIL", "not measured")]
    decision = {"decision": "NO-GO", "gates": "recovery", "held": held}
    (run / "evaluation" / "decision.json").write_text(json.dumps(decision))

    shares = ["0%", "10%", "20%", "30%", "40%"]
    assert script.step_rows(run, "main") == [["main", 512, "-0.50", "-0.50", "1 of 2", *shares]]
    row = script.judged_row(run, "main")
    assert row[:3] == ["main", 512, "3.80 (-1.60 to 9.30)"]
    assert row[-7:] == ["2.26", "+1.0%", "+1.0%", "8×", "74%", "1 of 2", "NO-GO by recovery: 2/1/1"]
    assert len(row) == len(script.JUDGED_HEADER)
