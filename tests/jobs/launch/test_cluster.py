"""A configuration over symbol groups, folds and seeds: every run once, exact steps, also when a worker is killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pacesetter.errors import ConfigError, DataError
from pacesetter.jobs.launch.cluster import ClusterPlan, by_fold, run_cluster
from pacesetter.jobs.launch.cluster_progress import Progress
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.jobs.run.verify import verify

QUIET = Console(quiet=True)


def told(folder: Path) -> list[dict[str, Any]]:
    """What was kept of all runs while they worked."""
    return [json.loads(line) for path in folder.rglob("progress.jsonl") for line in path.read_text().splitlines()]


def test_a_plan_covers_every_symbol_fold_and_seed_once() -> None:
    plan = ClusterPlan.of(["A", "B", "C/D", "E", "F"], 2, seeds=(3, 4), folds=2)
    assert plan.groups == (("A", "B", "C/D"), ("E", "F"))
    assert len(plan.rows()) == len({tuple(row.values()) for row in plan.rows()}) == 8
    task = plan.task(Path("x"), ["agent=ppo"], group=0, fold=1, seed=4)
    assert task.overrides == ("agent=ppo", "task.symbols=['A','B','C/D']", "train.folds=2", "train.fold=1", "seed=4")
    with pytest.raises(ConfigError, match="6 groups of 5 symbols"):
        ClusterPlan.of("ABCDE", 6)
    with pytest.raises(ConfigError, match="seeds 1, 1: one appears twice"):
        ClusterPlan.of("AB", 1, seeds=(1, 1))


def test_folds_of_too_few_bars_are_refused_before_a_run(small: Any) -> None:
    with pytest.raises(DataError, match="does not fit into 2 bars"):
        ClusterPlan.from_config(small(), 1, folds=100)


def test_a_plan_takes_the_symbols_of_the_task_or_of_the_panel(small: Any) -> None:
    assert ClusterPlan.from_config(small(), 3).groups == (("S0",), ("S1",), ("S2",))
    assert ClusterPlan.from_config(small("ppo", "task.symbols=[S2]"), 1).groups == (("S2",),)


def test_scores_are_means_over_symbols_with_their_spread_over_seeds() -> None:
    rows = [(0, 0, 1, 1.0), (0, 0, 3, 2.0), (0, 1, 1, 3.0), (0, 1, 3, 3.0), (1, 0, 4, 5.0), (1, 1, 4, np.nan)]
    table = by_fold(pd.DataFrame(rows, columns=["fold", "seed", "symbols", "score"]))
    assert table["seed 0"].tolist() == [1.75, 5.0]
    assert table["mean"][0] == 2.375
    assert table["half_width"][0] == pytest.approx(12.706 * 1.25 / 2, rel=1e-3)  # Student's t, one degree of freedom
    assert np.isnan(table["mean"][1])


def test_gpus_are_asked_for_where_runs_use_them(small: Any) -> None:
    overrides = [*small.overrides, "train.device=cuda"]
    with pytest.raises(ConfigError, match=r"train\.device=cuda on Ray needs launcher\.gpus"):
        run_cluster(ClusterPlan((("S0",),)), overrides, Launcher("ray"), QUIET)


def test_who_stops_it_is_told_how_far_it_came(small: Any, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "watch", stop)
    with pytest.raises(KeyboardInterrupt):
        run_cluster(ClusterPlan((("S0",),)), [*small.overrides, "train.steps=64"], Launcher(workers=1), console)
    said = "stopped; 0 of 1 runs ended, 0 of 64 steps; run the same command to resume"
    assert said in console.file.getvalue()  # type: ignore[attr-defined]


def kill_a_worker(root: Path, killed: list[str]) -> None:
    """Kill the worker of the first run that has stored a checkpoint, once."""
    until = time.monotonic() + 200
    while time.monotonic() < until and not killed:
        stored = {path.parents[3].name for path in root.rglob("checkpoints/last/state.json")}
        for row in told(root):
            if row["state"] == "running" and row["run"] in stored and not killed:
                os.kill(int(row["worker"].partition(":")[2]), signal.SIGKILL)
                killed.append(row["run"])
        time.sleep(0.02)


@pytest.mark.proof  # two minutes; test_workers kills a worker in seconds
@pytest.mark.usefixtures("ray_here")
def test_a_killed_actor_changes_neither_steps_nor_weights_nor_metrics(small: Any) -> None:
    steps = ["train.steps=1024", "train.checkpoint_every=128", "train.validate_every=256"]
    killed: list[str] = []
    killer = threading.Thread(target=kill_a_worker, args=(small.runs, killed))
    killer.start()
    plan = ClusterPlan((("S0",), ("S1", "S2")))
    runs = run_cluster(plan, [*small.overrides, *steps], Launcher("ray", workers=2), QUIET).runs
    killer.join()
    assert runs["state"].tolist() == ["done", "done"]
    assert runs["steps"].tolist() == [1024, 1024]
    lost = runs.set_index("name").loc[killed[0]]
    assert lost["tries"] == 2
    assert verify(lost["run"], QUIET)  # trained again without a pause it gives the same weights, score and metrics

    assert told(small.runs)[0]["run"] == "group001-fold00-seed0"  # the longest first
    rows = [row for row in told(small.runs) if row["run"] == killed[0]]
    assert len({row["worker"] for row in rows if row["state"] == "running"}) == 2
    assert any(row["state"] == "running" and 0 < row["step"] < 1024 and row["score"] is not None for row in rows)


@pytest.mark.proof
def test_the_runs_of_a_machine_that_dies_end_on_the_others(small: Any) -> None:
    ray = pytest.importorskip("ray")
    utilities = pytest.importorskip("ray.cluster_utils")
    ray.shutdown()
    cluster = utilities.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    first, _ = (cluster.add_node(num_cpus=1) for _ in range(2))
    steps = ["train.steps=4096", "train.checkpoint_every=256", "train.validate_every=512"]

    def lose_a_machine() -> None:
        until = time.monotonic() + 200
        while len(list(small.runs.rglob("checkpoints/last/state.json"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)  # until there is one on each
        cluster.remove_node(first, allow_graceful=False)

    loss = threading.Thread(target=lose_a_machine)
    loss.start()
    plan, launcher = ClusterPlan.of(["S0", "S1", "S2"], 3), Launcher("ray", address=cluster.address)
    try:
        runs = run_cluster(plan, [*small.overrides, *steps], launcher, QUIET).runs
    finally:
        loss.join()
        cluster.shutdown()
    assert runs["steps"].tolist() == [4096] * 3
    assert sorted(runs["tries"]) == [1, 1, 2]
    assert all(verify(folder, QUIET) for folder in runs["run"])
