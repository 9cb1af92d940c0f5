"""Launchers: results in order from every kind of worker, killed workers replaced, errors as they were raised."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from pacesetter.errors import ConfigError
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.lab.scan import study_cell
from pacesetter.learning.workers import START, ProcessWorker, import_once


def test_without_workers_it_is_this_process(tasks: Any, tmp_path: Path) -> None:
    first, second = Launcher().run(tasks.square, [(3, 0, tmp_path), (2, 0, tmp_path)])
    assert (first[0], second[0]) == (9, 4)
    assert first[1] == second[1] == os.getpid()


@pytest.mark.parametrize("name", ["local", "ray"])
def test_killed_workers_are_replaced_and_errors_come_as_they_were_raised(
    name: Any, tasks: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if name == "ray":
        request.getfixturevalue("ray_here")
    with Launcher(name, workers=2, retries=1).session() as crew:
        found = crew.run(tasks.square, [(number, int(number == 1), tmp_path) for number in range(4)])
        assert [square for square, _ in found] == [0, 1, 4, 9]
        assert (tmp_path / "1-0").exists()
        assert os.getpid() not in {process for _, process in found}
        with pytest.raises(ConfigError, match=r"^task 7 is wrong$"):
            crew.run(tasks.refuse, [7])


@pytest.mark.skipif(START != "forkserver", reason="the system starts every process from nothing")
def test_processes_come_from_one_that_has_imported_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    import_once(study_cell)
    monkeypatch.setenv("PACESETTER_TEST", "now")
    workers = [ProcessWorker(1, START), ProcessWorker(1, START)]
    try:
        parents = {worker.submit(os.getppid).result(120) for worker in workers}
        assert len(parents) == 1
        assert os.getpid() not in parents
        assert workers[0].submit(os.getenv, "PACESETTER_TEST").result(120) == "now"  # not as when the first was started
    finally:
        for worker in workers:
            worker.dismiss()


@pytest.mark.usefixtures("ray_here")
def test_half_a_gpu_lets_two_actors_share_it(tasks: Any, tmp_path: Path) -> None:
    assert Launcher("ray", gpus=0.5).run(tasks.devices, [tmp_path] * 2) == ["0", "0"]
    with pytest.raises(ConfigError, match=r"no machine .* has .* launcher\.gpus=2; lower them"):
        Launcher("ray", gpus=2).run(tasks.devices, [tmp_path])


def test_a_worker_holds_a_share_of_a_machine() -> None:
    machines = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 3.0}, {}]
    assert Launcher("ray").slots(machines) == 11
    assert Launcher("ray", cores=2).slots(machines) == 5
    assert Launcher("ray", gpus=0.4).slots(machines) == 4  # two on each GPU
    assert Launcher("ray", gpus=0.1).slots(machines) == 8  # there are no more cores
    assert Launcher("ray", gpus=2).slots(machines) == 1
    with pytest.raises(ConfigError, match=r"no machine .* has launcher\.cores=1 and launcher\.gpus=4; lower them"):
        Launcher("ray", gpus=4).slots(machines)


def test_more_workers_than_cores_get_a_sentence(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    # A command before may have turned any of the loggers above it off or down.
    for name in (
        "pacesetter",
        "pacesetter.jobs",
        "pacesetter.jobs.launch",
        "pacesetter.jobs.launch.workers",
    ):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
    caplog.set_level(logging.WARNING, "pacesetter.jobs.launch.workers")
    with Launcher(workers=3).session():
        assert "launcher.workers=3 share the 2 cores of this machine; fewer may be faster" in caplog.text
    caplog.clear()
    with Launcher(workers=2).session():
        assert caplog.text == ""


def test_launchers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Launcher(workers=0)
    with pytest.raises(ConfigError, match="a share of one GPU or a whole number"):
        Launcher("ray", gpus=1.5)
    for options in ({"address": "auto"}, {"gpus": 1.0}):
        with pytest.raises(ConfigError, match="add launcher=ray"):
            Launcher(**options)  # type: ignore[arg-type]
