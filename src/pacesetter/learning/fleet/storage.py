"""A fleet on disk in parts that stay small: the encoder, and the heads of so many symbols a file.

```
fleet.json                     network, shapes, symbols, and name and SHA-256 of each part
encoder-<hash>.safetensors     heads-000-<hash>.safetensors …
```
The JSON is replaced last, so that a reader finds the old fleet or the new one, whole.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from pacesetter.agents.encoders import NETWORKS, network
from pacesetter.agents.fleet import Fleet
from pacesetter.errors import RunError, check_range
from pacesetter.late import load as load_object
from pacesetter.runs import write_atomic

__all__ = ["blank_fleet", "describe_fleet", "load_fleet", "save_fleet"]

INDEX = "fleet.json"
ENCODER = "encoder."


def save_fleet(fleet: Fleet, folder: str | Path, symbols_each: int = 48) -> Path:
    """Store a fleet in `folder`, the heads of `symbols_each` symbols in a file, in place of what was there."""
    check_range(1, symbols_each=symbols_each)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu() for name, tensor in fleet.state_dict().items()}
    encoder = {name: tensor for name, tensor in tensors.items() if name.startswith(ENCODER)}
    parts = {"encoder": _write(folder, "encoder", encoder)}
    for first in range(0, len(fleet.symbols), symbols_each):
        rows = slice(first, first + symbols_each)
        heads = {name: tensor[rows].clone() for name, tensor in tensors.items() if name not in encoder}
        parts[f"heads-{first:03d}"] = _write(folder, f"heads-{first:03d}", heads)
    write_atomic(folder / INDEX, json.dumps(describe_fleet(fleet) | {"parts": parts}, indent=1) + "\n")
    # After the index: until it was replaced, a reader still needed the old parts.
    for old in (*folder.glob("encoder-*.safetensors"), *folder.glob("heads-*.safetensors")):
        if old.name not in {part["file"] for part in parts.values()}:
            old.unlink()
    return folder


def load_fleet(folder: str | Path) -> Fleet:
    """The stored fleet; refuses a part that is missing or whose hash is not the one written beside it."""
    folder = Path(folder)
    if not (folder / INDEX).is_file():
        raise RunError(f"{folder} has no fleet: it has no {INDEX}; give the folder that save_fleet wrote")
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        fleet = blank_fleet(index)
        parts = [_read(folder, part) for part in index["parts"].values()]
        heads = {name: torch.cat([part[name] for part in parts[1:]]) for name in parts[1]}
        fleet.load_state_dict(parts[0] | heads)
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as problem:
        raise RunError(f"{folder} cannot be read ({problem}); the fleet is damaged, use another") from problem
    return fleet


def describe_fleet(fleet: Fleet) -> dict[str, object]:
    """All but the weights, as JSON reads it back."""
    described: dict[str, Any] = {
        "network": next(name for name in NETWORKS if type(NETWORKS[name]) is type(fleet.config)),
        "options": dataclasses.asdict(fleet.config),
        "shapes": fleet.shapes,
        "symbols": fleet.symbols,
        "actions": fleet.actions,
        "hidden": fleet.hidden,
        "has_state_value": fleet.has_state_value,
    }
    if fleet.around is not None:
        described["around"] = fleet.around
    if type(fleet) is not Fleet:
        described |= {"kind": fleet.kind, "own": fleet.own}
    return dict(json.loads(json.dumps(described)))


def blank_fleet(described: Mapping[str, Any]) -> Fleet:
    """An untrained fleet as `describe_fleet` told; random numbers are left as they were."""
    config = network(described["network"], **described["options"])
    shapes = {name: tuple(shape) for name, shape in described["shapes"].items()}
    kind = load_object(_checked_kind(described.get("kind", Fleet.kind)))
    with torch.random.fork_rng(devices=[]):
        fleet: Fleet = kind(
            config, shapes, described["symbols"], described["actions"], described["hidden"], **described.get("own", {})
        )
    fleet.has_state_value = bool(described["has_state_value"])
    fleet.around = tuple(described["around"]) if "around" in described else None
    return fleet


def _checked_kind(kind: str) -> str:
    """The name of a class of ours; a file must not have anything else imported."""
    if not kind.startswith("pacesetter."):
        raise ValueError(f"{kind} is not a kind of fleet")
    return kind


def _write(folder: Path, part: str, tensors: dict[str, torch.Tensor]) -> dict[str, str]:
    data = save(tensors)
    digest = hashlib.sha256(data).hexdigest()
    return {"file": write_atomic(folder / f"{part}-{digest[:12]}.safetensors", data).name, "sha256": digest}


def _read(folder: Path, part: dict[str, str]) -> dict[str, torch.Tensor]:
    # The name alone: a changed index must not make us read a file elsewhere.
    path = folder / Path(part["file"]).name
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != part["sha256"]:
        raise RunError(f"{path} does not match its hash; the fleet is damaged, use another")
    return dict(load(data))
