"""Options of the methods that choose windows, as `agent` shows them; torch is not imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pacesetter.errors import ConfigError
from pacesetter.learning.methods import NetworkOptions

__all__ = ["FullInformationOptions", "ThompsonOptions"]


@dataclass(frozen=True)
class FullInformationOptions(NetworkOptions):
    """Expected policy gradient over all windows of the grid."""

    network: str = "mlp_small"
    heads: tuple[int, ...] = (32,)
    learning_rate: float = 3e-3
    n_steps: Annotated[int, "bars of a segment; a round has one per environment"] = 32
    n_epochs: Annotated[int, "updates per round"] = 2
    gamma: float = 0.9
    ent_coef: float = 0.002
    vf_coef: float = 0.1
    teacher_coef: Annotated[
        float,
        "weight of the cross-entropy to the exact optimum's choices on the training set; 0 is none",
    ] = 0.0
    anchor_coef: Annotated[
        float,
        "weight of the cross-entropy to the constant that scores best on the training set; 0 is none. It leaves "
        "that constant only where the reward it expects elsewhere is worth more",
    ] = 0.0
    record_coef: Annotated[
        float,
        "weight of each window's record (task.view.record_bars) in its logit, before anything is learned; 0 is "
        "none. It begins at the rule over records, or at the constant, that earned most on the training set, see "
        "`record.py`",
    ] = 0.0
    max_grad_norm: float = 0.5


@dataclass(frozen=True)
class ThompsonOptions(NetworkOptions):
    """Thompson sampling over the windows of the grid: a network's last layer is a Bayesian regression per window."""

    network: str = "mlp_small"
    heads: tuple[int, ...] = (32,)
    learning_rate: float = 3e-3
    n_steps: Annotated[
        int,
        "bars of a round, per environment      n_epochs, batch_size   of the network's updates on it",
    ] = 64
    batch_size: int = 256
    n_epochs: int = 4
    prior_precision: Annotated[float, "of the last layer's weights before anything was seen"] = 1.0
    forgetting: Annotated[
        float,
        "share of what was seen that counts one round later, since the layers below move; 1 forgets nothing",
    ] = 0.98
    vf_coef: float = 0.1
    max_grad_norm: float = 0.5

    def __post_init__(self) -> None:
        if self.prior_precision <= 0 or not 0 < self.forgetting <= 1:
            raise ConfigError(
                f"agent.prior_precision={self.prior_precision:g} must be above 0, and agent.forgetting="
                f"{self.forgetting:g} above 0 and at most 1"
            )
