"""Options of one agent that learns by SAC or TD3, as `agent` shows them; torch is not imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pacesetter.learning.methods import NetworkOptions

__all__ = ["SACOptions", "TD3Options"]


@dataclass(frozen=True)
class SACOptions(NetworkOptions):
    """Soft actor–critic; `ent_coef=auto` learns the temperature."""

    learning_rate: float = 3e-4
    buffer_size: int = 100_000
    learning_starts: int = 1_000
    batch_size: int = 256
    tau: float = 0.005
    gamma: float = 0.99
    train_freq: int = 1
    gradient_steps: int = 1
    ent_coef: float | str = "auto"
    hindsight: Annotated[
        dict[str, Any] | None,
        "options of goals and of the replay that relabels them; null trades without goals",
    ] = None


@dataclass(frozen=True)
class TD3Options(NetworkOptions):
    """Twin delayed deep deterministic policy gradient; `action_noise` is the deviation while it explores."""

    learning_rate: float = 1e-3
    buffer_size: int = 100_000
    learning_starts: int = 1_000
    batch_size: int = 256
    tau: float = 0.005
    gamma: float = 0.99
    train_freq: int = 1
    gradient_steps: int = 1
    policy_delay: int = 2
    action_noise: float = 0.1
