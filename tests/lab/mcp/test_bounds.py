"""The worker of `pacesetter mcp`: one call's time and memory are bounded, and the next call is answered."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.lab.mcp.bounds import BoundedWorker
from pacesetter.lab.mcp.folder import Folder


def fill(megabytes: int) -> dict[str, Any]:
    return {"megabytes": np.ones(megabytes * 2**17).nbytes // 2**20}


def die() -> dict[str, Any]:
    os._exit(1)


def divide() -> dict[str, Any]:
    print("not for the protocol")
    return {"what": 1 // 0}


def place() -> dict[str, Any]:
    return {"folder": os.getcwd()}


def write() -> dict[str, Any]:
    return {"file": tempfile.mkstemp()[1]}


def fail_to_settle(*_: object) -> None:
    raise ImportError("no such module")


@pytest.fixture(scope="module")
def bounds() -> Iterator[BoundedWorker]:
    made = BoundedWorker(seconds=60, memory=2 * 2**30)
    yield made
    made.close()


@pytest.mark.skipif(sys.platform != "linux", reason="NO LIMIT OF MEMORY WAS TESTED: only Linux has one for data")
def test_more_memory_than_allowed_is_refused(bounds: BoundedWorker) -> None:
    assert bounds.call(fill, 64) == {"megabytes": 64}
    with pytest.raises(ConfigError, match=r"needs more memory than the 2 GB it may have; give fewer bars"):
        bounds.call(fill, 4096)
    assert bounds.call(fill, 64) == {"megabytes": 64}


def test_a_worker_that_dies_or_fails_is_one_sentence(bounds: BoundedWorker, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"^ZeroDivisionError: integer division or modulo by zero$"):
        bounds.call(divide)
    assert capfd.readouterr().out == ""
    with pytest.raises(ConfigError, match="ended without an answer"):
        bounds.call(die)
    assert bounds.call(fill, 1) == {"megabytes": 1}


def test_it_works_in_a_folder_of_its_own_that_is_removed() -> None:
    bounds = BoundedWorker(seconds=60, memory=0)
    folder = Path(bounds.call(place)["folder"])
    assert Path(bounds.call(write)["file"]).parent == folder
    assert folder.name.startswith("pacesetter-mcp-")
    assert folder != Path.cwd()
    bounds.close()
    assert not folder.exists()


def test_a_late_call_is_stopped_and_the_next_one_answers() -> None:
    bounds = BoundedWorker(seconds=3, memory=0)
    with pytest.raises(ConfigError, match="the call took longer than 3 s and was stopped; give fewer bars"):
        bounds.call(time.sleep, 3600)
    assert bounds.call(dict) == {}
    bounds.close()


def test_a_worker_without_its_bounds_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pacesetter.lab.mcp.bounds._settle", fail_to_settle)
    bounds = BoundedWorker(seconds=60, memory=0)
    for _ in range(2):
        with pytest.raises(ImportError, match="no such module"):
            bounds.call(dict)
    bounds.close()


def test_a_large_folder_is_listed_in_part_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pacesetter.lab.mcp.folder.MOST_LOOKED_AT", 3)
    for name in "ABCDE":
        (tmp_path / f"{name}.csv").write_text("x", encoding="utf-8")
    listed = Folder.open(tmp_path).list()
    assert len(listed["bars"]) == 3
    assert listed["notes"] == ["only 3 paths were looked at"]


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "link", "\0"])
def test_a_path_outside_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "a").write_text("x", encoding="utf-8")
    (tmp_path / "own" / "link").symlink_to(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"is outside the folder|is not a path in this folder"):
        Folder.open(tmp_path / "own").inside(name)


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist; give the folder of your bars and bundles"):
        Folder.open(tmp_path / "none")
