"""A day of server and paper trader on a virtual clock: the memory stays flat; and a leak is seen."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

SOAK = Path(__file__).parents[1] / "soak.py"
MOST_MB = 6.0  # that the last quarter of the day may be above its second


def soaked(made: Any, folder: Path, hours: int, leak: int = 0) -> dict[str, Any]:
    bars = made.panel.save(folder / "bars.parquet")
    line = [sys.executable, str(SOAK), str(made.folder), str(bars), str(folder), str(hours), str(leak)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def growth(memory: list[float]) -> float:
    """MB by which the last quarter is above the second."""
    quarter = len(memory) // 4
    return median(memory[-quarter:]) - median(memory[quarter : 2 * quarter])


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_the_memory_of_a_day_is_flat(made: Any, tmp_path: Path, sized: Callable[[int], int]) -> None:
    told = soaked(made, tmp_path, max(4, sized(24)))
    found = growth(told["memory"])
    print(
        f"{told['hours']} hours: {told['requests']} requests, {told['bars']} bars traded, {told['memory']} MB, ", end=""
    )
    print(f"last quarter {found:+.1f} MB against the second")
    assert found < MOST_MB


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_a_leak_of_40_kilobytes_a_minute_would_be_seen(made: Any, tmp_path: Path) -> None:
    found = growth(soaked(made, tmp_path, 8, leak=40_000)["memory"])
    print(f"a leak of 40 kB a minute shows as {found:+.1f} MB in eight hours")
    assert found > MOST_MB
