"""The kill switch: a latched file that works without anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pacesetter.cli.paper import register
from pacesetter.errors import ConfigError
from pacesetter.serving.halt import KillSwitch


def test_it_is_latched_in_the_file_until_a_named_person_releases_it(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "deep" / "HALT")
    assert (switch.engaged(), switch.reason(), switch.take_release()) == (False, "", "")
    switch.engage("the desk\nburns")
    switch.engage("a later reason")
    again = KillSwitch(switch.path)
    assert (again.engaged(), again.reason()) == (True, "the desk burns")
    with pytest.raises(ConfigError, match="name of the person"):
        again.release(" ")
    again.release("Ada")
    assert not switch.engaged()
    assert (switch.take_release(), switch.take_release()) == ("Ada", "")


def test_engaging_forgets_an_old_release(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "HALT")
    switch.engage("one")
    switch.release("Ada")
    switch.engage("two")
    switch.path.unlink()
    assert switch.take_release() == ""


def test_any_file_counts_and_so_does_a_path_that_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "HALT").touch()
    assert KillSwitch(tmp_path / "HALT").engaged()
    assert KillSwitch(tmp_path / "HALT").reason().endswith("HALT exists")
    assert KillSwitch(tmp_path / "HALT" / "below a file").engaged()


def test_a_full_disk_still_takes_the_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: str) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pacesetter.serving.halt.write_atomic", full)
    switch = KillSwitch(tmp_path / "HALT")
    switch.engage("x")
    assert switch.engaged()


def test_the_command_line_halts_and_resumes(tmp_path: Path) -> None:
    app = typer.Typer()
    register(app)
    file = tmp_path / "HALT"
    halted = CliRunner().invoke(app, ["halt", "markets closed", "--file", str(file)])
    assert halted.exit_code == 0
    assert json.loads(file.read_text())["reason"] == "markets closed"
    assert CliRunner().invoke(app, ["resume", "--file", str(file)]).exit_code == 2
    assert CliRunner().invoke(app, ["resume", "--by", "Ada", "--file", str(file)]).exit_code == 0
    assert KillSwitch(file).take_release() == "Ada"
