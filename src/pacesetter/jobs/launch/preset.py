"""A configuration written as a preset, for `+preset=runs/<search>/conf/preset/best.yaml`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_module
from omegaconf import OmegaConf

from pacesetter.jobs.hydra.compose import compose
from pacesetter.jobs.hydra.overrides import find_presets
from pacesetter.runs import SCHEMA, write_atomic

__all__ = ["write_preset"]

OWN_KEYS = ("name", "runs", "seed")  # of a run, not of a way to train


def write_preset(path: Path, overrides: Sequence[str], about: str) -> Path:
    """Write what the overrides configure, less the name, folder and seed of a run, as a preset that stands alone."""
    compose(overrides)  # refuses what cannot be, and tells Hydra of our groups
    with initialize_config_module("pacesetter.conf", version_base="1.3"):
        config = hydra_compose("config", find_presets(overrides), return_hydra_config=True)
    choices = OmegaConf.to_container(config.hydra.runtime.choices)
    assert isinstance(choices, dict)
    groups = [
        {"override /" + str(group): choice}
        for group, choice in choices.items()
        if group != "preset" and "/" not in str(group)
    ]
    # Unresolved: interpolations such as ${seed} must follow the run that uses the preset.
    values = OmegaConf.to_container(config, resolve=False)
    assert isinstance(values, dict)
    kept = {key: value for key, value in values.items() if key not in ("hydra", *OWN_KEYS)}
    text = yaml.safe_dump({"defaults": groups, "schema": SCHEMA} | kept, sort_keys=False, allow_unicode=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(path, f"# @package _global_\n# {about}\n{text}")
