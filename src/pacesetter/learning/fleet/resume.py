"""What a checkpoint of a trainer keeps: its declared attributes.

An attribute that has a `state_dict` is stored by it, any other as it is: a number, a tensor, a mapping of tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

__all__ = ["Owner", "Stateful", "capture", "restore"]


class Owner(Protocol):
    """Modules and attributes that are kept: a method, an extra."""

    own: nn.ModuleDict

    @property
    def declared(self) -> tuple[str, ...]: ...


@runtime_checkable
class Stateful(Protocol):
    """Says itself what of it is kept: a module, an optimiser, a market, a replay."""

    def state_dict(self) -> Mapping[str, object]: ...
    def load_state_dict(self, stored: Any, /) -> object: ...


def capture(owner: object, names: Sequence[str]) -> dict[str, object]:
    """The named attributes as nested plain values and tensors."""
    values = {name: getattr(owner, name) for name in names}
    return {name: value.state_dict() if isinstance(value, Stateful) else value for name, value in values.items()}


def restore(owner: object, names: Sequence[str], stored: Mapping[str, object], device: torch.device) -> None:
    """Put back what `capture` gave; tensors go to `device`."""
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, Stateful):
            value.load_state_dict(stored[name])
        else:
            setattr(owner, name, _move_to_device(stored[name], device))


def _move_to_device(value: object, device: torch.device) -> object:
    if isinstance(value, Mapping):
        return {name: _move_to_device(entry, device) for name, entry in value.items()}
    return value.to(device) if isinstance(value, torch.Tensor) else value
