"""What a checkpoint of a trainer keeps: declared attributes, and how those of earlier versions are read.

An attribute that has a `state_dict` is stored by it, any other as it is: a number, a tensor, a mapping of tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

__all__ = ["capture", "modern_state", "restore"]

MOVED = {"critics": "critics", "targets": "targets", "scale": "scale"}  # state of schema 0 -> module that a method owns
REPLAY = {"seen.": "observation.", "next.": "following."}
MODELS = ("count", "mean", "variance")  # of curiosity's errors, which lay beside its models


def capture(owner: Any, names: Sequence[str]) -> dict[str, Any]:
    """The named attributes as nested plain values and tensors."""
    values = {name: getattr(owner, name) for name in names}
    return {name: value.state_dict() if hasattr(value, "state_dict") else value for name, value in values.items()}


def restore(owner: Any, names: Sequence[str], stored: Mapping[str, Any], device: torch.device) -> None:
    """Put back what `capture` gave; tensors go to `device`."""
    for name in names:
        value = getattr(owner, name)
        if hasattr(value, "load_state_dict"):
            value.load_state_dict(stored[name])
        else:
            setattr(owner, name, _moved(stored[name], device))


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Mapping):
        return {name: _moved(entry, device) for name, entry in value.items()}
    return value.to(device) if isinstance(value, torch.Tensor) else value


# ---- earlier versions -----------------------------------------------------------------------------------------------


def modern_state(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A trainer's state as it is kept today; before, each method laid its own parts beside those of the trainer."""
    if "method" in stored:
        return dict(stored)
    own = {f"{new}.{key}": value for old, new in MOVED.items() for key, value in stored.get(old, {}).items()}
    if "log_temperature" in stored:
        own["temperature.log"] = stored["log_temperature"]
    method = {"own": own} | ({"replay": _modern_replay(stored["replay"])} if "replay" in stored else {})
    curiosity = stored.get("curiosity")
    extras = {} if curiosity is None else {"curiosity": _modern_curiosity(curiosity)}
    return dict(stored) | {"method": method, "extras": extras, "observation": stored["seen"]}


def _modern_replay(stored: Mapping[str, Any]) -> dict[str, Any]:
    entries = {}
    for name, entry in stored["entries"].items():
        prefix = next((old for old in REPLAY if name.startswith(old)), "")
        entries[REPLAY.get(prefix, "") + name.removeprefix(prefix)] = entry
    return dict(stored) | {"entries": entries}


def _modern_curiosity(stored: Mapping[str, Any]) -> dict[str, Any]:
    models = {f"errors.{key}" if key in MODELS else key: value for key, value in stored["models"].items()}
    return {"own": models, "optimiser": stored["optimiser"], "log": {"rows": stored["log"]}}
