"""Options of the Stable-Baselines3 algorithms as `agent` shows them, with defaults for the tasks of this package.

Each class is a list of keys and defaults: any other argument of the algorithm's constructor may be added by
`+agent.NAME=VALUE`, and `Recipe` checks them all. They import neither torch nor Stable-Baselines3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "A2COptions",
    "FullInformationOptions",
    "PPOOptions",
    "SACOptions",
    "TD3Options",
    "ThompsonOptions",
    "WindowsBCOptions",
    "WindowsCQLOptions",
    "WindowsIQLOptions",
]


@dataclass(frozen=True)
class NetworkOptions:
    """The network of one agent.

    network           name in NETWORKS       network_options   fields of it to change
    heads             widths of the hidden layers of actor and critic
    extras            name -> options of what is added to rewards, e.g. curiosity; null leaves it out
    """

    network: str = "transformer_small"
    network_options: dict[str, Any] | None = None
    heads: tuple[int, ...] = (128,)
    extras: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PPOOptions(NetworkOptions):
    """Proximal policy optimisation, masked and recurrent too; `n_steps` is per environment.

    advantages   sampled: of the orders sent; expected, for `agent=ppo` alone: of every discrete order
    """

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
    advantages: Literal["sampled", "expected"] = "sampled"


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


@dataclass(frozen=True)
class SACOptions(NetworkOptions):
    """Soft actor–critic; `ent_coef=auto` learns the temperature.

    hindsight   options of goals and of the replay that relabels them; null trades without goals
    """

    learning_rate: float = 3e-4
    buffer_size: int = 100_000
    learning_starts: int = 1_000
    batch_size: int = 256
    tau: float = 0.005
    gamma: float = 0.99
    train_freq: int = 1
    gradient_steps: int = 1
    ent_coef: float | str = "auto"
    hindsight: dict[str, Any] | None = None


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


@dataclass(frozen=True)
class FullInformationOptions(NetworkOptions):
    """Expected policy gradient over all windows of the grid; `n_steps` are the bars of a segment.

    teacher_coef   weight of the cross-entropy to the optimum's choices in training; anchor_coef to the best constant's
    record_coef    weight of each window's record (task.view.record_bars) in its logit before it learns; 0 is none
    """

    network: str = "mlp_small"
    heads: tuple[int, ...] = (32,)
    learning_rate: float = 3e-3
    n_steps: int = 32
    n_epochs: int = 2
    gamma: float = 0.9
    ent_coef: float = 0.002
    vf_coef: float = 0.1
    teacher_coef: float = 0.0
    anchor_coef: float = 0.0
    record_coef: float = 0.0
    max_grad_norm: float = 0.5


@dataclass(frozen=True)
class ThompsonOptions(NetworkOptions):
    """Thompson sampling over the windows of the grid: a network's last layer is a Bayesian regression per window.

    prior_precision   of the last layer's weights before anything was seen
    forgetting        share of what was seen that counts one round later, since the layers below move; 1 forgets nothing
    """

    network: str = "mlp_small"
    heads: tuple[int, ...] = (32,)
    learning_rate: float = 3e-3
    n_steps: int = 64
    batch_size: int = 256
    n_epochs: int = 4
    prior_precision: float = 1.0
    forgetting: float = 0.98
    vf_coef: float = 0.1
    max_grad_norm: float = 0.5


@dataclass(frozen=True)
class StoredWindowsOptions(NetworkOptions):
    """Learning windows from stored episodes; `train.steps` counts rows drawn.

    dataset          file that `pacesetter export` wrote of task=lookback
    regimes          those of its regimes that are learned from; none named means all
    batch_size       rows of a gradient step, and `gradient_steps` of them in a round
    held_out         share of the episodes that is never learned from
    """

    network: str = "mlp_small"
    heads: tuple[int, ...] = (32,)
    dataset: str = ""
    regimes: tuple[str, ...] = ()
    held_out: float = 0.2
    learning_rate: float = 1e-3
    batch_size: int = 256
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
