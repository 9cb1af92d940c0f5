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


def test_what_was_run_is_kept_in_its_folder_and_not_run_again(script: ModuleType, tmp_path: Path) -> None:
    row = script.Row("a", "works", ("pacesetter --version", "make test"), "")
    (known, left_out) = script.try_row(row, script.Workshop(tmp_path, is_known_only=True))
    assert (known.result, left_out.result) == ("not run", "left out")
    script.try_row(row, script.Workshop(tmp_path))
    outcomes = script.try_row(row, script.Workshop(tmp_path, is_known_only=True))
    assert [outcome.result for outcome in outcomes] == ["works", "left out"]
    script.record(outcomes, script.summary(outcomes), "abc", tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "1 of 1 commands work; 1 were left out." in page
    assert "| a | `pacesetter --version` | works |" in page
