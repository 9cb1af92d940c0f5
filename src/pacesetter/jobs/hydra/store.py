"""What Hydra composes from its store, each part made once a process: groups are chosen seldom, values often.

Hydra reads, copies and merges every file and entry for each composition, which takes a fifth of a second. Here the
configuration of the chosen groups is kept, and only the other overrides are applied to a copy of it, by Hydra's rules.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from hydra import compose as hydra_compose
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from pacesetter.jobs.hydra.overrides import parse_override

__all__ = ["compose_groups", "store_entry"]

MOST_KEPT = 64  # configurations of chosen groups
_kept: dict[tuple[Any, ...], DictConfig] = {}
_numbers: dict[tuple[str, str, str], int] = {}  # group, name and content of an entry -> its number


class _Group(dict[str, Any]):
    """A group of Hydra's store, and the plain nodes that its entries were made of.

    It is never copied: Hydra copies its whole store for each composition, though it also copies what it reads of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.numbers: dict[str, int] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> _Group:
        return self


def store_entry(group: str, name: str, node: dict[str, Any]) -> None:
    """Store an entry of a group, unless it is there already: making one takes longer than composing with it."""
    entries = ConfigStore.instance().repo.setdefault(group, _Group())
    if entries.nodes.get(name) != node:
        ConfigStore.instance().store(group=group, name=name, node=node)
        entries.nodes[name] = node
        entries.numbers[name] = _numbers.setdefault((group, name, json.dumps(node, default=str)), len(_numbers))


def compose_groups(overrides: Sequence[str]) -> DictConfig:
    """As Hydra composes `config` with the overrides; raises what Hydra does."""
    parsed = [parse_override(text) for text in overrides]
    if any(_needs_hydra(override) for override in parsed):
        return hydra_compose("config", list(overrides))
    groups = {*_folders(), *ConfigStore.instance().repo}
    choices = [override for override in parsed if override.key_or_group in groups]
    config = copy.deepcopy(_compose_choices(tuple(str(override.input_line) for override in choices)))
    values = [override for override in parsed if override.key_or_group not in groups]
    ConfigLoaderImpl._apply_overrides_to_config(values, config)
    return config


def _needs_hydra(override: Override) -> bool:
    """Whether it is neither a choice of a group nor a value: several values, another package, Hydra's own settings."""
    return override.is_sweep_override() or override.package is not None or override.is_hydra_override()


def _compose_choices(choices: tuple[str, ...]) -> DictConfig:
    """The configuration of these choices; composed again where an entry of the store became another one."""
    groups = (entries for entries in ConfigStore.instance().repo.values() if isinstance(entries, _Group))
    key = (choices, tuple(number for entries in groups for number in entries.numbers.values()))
    if key not in _kept:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[key] = hydra_compose("config", list(choices))
    return _kept[key]


def _folders() -> set[str]:
    return {entry.name for entry in files("pacesetter.conf").iterdir() if entry.is_dir()}
