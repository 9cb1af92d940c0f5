"""A stand-in for training whose best settings are known, tasks that kill their workers, and one Ray for all tests."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pacesetter.build import Plan
from pacesetter.jobs.launch import assignment as task
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.jobs.run.train import TrainingResult
from pacesetter.runs import Run

BEST_RATE, VALIDATIONS = 1e-3, 4


def known_score(config: Plan) -> float:
    """Best at a learning rate of 1e-3; 0.5 less without entropy; a little of the seed."""
    miss = math.log10(config.agent.options["learning_rate"] / BEST_RATE)
    return -(miss**2) - 0.5 * (config.agent.options["ent_coef"] == 0) + 0.01 * config.seed


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Replaces training by `known_score`; gives the configurations that were trained, in order."""
    seen: list[Plan] = []

    def train(
        config: Plan | None = None, *, report: Any = None, console: Any = None, resume: Path | None = None
    ) -> TrainingResult:
        if config is None:
            assert resume is not None
            return TrainingResult(Run(resume), **Run(resume).manifest)
        seen.append(config)
        run, score = Run(Path(config.runs) / "run"), known_score(config)
        poor = next((step for step in range(1, VALIDATIONS) if report is not None and report(step, score)), None)
        facts = {
            "steps": poor or VALIDATIONS,
            "score": score,
            "weights_hash": "",
            "stopped": "report" if poor else "steps",
        }
        run.write_json("manifest.json", facts)
        return TrainingResult(run, **facts)

    monkeypatch.setattr(task, "train", train)
    return seen


TASKS = '''
import os, signal, time
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

def devices(folder):
    """The GPUs that the worker sees, once two workers are there."""
    Path(folder, f"pid-{os.getpid()}").touch()
    while len(list(Path(folder).glob("pid-*"))) < 2:
        time.sleep(0.05)
    return os.environ["CUDA_VISIBLE_DEVICES"]

def stay(folder):
    Path(folder, f"pid-{os.getpid()}").touch()
    time.sleep(600)
'''


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A module that worker processes can import too."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "launch_tasks.py").write_text(TASKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder))
        yield importlib.import_module("launch_tasks")


@pytest.fixture(scope="session")
def ray_here(tasks: Any) -> Iterator[None]:
    """Ray with two cores and, as it believes, a GPU, started once; its start takes seconds."""
    ray = pytest.importorskip("ray", reason="Ray is not installed (pacesetter[ray]): many machines are not tested")
    init = ray.init

    def with_a_gpu(address: str | None = None, **options: Any) -> Any:
        return init(address=address, **options, **({} if address else {"num_gpus": 1}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray, "init", with_a_gpu)
        with Launcher("ray", workers=2).session():
            yield
    assert not ray.is_initialized()
