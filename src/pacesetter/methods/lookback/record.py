"""A residual policy over windows: what the record says of each window, and what a network adds to it.

With m_h(k) how well window k predicted on average over the latest h bars, as the observation's `record` shows it:

    logit(k) = network(k) + record_coef · Σ_h w_h·m_h(k)

The network's last layer begins at 0 and the w_h at one over their number. Before anything is learned the likeliest
window is then the one with the best record, which is cross-validation's choice. A record by state (the last one,
`view.state_bars`) counts at first where it would have earned more on the training set (`record_weights`). Where a
window that never changes would clearly have earned more still, the policy begins at that one (`better_constant`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from torch import nn

from pacesetter.arrays import Array
from pacesetter.envs.lookback.table import RewardTable
from pacesetter.errors import ConfigError

__all__ = ["RecordLogits", "WindowPolicy", "better_constant", "record_weights", "with_record"]

RECORD = "record"
ERRORS, BLOCK_BARS = 2.0, 64  # standard errors by which a constant must be better, of means over so many bars
LEAD = 0.1  # of a constant that is begun at: as if its record were that much above the others


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
        is_even = bool((self.weights == 1.0 / len(self.weights)).all())
        return is_even and not any(bool(part.any()) for part in self.network.parameters())

    @torch.no_grad()
    def begin_with(self, weights: Array) -> None:
        """Weigh the records (record,) so at first."""
        self.weights.copy_(torch.as_tensor(weights))

    @torch.no_grad()
    def begin_at(self, place: int) -> None:
        """Prefer one window, whatever the records are."""
        self.weights.zero_()
        self.network.bias[place] = LEAD * self.coef


def better_constant(record: Array, table: RewardTable, usable: Array) -> int | None:
    """Place of the window that clearly earns more over the usable bars than the best by its mean record does, or None.

    record   (time, record · window) at the bars of the table, or what is made of it      usable   (time,) bool

    A record follows the market and a constant never does, so a constant must be better by two standard errors. Without
    that, one that was best by chance, or in the only regime of the training set, would be kept for good.
    """
    earned = _earned(_mean_record(record, table), table)
    constants = np.einsum("tkk->tk", table.total)
    place = int(constants[usable].mean(axis=0).argmax())
    return place if _is_clearly_above((constants[:, place] - earned)[usable]) else None


def record_weights(record: Array, table: RewardTable, usable: Array) -> Array:
    """(record,) weights to begin with where the last record is by state.

    It counts as much as all others together where that would have earned more over the usable bars, else not at all.
    """
    windows = table.total.shape[1]
    others = record.shape[1] // windows - 1
    plain, state = _mean_record(record[:, : others * windows], table), record[:, others * windows :]
    gaps = _earned(plain + state, table) - _earned(plain, table)
    return np.append(np.full(others, 1 / others), float(gaps[usable].mean() > 0))


def _mean_record(record: Array, table: RewardTable) -> Array:
    """(time, window) mean over the records (time, record · window)."""
    mean: Array = record.reshape(len(record), -1, table.total.shape[1]).mean(axis=1)
    return mean


def _earned(worth: Array, table: RewardTable) -> Array:
    """(time,) rewards of choosing the window that is worth most, (time, window), at every bar."""
    choices = worth.argmax(axis=1)
    held, earned = int(choices[0]), np.zeros(len(choices))
    for row, chosen in enumerate(choices.tolist()):
        earned[row] = table.total[row, held, chosen]
        held = int(table.in_force[row, held, chosen])
    return earned


def _is_clearly_above(gaps: Array) -> bool:
    """Whether the mean of gaps (time,) is two standard errors of block means above 0."""
    blocks = len(gaps) // BLOCK_BARS
    if blocks < 2:
        return False
    means = gaps[: blocks * BLOCK_BARS].reshape(blocks, -1).mean(axis=1)
    return bool(means.mean() > ERRORS * means.std(ddof=1) / np.sqrt(blocks))


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
        own.action_net = RecordLogits(hidden, choices, (own.features_dim - width) // choices, record_coef)
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
