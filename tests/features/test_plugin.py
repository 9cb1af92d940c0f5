"""The example package is installed beside Pacesetter: its feature is in a table, and its method trains a fleet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "plugin"
FEATURE = """
import numpy as np, pandas as pd, pacesetter as ps
index = pd.date_range("2020-01-01", periods=2, tz="UTC")
fields = {"high": [[4.0], [2.0]], "low": [[0.0], [2.0]], "close": [[3.0], [2.0]]}
table = ps.feature_table(ps.Panel.from_fields(index, ["A"], fields))
print(table.names[-1], table.values[0, :, -1].tolist(), table.memory["close_in_range"])
"""
METHOD = """
import sys
from pacesetter.errors import ConfigError
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
small = ["data=synthetic", "data.symbols=2", "data.bars=200", "features.names=[return_1]", "task.window_bars=4"]
small += ["task.episode_bars=20", "task.retrain_share=0", "train.envs=4", "train.steps=128", "train.validate_every=64"]
small += ["track.mlflow=off", "track.tensorboard=off", "track.progress=false", f"runs={sys.argv[1]}"]
config = resolve(["task=fleet", "agent=reinforce", "agent.n_steps=8", *small])
result = train(config)
again = train(config)
print(result.weights_hash == again.weights_hash, StoredRun(result.run.folder).policy.name)
try:
    resolve(["task=trading", "agent=reinforce"])
except ConfigError as refused:
    print(refused)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed."""
    folder = tmp_path_factory.mktemp("plugin")
    source, site = folder / "source", folder / "site"
    shutil.copytree(PLUGIN, source)  # setuptools builds beside the sources
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, capture_output=True, timeout=600)
    return site


def run(site: Path, program: str, *arguments: str) -> str:
    """What a program prints in a process that has the package."""
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_feature_from_an_installed_package_is_in_the_table(site: Path) -> None:
    assert run(site, FEATURE) == "close_in_range [0.75, 0.5] 1"


def test_a_method_from_an_installed_package_trains_a_fleet(site: Path, tmp_path: Path) -> None:
    *_, repeated, refused = run(site, METHOD, str(tmp_path)).splitlines()
    assert repeated == "True fleet"
    sentence, _, others = refused.partition("; use agent=")
    assert sentence == "agent=reinforce does not support task=trading, only fleet"
    assert {"ppo", "a2c"} <= set(others.split(" or "))
    assert "reinforce" not in others
