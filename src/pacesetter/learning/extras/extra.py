"""What may be added to any method of a fleet: a reward or a loss, under `agent.extras.<name>`.

A package from outside adds one by an entry point in the group `pacesetter.extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.methods import load
from pacesetter.registry import Registry, configure

__all__ = ["EXTRAS", "Extra", "ExtraSpec", "check_extras", "make_extras"]


class Extra(Protocol):
    """Curiosity, potential, auxiliary heads …: `own` and the attributes in `declared` are what a checkpoint keeps.

    optimiser   of `own`, where the extra trains it itself by `learn`; None where the trainer does, by `losses`. Then
                parameters of `own` are stacked by symbol, as those of a method.
    """

    @property
    def own(self) -> nn.ModuleDict: ...
    @property
    def declared(self) -> tuple[str, ...]: ...
    @property
    def optimiser(self) -> torch.optim.Optimizer | None: ...

    def reward(
        self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int
    ) -> torch.Tensor | None:
        """(row,) rewards in place of the batch's, from (row, width) features before and after; None leaves them.

        `steps` are the environment steps that each symbol has made.
        """

    def learn(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor) -> None:
        """One step of an extra that trains itself."""

    def losses(self, batch: Transitions, features: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """(symbol,) terms to be descended with those of the method; gradients reach `own` and the encoder."""


@dataclass(frozen=True)
class ExtraSpec:
    """A registered extra; both may be named as "module:attribute".

    options   frozen dataclass of them
    make      (width of the features, number of discrete actions or None, options) -> the extra
    """

    options: type[Any] | str
    make: Callable[[int, int | None, Any], Extra] | str


EXTRAS: Registry[ExtraSpec] = Registry("extra")
EXTRAS.add(
    "curiosity",
    ExtraSpec("pacesetter.learning.extras.curiosity:CuriosityConfig", "pacesetter.learning.extras.curiosity:Curiosity"),
)


def check_extras(asked: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of the extras that are asked for, by name; refuses unknown names and options, and leaves out null."""
    chosen = {name: options for name, options in (asked or {}).items() if options is not None}
    return {name: _configured(name, options) for name, options in chosen.items()}


def _configured(name: str, options: Any) -> Any:
    kind = load(EXTRAS[name].options)
    return options if isinstance(options, kind) else configure(kind, options, f"agent.extras.{name}")


def make_extras(asked: Mapping[str, Any] | None, width: int, actions: int | None) -> dict[str, Extra]:
    """The extras that are asked for, by name."""
    return {name: load(EXTRAS[name].make)(width, actions, options) for name, options in check_extras(asked).items()}
