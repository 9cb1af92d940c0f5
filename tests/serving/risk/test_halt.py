"""The kill switch: a latched file that works without anything else."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import pytest
import typer
from typer.testing import CliRunner

from pacesetter.cli.paper import register
from pacesetter.errors import ConfigError
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.order import State


def test_it_is_latched_in_the_file_until_a_named_person_releases_it(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "deep" / "HALT")
    assert (switch.is_engaged(), switch.reason(), switch.take_release()) == (False, "", "")
    assert switch.engage("the desk\nburns")
    assert not switch.engage("a later reason")
    again = KillSwitch(switch.path)
    assert (again.is_engaged(), again.reason()) == (True, "the desk burns")
    with pytest.raises(ConfigError, match="name of the person"):
        again.release(" ")
    assert again.release("Ada")
    assert not again.release("Ada")
    assert not switch.is_engaged()
    assert (switch.take_release(), switch.take_release()) == ("Ada", "")


def test_engaging_forgets_an_old_release(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "HALT")
    switch.engage("one")
    switch.release("Ada")
    switch.engage("two")
    switch.path.unlink()
    assert switch.take_release() == ""


def test_one_release_is_for_all_that_share_the_file(tmp_path: Path) -> None:
    switches, guards = [KillSwitch(tmp_path / "HALT") for _ in range(2)], [Guard(), Guard()]
    KillSwitch(tmp_path / "HALT").engage("fire")
    pairs = list(zip(switches, guards, strict=True))
    assert [switch.sync_with_guard(guard) for switch, guard in pairs] == [("halt", "fire")] * 2
    assert [switch.sync_with_guard(guard) for switch, guard in pairs] == [None] * 2
    KillSwitch(tmp_path / "HALT").release("Ada")
    assert [switch.sync_with_guard(guard) for switch, guard in pairs] == [("resume", "by Ada")] * 2
    assert [guard.state for guard in guards] == [State.ACTIVE] * 2


def test_an_old_release_does_not_resume_a_guard_that_halts_later(tmp_path: Path) -> None:
    switch, guard = KillSwitch(tmp_path / "HALT"), Guard()
    switch.engage("fire")
    switch.release("Ada")
    assert switch.sync_with_guard(guard) is None
    guard.halt("loss of the day")
    assert switch.sync_with_guard(guard) == ("halt", "loss of the day")
    assert (switch.is_engaged(), switch.reason()) == (True, "loss of the day")


def test_a_release_is_not_lost_between_two_threads(tmp_path: Path) -> None:
    is_taken, may_resume = Event(), Event()

    class Slow(KillSwitch):
        """Stops between taking a release and resuming."""

        def take_release(self) -> str:
            by = super().take_release()
            if by:
                is_taken.set()
                may_resume.wait(600)
            return by

    switch, guard = Slow(tmp_path / "HALT"), Guard()
    switch.engage("fire")
    switch.sync_with_guard(guard)
    switch.release("Ada")
    loop, worker = (Thread(target=switch.sync_with_guard, args=(guard,)) for _ in range(2))
    loop.start()
    assert is_taken.wait(600)
    worker.start()
    worker.join(0.2)
    may_resume.set()
    for thread in (loop, worker):
        thread.join(600)
    assert (switch.is_engaged(), guard.state) == (False, State.ACTIVE)


def test_any_file_counts_and_so_does_a_path_that_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "HALT").touch()
    assert KillSwitch(tmp_path / "HALT").is_engaged()
    assert KillSwitch(tmp_path / "HALT").reason().endswith("HALT exists")
    assert datetime.now(UTC) - datetime.fromisoformat(KillSwitch(tmp_path / "HALT").since()) < timedelta(minutes=1)
    assert KillSwitch(tmp_path / "HALT" / "below a file").is_engaged()


def test_a_full_disk_still_takes_the_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: str) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pacesetter.serving.risk.halt.write_atomic", full)
    switch = KillSwitch(tmp_path / "HALT")
    switch.engage("x")
    assert switch.is_engaged()


def test_it_says_whose_limit_engaged_it_and_how_it_is_released(tmp_path: Path) -> None:
    switch, guard = KillSwitch(tmp_path / "HALT it"), Guard()
    guard.halt("loss of the day")
    switch.sync_with_guard(guard, "run 'a'")
    assert switch.engaged_by() == "run 'a'"
    assert switch.way_out == f"pacesetter resume --by NAME --file '{tmp_path}/HALT it'"
    switch.release("Ada")
    switch.engage("a person said so")
    assert switch.engaged_by() == ""


def test_a_place_where_nobody_could_halt_is_refused(tmp_path: Path) -> None:
    KillSwitch(tmp_path / "made" / "HALT").check_usable()
    assert (tmp_path / "made").is_dir()
    for place in (tmp_path, Path("/proc/nowhere/HALT"), Path(__file__) / "HALT"):
        with pytest.raises(ConfigError, match="cannot be a kill switch"):
            KillSwitch(place).check_usable()


def test_the_command_line_halts_and_resumes(tmp_path: Path) -> None:
    app = typer.Typer()
    register(app)
    file = tmp_path / "HALT"
    halted = CliRunner().invoke(app, ["halt", "markets", "closed", "--file", str(file)])
    assert halted.exit_code == 0
    told = json.loads(file.read_text())
    assert told["reason"] == "markets closed"
    again = CliRunner().invoke(app, ["halt", "another reason", "--file", str(file)])
    assert again.output == f"{file} was engaged already, at {told['at']}: markets closed\n"
    assert CliRunner().invoke(app, ["resume", "--file", str(file)]).exit_code == 2
    assert CliRunner().invoke(app, ["resume", "--by", "Ada", "--file", str(file)]).exit_code == 0
    assert KillSwitch(file).take_release() == "Ada"
    nothing = CliRunner().invoke(app, ["resume", "--by", "Ada", "--file", str(file)])
    assert nothing.output.endswith("was not engaged; nothing to resume\n")


def test_what_is_no_file_halts_nothing_and_is_not_released(tmp_path: Path) -> None:
    app = typer.Typer()
    register(app)
    for place in (tmp_path, Path(__file__) / "HALT", Path("/proc/nowhere/HALT"), Path()):
        with pytest.raises(ConfigError, match="so nothing is halted"):
            CliRunner().invoke(app, ["halt", "--file", str(place)], catch_exceptions=False)
    switch = KillSwitch(tmp_path)
    with pytest.raises(ConfigError, match="remove it by hand"):
        switch.release("Ada")
    assert switch.is_engaged()
    assert switch.take_release() == ""
