"""Launchers: results in order from every kind of worker, killed workers replaced, errors as they were raised."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from pacesetter.errors import ConfigError, RunError
from pacesetter.training.launch import Launcher

TASKS = '''
import os, signal
from pathlib import Path
from pacesetter.errors import ConfigError

def square(task):
    """The square; kills its own worker as often as the task says."""
    number, kills, folder = task
    marks = len(list(Path(folder).glob(f"{number}-*")))
    if marks < kills:
        Path(folder, f"{number}-{marks}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number, os.getpid()

def refuse(task):
    raise ConfigError(f"task {task} is wrong")
'''


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that worker processes can import too."""
    (tmp_path / "launch_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return importlib.import_module("launch_tasks")


def test_one_local_worker_is_this_process(tasks: Any, tmp_path: Path) -> None:
    first, second = Launcher().run(tasks.square, [(3, 0, tmp_path), (2, 0, tmp_path)])
    assert (first[0], second[0]) == (9, 4)
    assert first[1] == second[1] == os.getpid()


def test_a_killed_process_is_replaced(tasks: Any, tmp_path: Path) -> None:
    jobs = [(number, int(number == 1), tmp_path) for number in range(4)]
    assert [found for found, _ in Launcher(workers=2).run(tasks.square, jobs)] == [0, 1, 4, 9]
    assert (tmp_path / "1-0").exists()


def test_a_worker_that_always_dies_is_given_up(tasks: Any, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="workers were killed 2 times"):
        Launcher(workers=2, retries=1).run(tasks.square, [(5, 9, tmp_path)])


def test_ray_replaces_killed_workers_and_hands_errors_on(tasks: Any, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    jobs = [(number, int(number == 1), tmp_path) for number in range(3)]
    launcher = Launcher("ray", retries=1)
    with launcher.session():
        assert [found for found, _ in launcher.run(tasks.square, jobs)] == [0, 1, 4]
        assert (tmp_path / "1-0").exists()
        with pytest.raises(ConfigError, match=r"^task 7 is wrong$"):
            launcher.run(tasks.refuse, [7])
        with pytest.raises(RunError, match="workers were killed 2 times"):
            launcher.run(tasks.square, [(5, 9, tmp_path)])
    assert not ray.is_initialized()


def test_errors_come_as_they_were_raised(tasks: Any) -> None:
    with pytest.raises(ConfigError, match=r"^task 7 is wrong$"):
        Launcher(workers=2).run(tasks.refuse, [7])


def test_launchers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Launcher(workers=0)
    with pytest.raises(ConfigError, match="add launcher=ray"):
        Launcher(address="auto")
