"""A residual policy over windows: what the record says of each window, and what a network adds to it.

With m_h(k) how well window k predicted on average over the latest h bars, as the observation's `record` shows it, and
p(k) its place on the logarithmic scale, b being the window in force:

    logit(k) = network(k) + record_coef · (Σ_h w_h·m_h(k) − stay·|p(k) − p(b)|)

The network's last layer begins at 0, the w_h at one over their number, and a record by state (the last one,
`view.state_bars`) at 0: the likeliest window is then the one with the best record, which is cross-validation's choice,
and `stay` is what a better record must be ahead by for a switch. Records are noisy, and switches cost. With the record
by state, and with more or less `stay`, it begins where that earned clearly more on the training set (`best_rule`); at
a window that never changes, where that earned clearly more still (`better_constant`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from torch import nn

from pacesetter.arrays import Array
from pacesetter.envs.lookback.table import RewardTable
from pacesetter.errors import ConfigError

__all__ = ["RecordLogits", "RecordRule", "WindowPolicy", "best_rule", "better_constant", "with_record"]

RECORD, LOOKBACK = "record", "lookback"  # entries of the observation; the latter begins with the window in force
# Standard errors, of means over so many bars, by which another rule and a constant must be better
RULE_ERRORS, CONSTANT_ERRORS, BLOCK_BARS = 1.0, 2.0, 64
USUAL_STAY, STAYS = 0.08, (0.0, 0.02, 0.04, 0.08, 0.16, 0.32)
LEAD = 0.1  # of a constant that is begun at: as if its record were that much above the others


class Beside(nn.Module):
    """Layers of all features; those from `width` on stand behind what the layers answer, as they are."""

    def __init__(self, layers: nn.Module, width: int) -> None:
        super().__init__()
        self.layers, self.width = layers, width

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.layers(features), features[:, self.width :]], dim=-1)


class RecordRule(NamedTuple):
    """Choose the window of highest Σ_h w_h·m_h less `stay` for each step away from the one in force."""

    weights: Array  # (record,)
    stay: float

    def rewards_of(self, record: Array, table: RewardTable) -> Array:
        """(time,) what it earns by the records (time, record · window) at the bars of the table."""
        worth = np.einsum("r,trk->tk", self.weights, record.reshape(len(record), len(self.weights), -1))
        return table.rewards_of(worth, self.stay)


class RecordLogits(nn.Module):
    """(row, hidden + record · window + 3) → logits (row, window); each window has a record over each number of bars.

    `places` (window,) are those of the grid; of the last three the first is that of the window in force.
    """

    stay: torch.Tensor
    places: torch.Tensor

    def __init__(self, hidden: int, places: Sequence[float], records: int, coef: float) -> None:
        super().__init__()
        self.network = nn.Linear(hidden, len(places))
        nn.init.zeros_(self.network.weight)
        nn.init.zeros_(self.network.bias)
        self.weights = nn.Parameter(torch.full((records,), 1.0 / records))
        self.register_buffer("stay", torch.zeros(()))
        self.register_buffer("places", torch.tensor(places, dtype=torch.float32))
        self.hidden, self.coef = hidden, coef

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        known = latent[:, self.hidden : -3].reshape(latent.shape[0], len(self.weights), -1)
        away = (self.places - latent[:, -3, None]).abs()
        logits: torch.Tensor = self.network(latent[:, : self.hidden])
        return logits + self.coef * ((self.weights[:, None] * known).sum(1) - self.stay * away)

    def is_new(self) -> bool:
        """Whether nothing was learned yet."""
        is_even = bool((self.weights == 1.0 / len(self.weights)).all())
        return is_even and not self.stay and not any(bool(part.any()) for part in self.network.parameters())

    @torch.no_grad()
    def begin_with(self, rule: RecordRule) -> None:
        """Choose by this rule at first."""
        self.weights.copy_(torch.as_tensor(rule.weights))
        self.stay.fill_(rule.stay)

    @torch.no_grad()
    def begin_at(self, place: int) -> None:
        """Prefer one window, whatever the records are."""
        self.weights.zero_()
        self.stay.zero_()
        self.network.bias[place] = LEAD * self.coef


def best_rule(record: Array, records: int, table: RewardTable, usable: Array, by_state: bool) -> RecordRule:
    """The rule to begin with: all records but that by state, with the usual stay, unless another earned clearly more.

    record   (time, record · window) at the bars of the table      usable   (time,) bool
    """
    plain = np.full(records, 1.0 / records)
    choices = [plain]
    if by_state:  # without it, or as much as all others together
        choices = [np.append(np.full(records - 1, 1.0 / (records - 1)), last) for last in (0.0, 1.0)]
    usual = RecordRule(choices[0], USUAL_STAY)
    earned = usual.rewards_of(record, table)
    rules = [RecordRule(weights, stay) for weights in choices for stay in STAYS]
    gains = [rule.rewards_of(record, table) - earned for rule in rules]
    best = int(np.argmax([gain[usable].mean() for gain in gains]))
    return rules[best] if _is_clearly_above(gains[best][usable], RULE_ERRORS) else usual


def better_constant(rule: RecordRule, record: Array, table: RewardTable, usable: Array) -> int | None:
    """Place of the window that clearly earns more over the usable bars than the rule, or None.

    A record follows the market and a constant never does, so a constant must be better by two standard errors. Without
    that, one that was best by chance, or in the only regime of the training set, would be kept for good.
    """
    constants = np.einsum("tkk->tk", table.total)
    place = int(constants[usable].mean(axis=0).argmax())
    gaps = (constants[:, place] - rule.rewards_of(record, table))[usable]
    return place if _is_clearly_above(gaps, CONSTANT_ERRORS) else None


def _is_clearly_above(gaps: Array, errors: float) -> bool:
    """Whether the mean of gaps (time,) is so many standard errors of block means above 0."""
    blocks = len(gaps) // BLOCK_BARS
    if blocks < 2:
        return False
    means = gaps[: blocks * BLOCK_BARS].reshape(blocks, -1).mean(axis=1)
    return bool(means.mean() > errors * means.std(ddof=1) / np.sqrt(blocks))


class WindowPolicy(MultiInputActorCriticPolicy):
    """Actor and critic; with a `record_coef` the actor begins at the windows' own records."""

    def __init__(self, *arguments: Any, record_coef: float = 0.0, places: Sequence[float] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        if record_coef == 0:
            return
        own: Any = self  # the parent declares its layers more narrowly than it uses them
        hidden, width = int(own.action_net.in_features), int(own.features_extractor.encoder.width)
        own.mlp_extractor.policy_net = Beside(own.mlp_extractor.policy_net, width)
        own.action_net = RecordLogits(hidden, places, (own.features_dim - width - 3) // len(places), record_coef)
        # The parent's optimiser holds the parameters of the layer that was replaced.
        schedule = arguments[2] if len(arguments) > 2 else options["lr_schedule"]
        make: Any = self.optimizer_class
        self.optimizer = make(self.parameters(), lr=schedule(1), **self.optimizer_kwargs)


def with_record(policy_kwargs: dict[str, Any], env: Any, record_coef: float, places: Array) -> dict[str, Any]:
    """Options of a `WindowPolicy` that reads the record of windows at `places`; refuses observations without one."""
    if RECORD not in env.observation_space.spaces:
        raise ConfigError(
            f"agent.record_coef={record_coef:g} weighs the windows' record, which the observation lacks; set "
            "task.view.record_bars, e.g. 250, or agent.record_coef=0"
        )
    extractor = {**policy_kwargs["features_extractor_kwargs"], "passed": (RECORD, LOOKBACK)}
    own = {"features_extractor_kwargs": extractor, "record_coef": record_coef, "places": tuple(places.tolist())}
    return policy_kwargs | own
