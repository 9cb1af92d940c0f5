"""The example package is installed beside Pacesetter, and its feature stands in the table of another process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "plugin"
PROGRAM = """
import numpy as np, pandas as pd, pacesetter as ps
index = pd.date_range("2020-01-01", periods=2, tz="UTC")
fields = {"high": [[4.0], [2.0]], "low": [[0.0], [2.0]], "close": [[3.0], [2.0]]}
table = ps.feature_table(ps.Panel.from_fields(index, ["A"], fields))
print(table.names[-1], table.values[0, :, -1].tolist(), table.memory["close_in_range"])
"""


def test_a_feature_from_an_installed_package_is_in_the_table(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(PLUGIN, source)  # setuptools builds beside the sources
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, capture_output=True, timeout=120)
    environment = os.environ | {"PYTHONPATH": str(site)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True, timeout=120
    )
    assert ran.stdout.strip() == "close_in_range [0.75, 0.5] 1"
