"""Real training on workers: a sweep on Ray whose worker is killed ends as the undisturbed one, bit-exactly."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.jobs.launch.sweep import sweep

MARKET = ["data=sample", "features.names=[return_1]", "task.symbols=[AAPL]", "task.episode_bars=100"]
AGENT = ["agent.network=mlp", "+agent.network_options.width=8", "agent.n_steps=16"]
RUN = ["train.steps=8000", "train.checkpoint_every=1000", "train.validate_every=4000", "seed=0,1"]
QUIET = ["track.mlflow=off", "track.tensorboard=off", "track.progress=false"]


def kill_a_worker(root: Path, killed: list[int]) -> None:
    """Kill Ray's worker of a task that has stored a checkpoint, once."""
    import psutil

    until = time.monotonic() + 120
    while time.monotonic() < until and not killed:
        if list(root.rglob("checkpoints/last/state.json")):
            workers = [child for child in psutil.Process().children(recursive=True) if _is_task(child)]
            for worker in workers[:1]:
                worker.kill()
                killed.append(worker.pid)
        time.sleep(0.05)


def _is_task(process: object) -> bool:
    import psutil

    try:
        return "ray::Hands" in " ".join(process.cmdline())  # type: ignore[attr-defined]
    except psutil.Error:
        return False


@pytest.mark.proof
def test_a_sweep_whose_worker_is_killed_ends_the_same(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    words = [*MARKET, *AGENT, *RUN, *QUIET]
    console = Console(quiet=True)
    plain = sweep([*words, f"runs={tmp_path}/plain"], console=console)
    killed: list[int] = []
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path / "killed", killed))
    killer.start()
    disturbed = sweep([*words, f"runs={tmp_path}/killed", "launcher=ray", "launcher.workers=2"], console=console)
    killer.join()
    assert killed
    assert disturbed.runs["weights_hash"].tolist() == plain.runs["weights_hash"].tolist()
    assert disturbed.runs["score"].tolist() == plain.runs["score"].tolist()
