"""Every example runs as it is, in an empty folder, so that the first pages never lie."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("[0-9]*.py"))


LONG = ("04_lookback", "05_train", "06_fleet")  # they train, for half a minute and more
CASES = [pytest.param(path, marks=pytest.mark.proof) if path.stem in LONG else path for path in EXAMPLES]


@pytest.mark.parametrize("example", CASES, ids=lambda path: path.stem)
def test_example_runs_and_prints(example, tmp_path):
    shown = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.strip()
