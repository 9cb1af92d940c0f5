"""The interface of every learner, ours or Stable-Baselines3: a run trains, tracks, stores and resumes it by them.

`learner.learn(steps, watcher)` tells the watcher of the steps and calls it between rounds, where nothing is half done:
there everything may be looked at, stored, or ended by raising `Stop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import torch
    from torch import nn

    from pacesetter.arrays import Array

__all__ = ["Between", "Learner", "StepRecord", "Stop", "Watcher"]


class Stop(Exception):  # noqa: N818 - it ends a run, it is not an error
    """Raised between rounds to end learning there; its text says why."""


class StepRecord(NamedTuple):
    """One step of all environments, or the steps of a round at once, stacked on leading axes; arrays or tensors.

    actions   (…, env, …)        rewards   (…, env)        done   (…, env)
    infos     the environments' own, where they give any
    """

    actions: Array | torch.Tensor
    rewards: Array | torch.Tensor
    done: Array | torch.Tensor
    infos: Mapping[str, object]


class Watcher(Protocol):
    """What a run does while an agent learns."""

    def step(self, record: StepRecord) -> None:
        """Take note of what was just collected, before anything is learned from it."""

    def between_rounds(self) -> None:
        """Act between rounds: look, store, or raise `Stop`."""


class Between:
    """A watcher that acts between rounds only, by a function; without one it does nothing at all."""

    def __init__(self, act: Callable[[], None] | None = None) -> None:
        self.act = act

    def step(self, record: StepRecord) -> None:
        """Nothing."""

    def between_rounds(self) -> None:
        """Call the function."""
        if self.act is not None:
            self.act()


class Learner(Protocol):
    """An agent that learns in the environments it was made with.

    `METHODS` makes one from a configuration; `Stop` raised by the watcher passes through `learn` to the caller.
    """

    def learn(self, steps: int, watcher: Watcher | None = None) -> None:
        """Train up to `steps` environment steps in all, in whole rounds."""

    # ---- looking --------------------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Environment steps so far."""

    @property
    def round_steps(self) -> int:
        """Environment steps between two updates."""

    @property
    def agent(self) -> object:
        """The policy as it is now, to act."""

    @property
    def observation(self) -> Mapping[str, Array | torch.Tensor]:
        """The latest observations, entries (env, …), for diagnostics."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Time spent in each section of the program since this process began."""

    def statistics(self) -> Mapping[str, float | torch.Tensor]:
        """Figures of the latest round: numbers, or (symbol, …) tensors for a fleet; nothing before the first."""

    def losses(self) -> Mapping[str, float]:
        """What the latest update came to, e.g. `value_loss`; a NaN stops the run."""

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Name and tensor of everything that is trained."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what the encoder takes, by entry."""

    def network(self) -> nn.Module:
        """All modules that act."""

    def weights_hash(self) -> str:
        """SHA-256 over names and bytes of the weights that act."""

    # ---- changing -------------------------------------------------------------------------------------------------

    def set(self, name: str, value: float) -> None:
        """Change a hyperparameter while learning; refuses one that cannot be scheduled."""

    def freeze(self, parts: tuple[str, ...]) -> None:
        """Keep the named parts of the policy as they are."""

    def take_weights(self, folder: str | Path) -> int:
        """Begin with what is stored in `folder`, where it fits; gives how many tensors were taken."""

    # ---- storing --------------------------------------------------------------------------------------------------

    def save(
        self, folder: str | Path, header: Mapping[str, object] | None = None, more: Mapping[str, object] | None = None
    ) -> object:
        """Store the agent; with `more`, also all that a bit-exact resume needs, and `more` beside it."""

    def load(self, folder: str | Path) -> dict[str, Any]:
        """Resume bit-exactly from what `save` stored with `more`, which it gives back."""
