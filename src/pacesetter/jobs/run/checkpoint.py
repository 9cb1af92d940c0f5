"""What a checkpoint belongs to, and why another run may not resume from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pacesetter.build import Plan, read_plan
from pacesetter.build.plan import stored_hash
from pacesetter.build.sections import AUTO
from pacesetter.errors import RunError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.runs import Run, provenance, write_atomic

__all__ = ["check_same", "cut_metrics", "identity", "last_checkpoint", "resumed_config"]

LAST = Path("checkpoints") / "last"
TOLD = ("numpy", "numba", "torch", "stable-baselines3", "gymnasium")


def identity(config: Plan, fingerprint: str, run: Run) -> dict[str, Any]:
    """What must be equal for a resume to give the same bits: config, data, threads, device, processor, versions.

    The config is that of the `run` as stored, so that one of an earlier schema stays the same run.
    """
    here = provenance()
    return {
        "config": stored_hash(run),
        "data": fingerprint,
        # Sums over threads are rounded in another order, so that the last bits depend on their number.
        "threads": torch.get_num_threads(),
        "device": config.train.device,
        "processor": here["processor"],
        "instructions": here["instructions"],
        "versions": {name: here["versions"][name] for name in TOLD if name in here["versions"]},
    }


def check_same(stored: Mapping[str, object], here: Mapping[str, object], folder: Path) -> None:
    """Refuse the first difference, by name; a run of an earlier version does not say its instructions."""
    for name, value in here.items():
        if stored.get(name) != value and (name in stored or name != "instructions"):
            raise RunError(
                f"{folder} cannot be resumed bit-exactly: {name} was {stored.get(name)}, here it is {value}; resume it "
                f"as it was, or start a new run from its weights with train.init_from={folder}"
            )


def last_checkpoint(run: Run) -> Path | None:
    """The folder to resume from; None where the run was stopped before its first checkpoint."""
    folder = run.folder / LAST
    return folder if (folder / "state.json").is_file() else None


def resumed_config(run: Run, given: Plan | None = None) -> Plan:
    """The run's own config; refuses a folder without one, and a given config that differs, by a key that was told."""
    config = read_plan(run)
    if given is not None and given.features.leadlag.lookback == AUTO:
        # Training decided it when the run was made: `auto` asks for nothing else.
        decided = replace(given.features.leadlag, lookback=config.features.leadlag.lookback)
        given = replace(given, features=replace(given.features, leadlag=decided))
    wanted = (given or config).to_dict()
    differences = list(_differences(config.to_dict(), wanted))
    asked = {key for key, *_ in _differences(resolve().to_dict(), wanted)} if differences else set()
    # Keys that the user gave come first in the error; the others differ because of them.
    for key, there, here in sorted(differences, key=lambda difference: difference[0] not in asked):
        raise RunError(
            f"{run.folder} was made with {key}={there}, not {here}; leave the overrides out to resume it, or start "
            "a new run"
        )
    return config


def _differences(first: object, second: object, key: str = "") -> Iterator[tuple[str, object, object]]:
    if isinstance(first, dict) and isinstance(second, dict):
        for name in [*first, *(name for name in second if name not in first)]:
            yield from _differences(first.get(name), second.get(name), f"{key}.{name}" if key else str(name))
    # As JSON: tuples and lists of one content are the same configuration.
    elif json.dumps(first, default=str) != json.dumps(second, default=str):
        yield key, first, second


def cut_metrics(run: Run, step: int) -> None:
    """Drop the lines after `step` from metrics.jsonl: a resume writes them again. A line cut by a kill goes too."""
    path = run.folder / "metrics.jsonl"
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            is_kept = json.loads(line)["step"] <= step
        except (ValueError, KeyError):
            is_kept = False
        if is_kept:
            kept.append(line)
    write_atomic(path, "".join(kept))
