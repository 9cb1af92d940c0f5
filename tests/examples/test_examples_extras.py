"""Examples that need an extra run as they are where it is installed: RLlib's algorithms, and PPO in one file."""

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


@pytest.mark.parametrize("algorithm", ["ppo", "impala", "appo"])
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


PLAYED_MODULE = """
import ray, torch
import rllib_lookback as example
from ray.tune.registry import register_env

register_env(example.ENVIRONMENT, example.make_env)
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
algorithm, sampled = example.make_algorithm("impala"), 0
while not sampled:
    sampled = int(algorithm.train()["env_runners"].get("num_env_steps_sampled_lifetime", 0))
begun = {name: value.clone() for name, value in algorithm.get_module().state_dict().items()}
example.learned(algorithm)
played = algorithm.get_module().state_dict()
print("moved", any(not torch.equal(begun[name], played[name]) for name in begun))
"""


@pytest.mark.proof
def test_rllib_plays_the_weights_that_its_learner_has(tmp_path: Path) -> None:
    pytest.importorskip("ray.rllib")
    (tmp_path / "played.py").write_text(PLAYED_MODULE)
    words = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    own = os.environ | {"HOME": str(tmp_path), "RAY_TMPDIR": "/tmp", "OMP_NUM_THREADS": "1", "PYTHONPATH": words}
    line = [sys.executable, "played.py"]
    shown = subprocess.run(line, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=280, check=False)
    assert "moved True" in shown.stdout, shown.stderr


def test_the_cluster_file_is_one_of_ray() -> None:
    util = pytest.importorskip("ray.autoscaler._private.util")
    described = yaml.safe_load((EXAMPLES / "cluster.yaml").read_text(encoding="utf-8"))
    util.validate_config(util.prepare_config(described))  # what `ray up` does first
    assert any("ray start --head" in line for line in described["head_start_ray_commands"])
