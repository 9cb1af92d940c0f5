"""Options of one agent that learns by PPO or A2C, as `agent` shows them; torch is not imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pacesetter.learning.methods import NetworkOptions

__all__ = ["A2COptions", "PPOOptions"]


@dataclass(frozen=True)
class PPOOptions(NetworkOptions):
    """Proximal policy optimisation, masked and recurrent too; `n_steps` is per environment."""

    learning_rate: float = 3e-4
    n_steps: int = 128
    batch_size: int = 256
    n_epochs: int = 4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    target_kl: float | None = None
    advantages: Annotated[
        Literal["sampled", "expected"],
        "sampled: of the orders sent; expected, for `agent=ppo` alone: of every discrete order",
    ] = "sampled"


@dataclass(frozen=True)
class A2COptions(NetworkOptions):
    """Advantage actor–critic."""

    learning_rate: float = 7e-4
    n_steps: int = 16
    gamma: float = 0.99
    gae_lambda: float = 1.0
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
