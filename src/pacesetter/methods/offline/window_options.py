"""Options of learning windows from stored episodes, as `agent` shows them; torch is not imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pacesetter.learning.methods import NetworkOptions

__all__ = ["StoredWindowsOptions", "WindowsBCOptions", "WindowsCQLOptions", "WindowsIQLOptions"]


@dataclass(frozen=True)
class StoredWindowsOptions(NetworkOptions):
    """Learning windows from stored episodes; `train.steps` counts rows drawn."""

    network: str = "mlp_small"
    heads: tuple[int, ...] = (32,)
    dataset: Annotated[str, "file that `pacesetter data export` wrote of task=lookback"] = ""
    regimes: Annotated[tuple[str, ...], "those of its regimes that are learned from; none named means all"] = ()
    held_out: Annotated[float, "share of the episodes that is never learned from"] = 0.2
    learning_rate: float = 1e-3
    batch_size: Annotated[int, "rows of a gradient step, and `gradient_steps` of them in a round"] = 256
    gradient_steps: int = 16
    gamma: float = 0.9
    max_grad_norm: float = 0.5


@dataclass(frozen=True)
class WindowsBCOptions(StoredWindowsOptions):
    """Behaviour cloning, of the expert regime by default."""

    regimes: tuple[str, ...] = ("expert",)


@dataclass(frozen=True)
class WindowsCQLOptions(StoredWindowsOptions):
    """Conservative Q-learning; see `FleetCQL`."""

    penalty: float = 0.2
    temperature: float = 0.02
    tau: float = 0.02


@dataclass(frozen=True)
class WindowsIQLOptions(StoredWindowsOptions):
    """Implicit Q-learning; see `FleetIQL`."""

    expectile: float = 0.8
    inverse_temperature: float = 10.0
    tau: float = 0.02
