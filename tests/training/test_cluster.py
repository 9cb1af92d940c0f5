"""A configuration over symbol groups, folds and seeds: every run once, exact steps, also when a worker is killed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pacesetter.errors import ConfigError
from pacesetter.training.cluster import ClusterPlan, run_cluster
from pacesetter.training.launch import Launcher


def test_a_plan_covers_every_symbol_fold_and_seed_once() -> None:
    plan = ClusterPlan.of(["A", "B", "C/D", "E", "F"], 2, seeds=(3, 4), folds=2)
    assert plan.groups == (("A", "B", "C/D"), ("E", "F"))
    assert len(plan.rows()) == len({tuple(row.values()) for row in plan.rows()}) == 8
    task = plan.task(Path("x"), ["agent=ppo"], group=0, fold=1, seed=4)
    assert task.overrides == ("agent=ppo", "task.symbols=['A','B','C/D']", "train.folds=2", "train.fold=1", "seed=4")
    with pytest.raises(ConfigError, match="6 groups of 5 symbols"):
        ClusterPlan.of("ABCDE", 6)


def test_runs_are_gathered_and_a_second_call_trains_nothing(small: Any, tmp_path: Path) -> None:
    plan = ClusterPlan.of(["S0", "S1", "S2"], 2)
    found = run_cluster(plan, small.overrides, tmp_path / "cluster")
    assert found["group"].tolist() == [0, 1]
    assert found["steps"].tolist() == [256, 256]
    again = run_cluster(plan, small.overrides, tmp_path / "cluster")
    pd.testing.assert_frame_equal(again, found)
    assert len(list((tmp_path / "cluster").glob("*/*/manifest.json"))) == 2


def kill_a_worker(folder: Path, killed: list[int]) -> None:
    """Kill Ray's worker of a run that has stored a checkpoint, once."""
    import psutil

    until = time.monotonic() + 200
    while time.monotonic() < until and not killed:
        if list(folder.rglob("checkpoints/last/state.json")):
            for child in psutil.Process().children(recursive=True):
                if "ray::run_task" in child.name() + " ".join(child.cmdline()):
                    child.kill()
                    killed.append(child.pid)
                    break
        time.sleep(0.05)


@pytest.mark.proof
def test_a_killed_worker_changes_neither_steps_nor_weights(small: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    plan = ClusterPlan.of(["S0", "S1", "S2"], 2)
    overrides = [*small.overrides, "train.steps=20000", "train.checkpoint_every=1024", "train.validate_every=5120"]
    plain = run_cluster(plan, overrides, tmp_path / "plain")
    killed: list[int] = []
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path / "killed", killed))
    killer.start()
    disturbed = run_cluster(plan, overrides, tmp_path / "killed", Launcher("ray", workers=2))
    killer.join()
    assert killed
    assert disturbed["steps"].tolist() == plain["steps"].tolist()
    assert disturbed["weights_hash"].tolist() == plain["weights_hash"].tolist()
