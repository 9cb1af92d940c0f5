"""Over every source that needs no network: same options, same bars, in this process and in another; and sound ones."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.data import SOURCES, check, load
from pacesetter.panel import Panel

ONLINE = {"yahoo", "alpaca", "ccxt", "markets"}  # theirs is the recorded-answer test; markets reads a file or yahoo
SCRIPT = """
import json, sys
from pacesetter.data import load
print(json.dumps([load(name, **options).fingerprint for name, options in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small panel as csv and as parquet."""
    path = tmp_path_factory.mktemp("bars")
    panel = load("synthetic", symbols=3, bars=50, seed=4)
    rows = panel.to_frame().stack(future_stack=True).reset_index(names=["date", "symbol"])
    rows.to_csv(path / "bars.csv", index=False)
    panel.save(path / "bars.parquet")
    return path


def options_of(name: str, folder: Path) -> dict[str, Any]:
    """Small, fixed options for a source."""
    if name in ("csv", "parquet"):
        return {"path": str(folder / f"bars.{name}")}
    return {"synthetic": {"symbols": 4, "bars": 120, "seed": 7}, "sample": {"symbols": ["KO", "AAPL"]}}.get(name, {})


def offline() -> list[str]:
    return [name for name in SOURCES if name not in ONLINE]


def test_every_source_is_held_to_the_contract() -> None:
    assert set(offline()) >= {"synthetic", "sample", "csv", "parquet"}
    assert set(SOURCES) >= ONLINE


def test_the_same_options_give_the_same_bars_in_another_process(folder: Path) -> None:
    asked = [(name, options_of(name, folder)) for name in offline()]
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(asked), capture_output=True, text=True, check=True, timeout=600
    )
    assert json.loads(answer.stdout) == [load(name, **options).fingerprint for name, options in asked]


@pytest.mark.parametrize("name", offline())
def test_a_source_gives_a_sound_panel(name: str, folder: Path) -> None:
    panel = load(name, **options_of(name, folder))
    assert check(name, **options_of(name, folder)).ok
    assert panel == load(name, **options_of(name, folder))
    assert panel.causal
    assert np.isnan(panel.close[~panel.mask]).all()
    assert (panel.close[panel.mask] > 0).all()
    assert str(panel.index.tz) == "UTC"


@given(
    symbols=st.integers(1, 6),
    bars=st.integers(3, 60),
    seed=st.integers(0, 2**31),
    calendar=st.sampled_from(["weekdays", "24/7"]),
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_every_synthetic_market_passes_its_check_and_comes_back_from_every_file(
    folder: Path, symbols: int, bars: int, seed: int, calendar: str
) -> None:
    options = {"symbols": symbols, "bars": bars, "seed": seed, "calendar": calendar, "late_share": 0.3}
    panel = load("synthetic", **options)
    assert panel == load("synthetic", **options)
    assert panel.shape == (bars, symbols, 6)
    assert panel.rows(1, bars - 1).truth.regimes.tolist() == panel.truth.regimes[1 : bars - 1].tolist()
    stored, table = folder / "again.parquet", folder / "table.parquet"
    assert load("parquet", path=str(panel.save(stored))) == panel
    panel.to_frame().to_parquet(table)
    from_table = load("parquet", path=str(table), bar="1h")  # closes at midnight are moments here, not dates
    assert from_table.index.equals(panel.index)
    assert from_table == panel


@given(first=st.integers(0, 8000), count=st.integers(1, 20), columns=st.permutations(range(20)))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_every_part_of_the_sample_is_that_part(first: int, count: int, columns: list[int]) -> None:
    whole = sample()
    symbols = [whole.symbols[column] for column in columns[:count]]
    start, end = whole.index[first], whole.index[min(first + count, len(whole) - 1)]
    part = load("sample", symbols=symbols, start=str(start), end=str(end))
    assert part == whole.select(symbols).between(start, end)


@cache
def sample() -> Panel:
    return load("sample")
