"""Options of every method of a fleet. They are read by commands that train nothing, so torch is not imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pacesetter.errors import check_above, check_range
from pacesetter.learning.extras.extra import check_extras

__all__ = ["FleetConfig"]

COUNTS = ("n_steps", "n_epochs", "train_freq", "gradient_steps", "batch_size", "buffer_size")  # where a method has them


@dataclass(frozen=True)
class FleetConfig:
    """Options of every fleet method."""

    learning_rate: Annotated[float, "of the heads; the encoder has its own, since every symbol pulls at it"] = 1e-3
    encoder_learning_rate: float = 1e-3
    gamma: Annotated[
        float,
        "discount of the next bar; most of what an order earns comes soon, and later bars only add noise",
    ] = 0.9
    max_grad_norm: Annotated[float, "of the encoder, and of each symbol's heads"] = 0.5
    precision: Annotated[
        Literal["float32", "bfloat16"],
        "of the encoder; heads, losses and weights are float32",
    ] = "float32"
    compile: Annotated[bool, "fuse the encoder by torch.compile, which pays on a GPU"] = False
    graphs: Annotated[bool, "replay whole rounds as CUDA graphs, which pays for small networks on a GPU"] = False
    extras: Annotated[
        dict[str, Any],
        "name -> options of what is added to the method, e.g. curiosity; null leaves it out",
    ] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        rates = {"learning_rate": self.learning_rate, "encoder_learning_rate": self.encoder_learning_rate}
        check_above(0, owner="agent", **rates, max_grad_norm=self.max_grad_norm)
        check_range(1, owner="agent", **{name: value for name, value in vars(self).items() if name in COUNTS})
        check_range(0, 1, owner="agent", gamma=self.gamma)
        object.__setattr__(self, "extras", check_extras(self.extras))  # as dataclasses, without those left out
