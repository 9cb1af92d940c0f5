"""ENOSPC, EIO and a read-only disk at every change that a paper trade and a training make: all end equal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.deaths import FORKS

HERE = Path(__file__).parent
BARS, EVERY_CHANGE = 6, 100_000


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file layer that fails, compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("NO FAILING DISK WAS TESTED: there is no C compiler here")
    target = tmp_path_factory.mktemp("layer") / "failing_disk.so"
    source = str(HERE / "failing_disk.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(target), source, "-ldl"], check=True)
    return target


def run(layer: Path, script: str, *words: object) -> None:
    line = [sys.executable, str(HERE / script), *map(str, words)]
    preloaded = os.environ | FORKS | {"LD_PRELOAD": str(layer)}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=preloaded)
    print(done.stdout)
    assert done.returncode == 0, done.stderr


def most_changes(sized: Callable[[int], int]) -> int:
    """All of them, or so many as a share of about three hundred is."""
    return EVERY_CHANGE if sized(1_000) == 1_000 else sized(300)


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_a_paper_trade_survives_a_fault_at_any_change(layer: Path, tmp_path: Path, sized: Callable[[int], int]) -> None:
    run(layer, "paper.py", tmp_path, BARS, most_changes(sized))


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_training_survives_a_fault_at_any_change(layer: Path, tmp_path: Path, sized: Callable[[int], int]) -> None:
    run(layer, "training.py", tmp_path, most_changes(sized))
