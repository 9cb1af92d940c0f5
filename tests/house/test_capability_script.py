"""The script that runs every row of the capabilities page: it knows each command, and shrinks or leaves it out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("capabilities", ROOT / "scripts" / "capabilities.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_is_read_and_one_in_part_says_which(script: ModuleType) -> None:
    rows = script.read_rows(script.PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 90
    assert all(row.commands for row in rows if row.status != "planned")
    assert all(row.missing for row in rows if row.status == "part")
    with pytest.raises(SystemExit, match="holds in part and does not say which"):
        script.read_rows("| LL-1 | x | part | `pacesetter run` | `tests/x.py` |")


def test_commands_are_made_small_without_changing_what_they_ask_for(script: ModuleType) -> None:
    words = script.smaller("pacesetter train agent=ppo data=sample train.steps=9")
    assert words[:5] == ["pacesetter", "train", "agent=ppo", "data=sample", "train.steps=9"]
    assert "train.steps=64" not in words
    assert "train.envs=4" in words
    assert not any(word.startswith("data.symbols") for word in words)
    assert script.smaller("pacesetter data split")[-1] == "data/raw.parquet"
    assert script.left_out("make test")
    assert not script.left_out("pacesetter data check")


def test_a_row_is_run_for_real_and_a_command_that_fails_is_said_to(script: ModuleType, tmp_path: Path) -> None:
    workshop = script.Workshop(tmp_path)
    good, bad = script.Row("a", "works", ("pacesetter data list",), ""), script.Row("b", "works", ("pacesetter x",), "")
    assert [found.result for found in script.try_row(good, workshop)] == ["works"]
    assert [found.result for found in script.try_row(bad, workshop)] == ["FAILED"]
