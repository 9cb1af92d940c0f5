"""Writes the small policy that `tests/evaluation/test_stored_run.py` plays again, and its result.

    python scripts/archive_policy.py

Run it only when a change of the kernel, the features or the observations is meant to change results.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.runs import Run
from pacesetter.training import compose
from pacesetter.training.run.train import train

ARCHIVE = Path(__file__).resolve().parents[1] / "tests" / "evaluation" / "archive"
OVERRIDES = [
    *("name=archived", "data=synthetic", "data.symbols=3", "data.bars=600", "features.names=[return_1,rsi_14]"),
    *("task.action=continuous", "task.window_bars=6", "task.episode_bars=50"),
    *("agent.network=mlp", "agent.network_options={width:16,layers:1}", "agent.heads=[16]"),
    *("agent.n_steps=64", "train.envs=8", "train.steps=8192", "train.validate_every=4096"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]


def main() -> None:
    """Replace the archive by a fresh one, without what is of this machine."""
    shutil.rmtree(ARCHIVE, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        config = compose([*OVERRIDES, f"runs={folder}"])
        made = train(config, console=Console(quiet=True)).run
        shutil.copytree(made.folder / "checkpoints" / "best", ARCHIVE / "checkpoints" / "best")
        archive = Run(ARCHIVE)
        archive.write_yaml("config.yaml", replace(config, runs="runs").to_dict())
        archive.write_json("manifest.json", {"name": config.name, "config_hash": made.manifest["config_hash"]})
    (ARCHIVE / "result.json").write_text(json.dumps(metrics(StoredRun(ARCHIVE).play()), indent=2) + "\n")


if __name__ == "__main__":
    main()
