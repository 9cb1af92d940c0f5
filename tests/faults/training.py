"""Training on a disk that fails at each of its changes in turn: `python training.py FOLDER MOST`.

After each fault the disk works again, and the run is resumed, or started anew where nothing was stored: its weights
must be those of a run on a good disk.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

from failing import FAULTS, arm, changes_of, chosen_changes, in_child, sentence
from rich.console import Console

from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

SMALL = [
    *("data=synthetic", "data.symbols=3", "data.bars=400", "task.window_bars=6", "task.episode_bars=20", "agent=ppo"),
    *("agent.network=mlp", "agent.network_options={width:16,layers:1}", "agent.heads=[16]", "agent.n_epochs=2"),
    *("train.envs=4", "train.steps=128", "train.log_every=64", "train.validate_every=64", "train.checkpoint_every=64"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false", "agent.n_steps=16", "agent.batch_size=16"),
]

CONFIG = resolve(SMALL)


def learn(folder: Path) -> None:
    """Train into the folder, or resume the run there, and write the hash of the weights beside it."""
    stored = sorted(folder.glob("*/checkpoints/last/state.json"))
    console = Console(file=io.StringIO())
    config = None if stored else replace(CONFIG, runs=str(folder))
    result = train(config, resume=stored[-1].parents[2] if stored else None, console=console)
    folder.with_suffix(".hash").write_text(result.weights_hash)


def main(folder: Path, most: int) -> None:
    learn(folder / "warm")  # compiles before the fork
    changes = changes_of(folder / "whole", partial(learn, folder / "whole"))
    expected = (folder / "whole.hash").read_text()
    for place, fault in enumerate(FAULTS):
        ends: Counter[int] = Counter()
        for change in chosen_changes(changes, most):
            if most >= changes and change % len(FAULTS) != place:
                continue  # every change fails once, with one of the errors
            where = folder / f"{fault}-{change}"

            def faulty(where: Path = where, change: int = change, fault: str = fault) -> None:
                arm(where, change, fault)
                learn(where)

            ends[in_child(faulty)] += 1
            assert in_child(partial(learn, where)) == 0, f"{fault} at change {change}: no restart"
            assert where.with_suffix(".hash").read_text() == expected, f"{fault} at change {change} ended elsewhere"
        print("training", sentence(fault, changes, ends), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
