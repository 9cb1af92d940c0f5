"""Learned state on disk without pickle: tensors as safetensors, the rest as JSON that says where each tensor goes.

```
state.json                the header, the nested state, name and SHA-256 of the tensor file, and SHA-256 of all this
tensors-<hash>.safetensors
```
The JSON is replaced last and atomically, so that a reader finds the old state or the new one, whole.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from pacesetter.errors import RunError
from pacesetter.runs import write_atomic

__all__ = ["pack", "read_header", "read_state", "tensors_hash", "unpack", "write_state"]

INDEX, DIGEST = "state.json", "digest"
KEYS = ("header", "tensors", "sha256", "state")
log = logging.getLogger(__name__)


def pack(value: object) -> tuple[object, dict[str, torch.Tensor]]:
    """`value` as JSON, and the tensors it refers to; refuses what is neither plain, nested, a tensor nor an array."""
    packer = _Packer()
    return packer.plain(value, ""), packer.tensors


class _Packer:
    """Collects tensors by their place; one that is reached twice is stored once."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.places: dict[tuple[Any, ...], str] = {}
        self.alive: list[torch.Tensor] = []  # or a freed copy's address would pass for the next one's

    def plain(self, value: object, place: str) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, torch.Tensor):
            return {"tensor": self._store(value.detach(), place)}
        if isinstance(value, np.ndarray):
            # Kinds are stored with the value: an array must come back as an array, a tuple as a tuple.
            return {"array": self._store(torch.from_numpy(np.ascontiguousarray(value)), place)}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Mapping):
            return {"mapping": [[key, self.plain(item, f"{place}/{key}")] for key, item in value.items()]}
        if isinstance(value, (list, tuple)):
            items = [self.plain(item, f"{place}/{index}") for index, item in enumerate(value)]
            return {type(value).__name__: items}
        raise RunError(f"{place} is a {type(value).__name__}, which cannot be stored without pickle; leave it out")

    def _store(self, tensor: torch.Tensor, place: str) -> str:
        self.alive.append(tensor)
        # By address and layout: a view of another shape or stride is another tensor.
        identity = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        # Empty tensors all have address 0, which does not mean that they are one.
        if tensor.numel() == 0 or identity not in self.places:
            self.places[identity] = place
            self.tensors[place] = tensor.cpu().contiguous().clone()
        return self.places[identity]


def unpack(plain: object, tensors: Mapping[str, torch.Tensor]) -> Any:
    """What `pack` was given; mappings come back as dict."""
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "array":
        return tensors[content].numpy()
    if kind == "mapping":
        return {key: unpack(item, tensors) for key, item in content}
    items = [unpack(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items


def tensors_hash(tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over names and bytes of tensors."""
    digest = hashlib.sha256()
    # Sorted: the hash is of the content, not of the order in which modules were made.
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def write_state(folder: str | Path, header: Mapping[str, object], state: Mapping[str, object]) -> Path:
    """Store a plain `header` and a nested `state` in `folder`, in place of what was there."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    plain, tensors = pack(state)
    data = save(tensors)
    digest = hashlib.sha256(data).hexdigest()
    name = f"tensors-{digest[:12]}.safetensors"
    # Named by its hash: the new tensors never overwrite the old ones, which the index still names until the next line.
    write_atomic(folder / name, data)
    index = {"header": dict(header), "tensors": name, "sha256": digest, "state": plain}
    write_atomic(folder / INDEX, json.dumps(index | {DIGEST: _digest(index)}) + "\n")
    # Only now: until the index was replaced, a reader still needed the old file.
    for old in folder.glob("*tensors-*"):  # also the temporary file of a write that was killed
        if old.name != name:
            old.unlink()
    return folder


def read_header(folder: str | Path) -> dict[str, Any]:
    """The header alone."""
    return dict(_read_index(Path(folder))["header"])


def read_state(folder: str | Path) -> dict[str, Any]:
    """The nested state; refuses tensors whose hash is not the one written beside them."""
    folder = Path(folder)
    index = _read_index(folder)
    path = folder / str(index["tensors"])
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != index["sha256"]:
            raise RunError(f"{path} does not match its hash; the checkpoint is damaged, use another")
        return dict(unpack(index["state"], load(data)))
    except (OSError, SafetensorError, KeyError, ValueError) as problem:
        raise RunError(f"{path} cannot be read ({problem}); the checkpoint is damaged, use another") from problem


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.is_file():
        raise RunError(f"{folder} is not a checkpoint: it has no {INDEX}; give e.g. runs/<run>/checkpoints/best")
    try:
        index = _check_hashes(json.loads(path.read_text(encoding="utf-8")), path)
        # A changed index must not make us read a file elsewhere.
        if Path(index["tensors"]).name != index["tensors"]:
            raise ValueError(f"{index['tensors']} is outside the folder")
        return index
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise RunError(f"{path} cannot be read ({problem}); the checkpoint is damaged, use another") from problem


def _check_hashes(index: Any, path: Path) -> dict[str, Any]:
    """The entries as they were hashed; refuses others. An index of an earlier version has no hash, which is logged."""
    content = {key: index[key] for key in KEYS}
    if set(index) == set(KEYS):
        log.warning("%s was written by an earlier version, without a hash: damage to it would not show", path)
    elif set(index) != {*KEYS, DIGEST} or index[DIGEST] != _digest(content):
        raise ValueError("it does not match its hash")
    return content


def _digest(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
