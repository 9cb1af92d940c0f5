"""What may be added to any method of a fleet: a reward or a loss, under `agent.extras.<name>`.

A package from outside adds one by an entry point in the group `pacesetter.extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pacesetter.late import load
from pacesetter.registry import Registry, configure

if TYPE_CHECKING:  # every command reads the names of the extras, also where torch is not installed
    import torch
    from torch import nn

    from pacesetter.agents.layout import Tensors
    from pacesetter.envs.batch.batch import Batch
    from pacesetter.learning.experience.transitions import Transitions

__all__ = [
    "EXTRAS",
    "ROLLOUT_ROWS",
    "Extra",
    "ExtraSpec",
    "Surroundings",
    "check_extras",
    "make_extras",
    "rewards_of_draw",
]


ROLLOUT_ROWS = 16_384  # few steps cost little; exploring for what is seldom seen needs more of them


def _cpu() -> torch.device:
    import torch

    return torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What an extra is made for.

    width     of the features              actions   discrete ones; None: `size` numbers each
    symbols   that have an agent           env_count environments of all symbols of the market
    places    of the market's symbols among those; None where they are all, in their order
    gamma     discount of the method       device    that the method learns on
    batch     environments of the training set; None where nothing is traded
    complete  full observations of compact ones
    """

    width: int
    actions: int | None
    size: int = 1
    symbols: int = 1
    env_count: int = 1
    gamma: float = 0.99
    batch: Batch | None = None
    complete: Callable[[Tensors], Tensors] = dict
    device: torch.device = field(default_factory=_cpu)
    places: torch.Tensor | None = None


class Extra:
    """Curiosity, potential, auxiliary heads …: adds a reward or a loss to any method; what one does not say is as here.

    own                     what learns; it and the attributes in `declared` are what a checkpoint keeps
    optimiser               of `own`, where the extra trains it itself by `learn`; None where the trainer does, by
                            `losses`. Then parameters of `own` are stacked by symbol, as those of a method
    belongs_to_collection   its rewards are those of the moment when a row was collected, and a replay stores them
    is_in_money             of those that belong to the collection: what it adds is in the unit of the market's rewards,
                            before they are scaled
    rollout_rows            of a rollout for one step of an extra that trains itself
    teaches_encoder_alone   heads that are retrained behind an encoder that stays as it is learn without it
    """

    own: nn.ModuleDict
    declared: tuple[str, ...] = ()
    optimiser: torch.optim.Optimizer | None = None
    belongs_to_collection: bool = False
    is_in_money: bool = False
    rollout_rows: int = ROLLOUT_ROWS
    teaches_encoder_alone: bool = False

    def reward(
        self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int
    ) -> torch.Tensor | None:
        """(row,) rewards in place of the batch's, from (row, width) features before and after; None leaves them.

        `steps` are the environment steps that each symbol has made.
        """
        return None

    def reward_rollout(
        self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int
    ) -> torch.Tensor | None:
        """As `reward`, for the rows of a rollout: features are (step, env, width)."""
        return self.reward(batch, features.flatten(0, 1), following, steps)

    def reward_drawn(
        self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int
    ) -> torch.Tensor | None:
        """As `reward`, for rows that a replay has just given."""
        return self.reward(batch, features, following, steps)

    def shape_rewards(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """(row,) what one that belongs to the collection adds to rewards: a replay stores it with the row."""
        return torch.zeros(len(batch), device=features.device)

    def learns_from_draw(self) -> bool:
        """Whether it learns from the rows that a replay has just given."""
        return True

    def learn(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor) -> None:
        """One step of an extra that trains itself."""

    def losses(self, batch: Transitions, features: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """(symbol,) terms to be descended with those of the method; gradients reach `own` and the encoder."""
        return {}

    def figures_to_log(self) -> Mapping[str, torch.Tensor]:
        """Figures of each round by name: (), or (symbol,)."""
        return {}

    def round_ended(self, figures: Mapping[str, torch.Tensor], steps: int) -> None:
        """Hear the figures of the method after a round."""


@dataclass(frozen=True)
class ExtraSpec:
    """A registered extra; both may be named as "module:attribute".

    options   frozen dataclass of them
    make      (surroundings, options) -> the extra
    """

    options: type[Any] | str
    make: Callable[[Surroundings, Any], Extra] | str


EXTRAS: Registry[ExtraSpec] = Registry("extra")
for _name, _options, _make in (
    ("curiosity", "CuriosityConfig", "make_curiosity"),
    ("potential", "PotentialConfig", "Potential"),
    ("auxiliary", "AuxiliaryConfig", "Auxiliary"),
    ("domain", "DomainConfig", "Domain"),
):
    _module = f"pacesetter.learning.extras.{_name}"
    EXTRAS.add(_name, ExtraSpec(f"{_module}:{_options}", f"{_module}:{_make}"))


def rewards_of_draw(
    extra: Extra, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int
) -> torch.Tensor | None:
    """(row,) rewards of rows that a replay has just given; an extra that trains itself then learns from them.

    None leaves the rewards as they are. An extra may leave some draws out of its learning.
    """
    if extra.is_in_money:  # the rewards that a replay stores have its part
        return None
    # Rewards before learning, as for rollouts: a model that has just fitted these rows would not be surprised by them.
    changed = extra.reward_drawn(batch, features, following, steps)
    if extra.learns_from_draw():
        extra.learn(batch, features, following)
    return changed


def check_extras(asked: Mapping[str, object] | None) -> dict[str, Any]:
    """The options of the extras that are asked for, by name; refuses unknown names and options, and leaves out null."""
    chosen = {name: options for name, options in (asked or {}).items() if options is not None}
    return {name: _configure_options(name, options) for name, options in chosen.items()}


def _configure_options(name: str, options: Any) -> Any:
    kind = load(EXTRAS[name].options)
    return options if isinstance(options, kind) else configure(kind, options, f"agent.extras.{name}")


def make_extras(asked: Mapping[str, object] | None, around: Surroundings) -> dict[str, Extra]:
    """The extras that are asked for, by name."""
    return {name: load(EXTRAS[name].make)(around, options) for name, options in check_extras(asked).items()}
