"""The stage of the pipeline that trains the master, and which run goes to the judge."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.build import stored_plan
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.agents_stage import fleet_config
from pacesetter.jobs.pipeline.master_stage import judged_run, needs_no_master, train_master
from pacesetter.jobs.pipeline.stages import Job, only_run
from pacesetter.jobs.run.train import train
from pacesetter.methods.master.page import read_allocations
from pacesetter.runs import Run

SMALL = [
    *("data=synthetic", "data.symbols=3", "data.bars=400", "features.names=[return_1]", "features.leadlag.lookback=40"),
    *("task.window_bars=4", "task.episode_bars=20", "task.market.costs.commission_bps=7", "task.reward.clip=3"),
    *("job.fleet_steps=1024", "job.master_steps=1024"),
]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    ppo = ["task=fleet", "agent=ppo", "agent.network=mlp_tiny", "agent.heads=[8]"]
    config = resolve([*ppo, *SMALL, f"runs={tmp_path}"])
    job = Job(config, Run.create(tmp_path, "job", config.to_dict()))
    train(fleet_config(config, job.folder("agents"), 40), console=Console(quiet=True))
    return job


def test_the_master_goes_by_the_fleets_rules_and_the_better_of_both_is_judged(job: Job) -> None:
    fleet, folder = only_run(job.folder("agents")), job.folder("master")
    found = train_master(job, folder)
    run = only_run(folder)
    made, there = stored_plan(run), stored_plan(fleet)
    assert (made.data, made.features, made.train.shares) == (there.data, there.features, there.train.shares)
    assert made.market == there.market
    assert (made.trading.reward.clip, made.train.steps) == (3, 1024)
    ratios = read_allocations(run)["sharpe"]
    better = "master" if ratios["master"] > ratios["fleet"] else "fleet"
    assert found.line.endswith(f"the {better} is evaluated")
    (section,) = found.sections
    assert section.text.endswith(f"On these years the {better} is better, so it is evaluated.")
    assert set(found.shown["Allocations"]) <= set(section.header)
    assert judged_run(job) == {"master": run, "fleet": fleet}[better]
    assert needs_no_master(job) == ""


def test_behind_a_direct_policy_there_is_nothing_to_allocate(tmp_path: Path) -> None:
    config = resolve([*SMALL, f"runs={tmp_path}"])
    job = Job(config, Run.create(tmp_path, "job", config.to_dict()))
    assert "allocates one account itself" in needs_no_master(job)
    run = Run.create(job.folder("agents"), "fleet", config.to_dict())
    assert judged_run(job) == run.folder
