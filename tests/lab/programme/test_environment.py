"""The environment check names what is installed beside what is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacesetter.data.loading import check
from pacesetter.lab.programme import environment
from pacesetter.lab.programme.environment import check_environment, environment_section, readiness_sections


def test_versions_and_hardware_are_named(tmp_path: Path) -> None:
    rows = {row.name: row for row in check_environment(tmp_path / "runs")}
    assert rows["Python"].is_enough
    assert rows["numpy"].is_enough
    assert rows["numpy"].wanted
    assert rows["GPU"].wanted == "optional"
    assert rows["free disk"].value.endswith("GB")


def test_versions_asked_for_are_those_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["numpy>=2", 'torch==9.9; extra == "rl"', 'dash; extra == "x"']
    monkeypatch.setattr(environment, "requires", lambda _: asked)
    rows = environment._packages()
    assert [(row.name, row.wanted) for row in rows] == [("numpy", ">=2"), ("torch", "==9.9")]
    assert not rows[1].is_enough


def test_what_is_missed_is_said(tmp_path: Path) -> None:
    row = environment._package("numpy", ">=99")
    assert not row.is_enough
    assert not environment._package("no-such-package", ">=1").is_enough
    assert "Not as asked for: numpy." in environment_section([row]).text


def test_bars_without_a_calendar_name_none() -> None:
    readiness = check("synthetic", symbols=4, bars=60, groups=1)
    assert readiness.calendar is None
    assert "None" not in readiness_sections(readiness)[0].text
