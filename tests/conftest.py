"""What tests share: the repository's root, the optional data beside it, and a way to call the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
US143 = ROOT.parent / "shared" / "data" / "us143_daily_2005_2016.parquet"


@pytest.fixture
def us143() -> Path:
    """143 US stocks, daily 2005–2016; the file is not shipped."""
    if not US143.exists():
        pytest.skip("us143_daily_2005_2016.parquet is not beside this checkout (../shared/data)")
    return US143


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `pacesetter …` as a user does, in an empty folder; gives exit code and output."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "pacesetter.cli", *words]
        width = os.environ | {"COLUMNS": "160", "TERM": "dumb"}
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=width, check=False)

    return call
