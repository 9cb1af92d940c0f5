"""A configuration written as a preset, for `+preset=runs/<search>/conf/preset/best.yaml`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from pacesetter.jobs.hydra.resolve import Composed, resolve
from pacesetter.runs import SCHEMA, write_atomic

__all__ = ["write_preset"]

OWN_KEYS = ("name", "runs", "seed")  # of a run, not of a way to train


def write_preset(path: Path, overrides: Sequence[str], about: str) -> Path:
    """Write what the overrides configure, less the name, folder and seed of a run, as a preset that stands alone."""
    resolve(overrides)  # refuses what cannot be
    composed = Composed(overrides)
    groups = [{f"override /{group}": choice} for group, choice in composed.chosen.groups.items()]
    # Unresolved: interpolations such as ${seed} must follow the run that uses the preset.
    kept = {key: value for key, value in composed.tree.items() if key not in OWN_KEYS}
    text = yaml.safe_dump({"defaults": groups, "schema": SCHEMA} | kept, sort_keys=False, allow_unicode=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(path, f"# @package _global_\n# {about}\n{text}")
