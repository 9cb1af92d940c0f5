"""Profiles: calls and components of a real run, with and without pyinstrument."""

from __future__ import annotations

import importlib.util
import io
import pstats
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pacesetter.errors import RunError
from pacesetter.lab import profile as module
from pacesetter.lab.profile import components, profile
from pacesetter.runs import Run

SMALL = ["data=sandbox", "data.symbols=2", "data.bars=300", "features.names=[return_1]", "task.episode_bars=100"]
NETWORK = ["agent.network=mlp", "+agent.network_options.width=8"]
SHORT = ["agent.n_steps=16", "train.steps=1024", "train.log_every=256", "train.validate_every=0"]
QUIET = ["track.mlflow=off", "track.tensorboard=off", "track.progress=false"]


def test_a_run_is_profiled_with_a_flame_graph(tmp_path: Path) -> None:
    pytest.importorskip("pyinstrument")
    shown = io.StringIO()
    result = profile([*SMALL, *NETWORK, *SHORT, *QUIET, f"runs={tmp_path}"], console=Console(file=shown, width=120))
    page = result.calls.read_text(encoding="utf-8")
    assert result.calls.name == "profile.html"
    assert "build_panel" in page
    assert [part.name for part in result.components] == ["environment", "policy", "update"]
    assert sum(part.share for part in result.components) == pytest.approx(1)
    assert all(part.step_us > 0 for part in result.components)
    assert "µs per step" in shown.getvalue()
    assert (result.run.folder / "components.json").is_file()


def test_without_pyinstrument_pythons_profiler_counts_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "pyinstrument" else find_spec(name))
    shown = io.StringIO()
    result = profile([*SMALL, *NETWORK, *SHORT, *QUIET, f"runs={tmp_path}"], console=Console(file=shown, width=120))
    functions: Any = pstats.Stats(str(result.calls)).stats
    assert any(name == "build_panel" for _, _, name in functions)
    assert "pip install pyinstrument" in shown.getvalue()


def test_components_are_of_the_steps_that_were_measured(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "train", {})
    with pytest.raises(RunError, match=r"raise train\.steps"):
        components(run)
    run.log(step=100, seconds={"environment": 1.0, "update": 3.0})
    run.log(step=200, score=0.5)
    first, second = components(run)
    assert (first.share, first.step_us) == (0.25, 10_000)
    assert (second.share, second.step_us) == (0.75, 30_000)
