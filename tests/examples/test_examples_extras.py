"""Examples that need an extra run as they are where it is installed: RLlib's PPO and IMPALA, and PPO in one file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(folder: Path, name: str, *words: str) -> str:
    """What an example prints; RLlib writes into the home folder, which is the test's own here."""
    own = os.environ | {"HOME": str(folder), "RAY_TMPDIR": "/tmp", "OMP_NUM_THREADS": "1"}
    line = [sys.executable, str(EXAMPLES / name), *words]
    shown = subprocess.run(line, cwd=folder, env=own, capture_output=True, text=True, timeout=280, check=False)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


@pytest.mark.proof
def test_ppo_in_one_file_learns_from_the_native_vector_environment(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert "mean reward of a bar" in run(tmp_path, "cleanrl_ppo.py", "--steps", "2048")


@pytest.mark.parametrize("algorithm", ["ppo", pytest.param("impala", marks=pytest.mark.proof)])  # three minutes
@pytest.mark.proof
def test_rllib_trains_on_the_environments(tmp_path: Path, algorithm: str) -> None:
    pytest.importorskip("ray.rllib")
    name, _, told = run(tmp_path, "rllib.py", "--algorithm", algorithm).strip().splitlines()[-1].partition(": ")
    assert name == algorithm
    assert int(told.split()[0]) > 0


@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
@pytest.mark.proof
def test_rllib_chooses_windows_under_masks(tmp_path: Path, algorithm: str) -> None:
    pytest.importorskip("ray.rllib")
    name, _, told = (
        run(tmp_path, "rllib_lookback.py", "--algorithm", algorithm).strip().splitlines()[-1].partition(": ")
    )
    figures = {words.rpartition(" ")[0]: words.rpartition(" ")[2] for words in told.split(", ")}
    assert name == algorithm
    assert float(figures["steps"].replace(",", "")) >= 2048
    assert figures["infeasible"] == "0"  # no masked window was ever chosen
    assert {"reward", "constant 10", "constant 80"} <= set(figures)


def test_the_cluster_file_is_one_of_ray() -> None:
    util = pytest.importorskip("ray.autoscaler._private.util")
    described = yaml.safe_load((EXAMPLES / "cluster.yaml").read_text(encoding="utf-8"))
    util.validate_config(util.prepare_config(described))  # what `ray up` does first
    assert any("ray start --head" in line for line in described["head_start_ray_commands"])
