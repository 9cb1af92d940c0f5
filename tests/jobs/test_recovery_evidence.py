"""What the parts against collapse reach: stages of the curriculum, and orders that become continuous."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.jobs import resolve
from pacesetter.jobs.launch.migrate import migrate_run
from pacesetter.jobs.run.train import train

QUIET = Console(file=io.StringIO())
MARKET = [  # strength 0.8, which is a toy: it shows that the mechanism works, and nothing of markets
    *("agent=ppo_small", "task.action=discrete", "data.bars=1800", "features.leadlag.expected_lookback=900"),
    *("train.best_by=sharpe", "train.checkpoint_every=0"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]
ACTIVE = ("action entropy", "most used action", "distinct actions", "trade rate", "round trips per 1,000 steps")


@pytest.mark.proof
@pytest.mark.parametrize("seed", [1, 2])
def test_three_stages_of_the_curriculum_are_completed_and_the_policy_has_not_collapsed(
    seed: int, tmp_path: Path
) -> None:
    own = [
        *("+preset=[planted,recovery]", "task.curriculum=programme", "task.episode_bars=30", f"seed={seed}"),
        *("features.names=[return_1,regime_trend_efficiency]", "train.gates.oracle=false", "train.gates.episodes=1"),
        *("train.steps=131072", "train.validate_every=65536", "train.log_every=16384"),
    ]
    folder = train(resolve([*own, *MARKET, f"runs={tmp_path}"]), console=QUIET).run.folder
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    stages = [
        (line["step"], line["curriculum"]["level"], line["curriculum"]["stage"])
        for line in lines
        if "curriculum" in line
    ]
    gates = json.loads((folder / "gates.json").read_text())["gates"]["stochastic"]
    for step, level, stage in stages:
        print(f"seed {seed}, step {step}: {level} stages completed, in '{stage}'")
    print(", ".join(f"{name} {gates[name]['value']:.2f}" for name in gates))
    levels = [level for _, level, _ in stages]
    assert max(levels) >= 3
    assert levels == sorted(levels)  # no stage is lost again
    assert all(gates[name]["passed"] for name in ACTIVE)
    assert gates["Sharpe ratio above the best constant action"]["passed"]


@pytest.mark.proof
@pytest.mark.parametrize("seed", [1, 2])
def test_continuous_orders_are_at_most_a_tenth_worse_after_a_short_fine_tuning(seed: int, tmp_path: Path) -> None:
    own = ["+preset=planted", "train.steps=65536", "train.validate_every=32768", f"seed={seed}"]
    run = train(resolve([*own, *MARKET, f"runs={tmp_path}"]), console=QUIET).run.folder
    migration = migrate_run(run, ["train.steps=16384"], QUIET)
    print(f"seed {seed}: validation Sharpe ratio {migration.before:.2f}, continuous {migration.after:.2f}")
    assert migration.passed
    assert migration.after >= 0.9 * migration.before > 0
