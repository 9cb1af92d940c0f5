"""The GPU benchmark of the fleet runs on the CPU at a tiny size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu_fleet.py"
TINY = "--device cpu --steps 32 --symbols 5 --envs 2 --rollout 8 --batch 8 --network mlp --bars 200 --out weights"


@pytest.mark.proof
def test_it_trains_stores_and_prints_its_tables(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    line = [sys.executable, str(SCRIPT), *TINY.split()]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    for part in ("| agents | 5 |", "| steps of each agent | 32 |", "read back equal: True", "same weights | True |"):
        assert part in done.stdout
    assert (tmp_path / "weights" / "fleet.json").is_file()
