"""Options of the methods that choose windows, as `agent` shows them; torch is not imported here."""

from __future__ import annotations

from dataclasses import dataclass

from pacesetter.learning.methods import NetworkOptions

__all__ = ["FullInformationOptions", "ThompsonOptions"]


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
