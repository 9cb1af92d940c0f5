"""The walk-forward account of a fleet: earlier fits of itself and of its master, none of which saw its own test.

Runs `jobs.pipeline.judge_stage`.
"""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from pacesetter.build import build_panel, stored_plan
from pacesetter.evaluation.baselines.forecasting import _regress
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.agents_stage import train_fleet
from pacesetter.jobs.pipeline.judge_stage import _of_same_orders, judge_agents
from pacesetter.jobs.pipeline.master_stage import train_master
from pacesetter.jobs.pipeline.stages import Job
from pacesetter.runs import Run

SMALL = [
    *("data=synthetic", "data.symbols=3", "data.bars=700", "features.names=[return_1]", "features.leadlag.lookback=40"),
    *("task=fleet", "agent=ppo", "agent.network=mlp_tiny", "agent.heads=[8]", "task.window_bars=4"),
    *("task.episode_bars=20", "job.fleet_steps=256", "job.master_steps=512", "job.draws=20", "job.fast=true"),
]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    config = resolve([*SMALL, f"runs={tmp_path}", f"job.lookback={tmp_path}"])
    console = Console(file=io.StringIO(), width=200)
    job = Job(config, Run.create(tmp_path, "job", config.to_dict()), console)
    job.panel = build_panel(config)
    return job


def train_runs(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its lead–lag features have a window of their own, so that no lookback agent is asked for.
    monkeypatch.setattr("pacesetter.jobs.pipeline.agents_stage.lookback_run", lambda job: 40)
    train_fleet(job, job.folder("agents"))
    train_master(job, job.folder("master"))


def test_a_fleet_is_refitted_before_each_test_with_its_master(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    train_runs(job, monkeypatch)
    finding = judge_agents(job, job.folder("judge"))
    walk = next(section for section in finding.sections if section.title == "Walk-forward")
    assert _regress.cache_info().currsize == 0  # nothing of the verdict's fits is kept while it is explained
    printed = job.console.file.getvalue()  # type: ignore[attr-defined]
    assert len(walk.rows) == 3, printed
    assert "2 refits, each about as long as the stages that trained; job.folds=1 judges a single test" in printed
    fits = [Run.open(path.parent) for path in sorted((job.folder("judge") / "fits").glob("*/manifest.json"))]
    # Whether the fleet or its master decides was asked of each fit's own validation years.
    assert sorted(stored_plan(run.folder).task.problem for run in fits) == ["fleet", "fleet", "master", "master"]
    starts = [pd.Timestamp(row[0], tz="UTC") for row in walk.rows]
    ends = sorted({pd.Timestamp(run.manifest["fitted_until"]).normalize() for run in fits})
    assert len(ends) == 2
    assert all(end < start for end, start in zip(ends, starts, strict=False))
    assert starts[0] < job.panel.index[400] < starts[2]


def test_an_account_does_not_change_from_orders_to_targets(job: Job, tmp_path: Path) -> None:
    runs = []
    for number, trades in enumerate(("orders", "targets", "orders", "orders")):
        words = ["task.action=discrete", f"task.trades={trades}", f"runs={tmp_path / str(number)}"]
        config = resolve([*SMALL, *words])
        runs.append(Run.create(tmp_path / str(number), "fleet", config.to_dict()).folder)
    assert _of_same_orders(runs[:3], runs[3]) == runs[2:3]
    assert _of_same_orders(runs[2:3], runs[1]) == []
