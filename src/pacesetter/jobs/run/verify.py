"""`pacesetter verify RUN`: the same config trained again must give the same hashes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from pacesetter.cells import Table
from pacesetter.errors import RunError
from pacesetter.evaluation.programme.measured import REPEAT
from pacesetter.jobs.run.checkpoint import check_same, identity, resumed_config
from pacesetter.jobs.run.interrupts import exit_on_sigterm
from pacesetter.jobs.run.train import train
from pacesetter.runs import Run

__all__ = ["verify"]

COMPARED = ("weights_hash", "score", "steps", "stopped")
MEASURED = ("seconds", "resources", "steps_per_second")  # differ from run to run


def verify(folder: str | Path, console: Console | None = None) -> bool:
    """Whether training again gives the stored weights, score and metrics; refuses unfinished runs and other versions.

    The data are loaded again, so a changed source shows as another fingerprint.
    """
    run, console = Run.open(folder), console or Console()
    stored = run.manifest
    if not (run.folder / "checkpoints").is_dir():
        raise RunError(f"{run.folder} is not a training run; verify repeats a run of pacesetter train")
    if not stored["finished"] or "weights_hash" not in stored:
        raise RunError(f"{run.folder} is not finished; finish it with pacesetter train --resume {folder}")
    config = resumed_config(run)
    # Data are compared below, where a difference is shown beside the others instead of being refused.
    check_same(stored["identity"] | {"data": None}, identity(config, "", run) | {"data": None}, run.folder)
    with tempfile.TemporaryDirectory(prefix="verify-") as where:
        # The repetition is not an experiment of its own.
        quiet = replace(config.track, mlflow="off", tensorboard="off", wandb="off")
        result = train(replace(config, runs=where, track=quiet), console=console)
        if result.stopped == "signal":
            exit_on_sigterm()
        again = result.run
        again_score = again.manifest["score"]
        rows = [(name, stored[name], again.manifest[name]) for name in COMPARED]
        rows.insert(0, ("data", stored["identity"]["data"], again.manifest["identity"]["data"]))
        rows.append(("metrics", _metrics(run), _metrics(again)))
    console.print(_table(rows))
    run.write_json(REPEAT, {"difference": _difference(float(stored["score"]), float(again_score))})
    return all(first == second for _, first, second in rows)


def _difference(first: float, second: float) -> float:
    """Of two scores, as a share of the first."""
    return 0.0 if first == second else abs(second - first) / max(abs(first), 1e-12)


def _metrics(run: Run) -> list[dict[str, object]]:
    """Every line of metrics.jsonl without what was measured by a clock."""
    lines = (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in MEASURED} for line in lines]


def _table(rows: Sequence[tuple[str, object, object]]) -> Table:
    cells = []
    for name, first, second in rows:
        shown = [f"{len(side)} lines" if isinstance(side, list) else str(side)[:12] for side in (first, second)]
        cells.append((name, *shown, "equal" if first == second else "DIFFERENT"))
    return Table(("what", "stored", "again", ""), cells, "Verification")
