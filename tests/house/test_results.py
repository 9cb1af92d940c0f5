"""Recorded results name the command that made them, and no folder of the machine that ran it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.name)
def test_the_command_of_a_result_names_no_folder_of_a_machine(page: Path) -> None:
    commands = re.findall(r"`(python benchmarks/[^`]*)`", page.read_text(encoding="utf-8"))
    assert [word for command in commands for word in command.split() if word.startswith("/")] == []


def test_a_recorded_command_keeps_the_name_of_a_folder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import record

    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks/one.py", "--folder", str(tmp_path / "kept"), "--record"])
    record.publish("one", "body", "One")
    assert "`python benchmarks/one.py --folder kept --record`" in (tmp_path / "one.md").read_text(encoding="utf-8")
