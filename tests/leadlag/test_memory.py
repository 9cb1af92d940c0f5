"""Free memory as the system counts it, and the sentence where work cannot fit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pacesetter.errors import DataError
from pacesetter.leadlag import memory
from pacesetter.leadlag.memory import check_memory, free_bytes


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """3 GiB free on the machine, and a container's folder without limits."""
    (tmp_path / "meminfo").write_text("MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable:  3145728 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    monkeypatch.setattr(memory, "_own_limit", lambda: math.inf)
    return tmp_path


def test_the_smallest_of_machine_container_and_own_limit_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert free_bytes() == 3 * 2**30
    (machine / "memory.current").write_text(f"{2**30}\n")
    (machine / "memory.max").write_text("max\n")
    assert free_bytes() == 3 * 2**30
    (machine / "memory.max").write_text(f"{2 * 2**30}\n")
    assert free_bytes() == 2**30
    monkeypatch.setattr(memory, "_own_limit", lambda: 5.0)
    assert free_bytes() == 5.0
    (machine / "meminfo").unlink()
    monkeypatch.setattr(memory, "_own_limit", lambda: math.inf)
    (machine / "memory.max").write_text("max\n")
    assert free_bytes() == math.inf


def test_what_does_not_fit_is_one_sentence(machine: Path) -> None:
    check_memory(3 * 2**30, "this", "take less")
    with pytest.raises(DataError, match=r"^this needs about 60.0 GiB of memory, and 3.0 GiB are free; take less$"):
        check_memory(60 * 2**30, "this", "take less")


def test_this_process_has_some() -> None:
    assert free_bytes() > 2**20
