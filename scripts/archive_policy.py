"""Writes the small policies that tests play again, and their results: one that trades, and one that chooses windows.

    python scripts/archive_policy.py

Run it only when a change of the kernel, the features or the observations is meant to change results.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from pacesetter.evaluation.lookback.stored import LookbackRun
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs import resolve
from pacesetter.jobs.run.train import train
from pacesetter.runs import Run

ARCHIVE = Path(__file__).resolve().parents[1] / "tests" / "evaluation" / "archive"
OVERRIDES = [
    *("name=archived", "data=synthetic", "data.symbols=3", "data.bars=600", "features.names=[return_1,rsi_14]"),
    *("task.action=continuous", "task.window_bars=6", "task.episode_bars=50"),
    *("agent.network=mlp", "agent.network_options={width:16,layers:1}", "agent.heads=[16]"),
    *("agent.n_steps=64", "train.envs=8", "train.steps=8192", "train.validate_every=4096"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]


WINDOWS = ARCHIVE.with_name("archive_lookback")
CHOOSES = [
    *("name=archived", "task=lookback", "agent=full_information", "data=synthetic", "data.symbols=4", "data.bars=600"),
    *("task.windows.longest=60", "task.windows.seen=[10,20,60]", "task.windows.grid=[10,20,60]"),
    *("agent.network=mlp_tiny", "agent.heads=[16]", "train.envs=8", "train.steps=4096", "train.validate_every=2048"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]


def main() -> None:
    """Replace the archives by fresh ones; `windows` on the command line replaces that of windows alone."""
    if "windows" not in sys.argv:
        archived(ARCHIVE, OVERRIDES)
        (ARCHIVE / "result.json").write_text(json.dumps(metrics(StoredRun(ARCHIVE).play()), indent=2) + "\n")
    archived(WINDOWS, CHOOSES)
    (WINDOWS / "result.json").write_text(json.dumps(LookbackRun(WINDOWS).play(), indent=2) + "\n")


def archived(target: Path, overrides: list[str]) -> None:
    """Train a run and keep its best weights, without what is of this machine."""
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        config = resolve([*overrides, f"runs={folder}"])
        made = train(config, console=Console(quiet=True)).run
        shutil.copytree(made.folder / "checkpoints" / "best", target / "checkpoints" / "best")
        archive = Run(target)
        archive.write_yaml("config.yaml", replace(config, runs="runs").to_dict())
        kept = {name: made.manifest[name] for name in ("name", "config_hash", "finished")}
        archive.write_json("manifest.json", kept)


if __name__ == "__main__":
    main()
