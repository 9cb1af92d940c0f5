"""Sweeps: which runs a plan holds, what is stored and compared, and how a broken one goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from pacesetter.build import Plan
from pacesetter.errors import ConfigError, RunError
from pacesetter.jobs.launch import assignment as task
from pacesetter.jobs.launch.sweep import SweepPlan, sweep
from pacesetter.runs import Run

QUIET = Console(quiet=True)


def test_a_grid_has_every_combination() -> None:
    plan = SweepPlan.of(["data=sandbox", "agent=ppo,a2c", "seed=range(0,3)", "agent.gamma=0.9,0.99"])
    assert plan.fixed == ("data=sandbox",)
    assert plan.variants[0] == ("agent=ppo", "agent.gamma=0.9")
    assert len(plan.variants) == 4
    assert plan.seeds == ("seed=0", "seed=1", "seed=2")
    assert len(plan.pairs()) == 12


def test_an_ablation_changes_one_thing_at_a_time() -> None:
    plan = SweepPlan.of(["agent.gamma=0.99,0.9", "agent.ent_coef=0.01,0,0.1", "seed=7"], "ablation")
    assert plan.variants == (
        ("agent.gamma=0.99", "agent.ent_coef=0.01"),
        ("agent.gamma=0.9", "agent.ent_coef=0.01"),
        ("agent.gamma=0.99", "agent.ent_coef=0"),
        ("agent.gamma=0.99", "agent.ent_coef=0.1"),
    )
    assert plan.seeds == ("seed=7",)


def test_one_variant_alone_is_a_sweep_over_seeds() -> None:
    plan = SweepPlan.of(["agent=ppo", "seed=0,1"])
    assert plan.variants == ((),)
    assert len(plan.pairs()) == 2


def test_a_sweep_trains_compares_and_reports(trained: list[Plan], tmp_path: Path) -> None:
    words = [f"runs={tmp_path}", "agent.ent_coef=0.01,0", "seed=0,1,2", "agent.learning_rate=1e-3"]
    result = sweep(words, console=QUIET)
    assert [(config.agent.options["ent_coef"], config.seed) for config in trained] == [
        (share, seed) for share in (0.01, 0) for seed in range(3)
    ]
    assert result.table["mean"].tolist() == pytest.approx([0.01, -0.49])
    assert result.table["gap"][1] == pytest.approx(-0.5)
    assert len(pd.read_csv(result.run.folder / "runs.csv")) == 6
    assert "agent.ent_coef=0.01" in (result.run.folder / "report.html").read_text()
    assert result.run.manifest["finished"]


def test_a_broken_sweep_goes_on_with_the_runs_that_are_left(
    trained: list[Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = task.train

    def break_down(config: Plan, **options: Any) -> Any:
        if config.seed == 2:
            raise KeyboardInterrupt
        return working(config, **options)

    monkeypatch.setattr(task, "train", break_down)
    with pytest.raises(KeyboardInterrupt):
        sweep([f"runs={tmp_path}", "seed=0,1,2,3"], console=QUIET)
    (folder,) = tmp_path.glob("*-sweep-*")
    monkeypatch.setattr(task, "train", working)
    result = sweep([], resume=folder, console=QUIET)
    assert [config.seed for config in trained] == [0, 1, 2, 3]
    assert result.runs["seed"].tolist() == [0, 1, 2, 3]
    assert len(list(tmp_path.glob("*-sweep-*"))) == 1


def test_wrong_sweeps_are_refused_before_anything_is_trained(trained: list[Plan], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'a2c'"):
        sweep([f"runs={tmp_path}", "agent=ppo,a2d"], console=QUIET)
    with pytest.raises(ConfigError, match=r"has no list of values; write agent\.gamma=first,second"):
        sweep(["agent.gamma=interval(0,1)"], console=QUIET)
    with pytest.raises(ConfigError, match="nothing to compare; give several values for a key"):
        sweep([f"runs={tmp_path}", "agent=ppo"], console=QUIET)
    with pytest.raises(ConfigError, match=r"sweep\.design='full' is unknown"):
        sweep(["sweep.design=full"], console=QUIET)
    with pytest.raises(ConfigError, match="is not an override"):
        sweep(["agent=(("], console=QUIET)
    with pytest.raises(RunError, match="not a sweep or search"):
        sweep([], resume=Run.create(tmp_path, "run", {"seed": 0}).folder, console=QUIET)
    assert trained == []
