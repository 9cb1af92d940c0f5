"""`dvc repro` makes raw, processed and splits, and makes nothing again when nothing changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.proof
def test_repro_runs_the_stages_once(tmp_path):
    pytest.importorskip("dvc", reason="the extra `data` is not installed")
    for name in ("dvc.yaml", "params.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / ".dvc", tmp_path / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp", "config.local"))
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    quiet = os.environ | {"PATH": path, "DVC_NO_ANALYTICS": "1"}

    def dvc(*words: str) -> str:
        line = [sys.executable, "-m", "dvc", *words]
        return subprocess.run(line, cwd=tmp_path, env=quiet, capture_output=True, text=True, check=True).stdout

    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)  # a checkout; `dvc init` is not needed
    dvc("repro")
    made = {path.name for path in (tmp_path / "data").iterdir()} - {".gitignore"}
    assert {"raw.parquet", "processed.parquet", "splits.json", "raw.manifest.json"} <= made
    assert "Data and pipelines are up to date" in dvc("repro")
    dvc("remote", "add", "--default", "--local", "store", str(tmp_path / "store"))
    dvc("push")
    shutil.rmtree(tmp_path / ".dvc" / "cache")
    shutil.rmtree(tmp_path / "data")
    dvc("pull")
    assert (tmp_path / "data" / "splits.json").is_file()
