"""A residual policy over windows: what the record says of each window, and what a network adds to it.

With m_h(k) how well window k predicted on average over the latest h bars, as the observation's `record` shows it:

    logit(k) = network(k) + record_coef · Σ_h w_h·m_h(k)

The network's last layer begins at 0, and the w_h at the mean of those records by which the best window would have
earned most on the training set (`best_weights`). With one record that is cross-validation's choice. How far back a
record should look differs from market to market: where leaders change often a short one is best, else a long one.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from torch import nn

from pacesetter.envs.lookback.table import RewardTable
from pacesetter.errors import ConfigError

__all__ = ["MOST_RECORDS", "RecordLogits", "WindowPolicy", "best_weights", "with_record"]

Array = NDArray[Any]
RECORD = "record"
MOST_RECORDS = 8  # every set of them is tried


class Beside(nn.Module):
    """Layers of all features; those from `width` on stand behind what the layers answer, as they are."""

    def __init__(self, layers: nn.Module, width: int) -> None:
        super().__init__()
        self.layers, self.width = layers, width

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.layers(features), features[:, self.width :]], dim=-1)


class RecordLogits(nn.Module):
    """(row, hidden + record · window) → logits (row, window); each window has a record over each number of bars."""

    def __init__(self, hidden: int, choices: int, records: int, coef: float) -> None:
        super().__init__()
        self.network = nn.Linear(hidden, choices)
        nn.init.zeros_(self.network.weight)
        nn.init.zeros_(self.network.bias)
        self.weights = nn.Parameter(torch.full((records,), 1.0 / records))
        self.hidden, self.coef = hidden, coef

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        known = latent[:, self.hidden :].reshape(latent.shape[0], len(self.weights), -1)
        logits: torch.Tensor = self.network(latent[:, : self.hidden])
        return logits + self.coef * (self.weights[:, None] * known).sum(1)

    def is_new(self) -> bool:
        """Whether nothing was learned yet."""
        return not bool(self.network.weight.any()) and bool((self.weights == 1.0 / len(self.weights)).all())


def best_weights(record: Array, table: RewardTable, usable: Array) -> Array:
    """(record,) equal weights of the records by whose mean the best window earns most over the usable bars.

    record   (time, record · window) at the bars of the table      usable   (time,) bool

    A record at a bar reads outcomes before it alone, so that each set of them is judged out-of-sample.
    """
    windows = table.total.shape[1]
    known = record.reshape(len(record), -1, windows)
    # The largest sets first: of equals the first counts, as it does where no bar is usable.
    sets = sorted(product((1.0, 0.0), repeat=known.shape[1]), key=sum, reverse=True)[:-1]
    weights = np.array([np.array(one) / sum(one) for one in sets])
    choices = np.einsum("sr,trw->tsw", weights, known).argmax(axis=2)
    held, earned = choices[0], np.zeros(len(sets))
    for row, chosen in enumerate(choices):
        earned += table.total[row, held, chosen] * usable[row]
        held = table.in_force[row, held, chosen]
    return np.asarray(weights[earned.argmax()])


class WindowPolicy(MultiInputActorCriticPolicy):
    """Actor and critic; with a `record_coef` the actor begins at the windows' own records."""

    def __init__(self, *arguments: Any, record_coef: float = 0.0, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if record_coef == 0:
            return
        own: Any = self  # the parent declares its layers more narrowly than it uses them
        hidden, choices = int(own.action_net.in_features), int(own.action_net.out_features)
        width = int(own.features_extractor.encoder.width)
        own.mlp_extractor.policy_net = Beside(own.mlp_extractor.policy_net, width)
        records = (own.features_dim - width) // choices
        if records > MOST_RECORDS:
            raise ConfigError(f"task.view.record_bars has {records} numbers; give {MOST_RECORDS} at most")
        own.action_net = RecordLogits(hidden, choices, records, record_coef)
        # The parent's optimiser holds the parameters of the layer that was replaced.
        schedule = arguments[2] if len(arguments) > 2 else options["lr_schedule"]
        make: Any = self.optimizer_class
        self.optimizer = make(self.parameters(), lr=schedule(1), **self.optimizer_kwargs)


def with_record(policy_kwargs: dict[str, Any], env: Any, record_coef: float) -> dict[str, Any]:
    """Options of a `WindowPolicy` that reads the record; refuses observations without one."""
    if RECORD not in env.observation_space.spaces:
        raise ConfigError(
            f"agent.record_coef={record_coef:g} weighs the windows' record, which the observation lacks; set "
            "task.view.record_bars, e.g. 250, or agent.record_coef=0"
        )
    extractor = {**policy_kwargs["features_extractor_kwargs"], "passed": (RECORD,)}
    return {**policy_kwargs, "features_extractor_kwargs": extractor, "record_coef": record_coef}
