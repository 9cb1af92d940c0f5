"""Counts (Bellemare et al. 2016, Tang et al. 2017): the intrinsic reward is 1/√N of the state that an agent is in.

States are of the account, which is what orders change: bars held by fours, position by fifths of equity, and the
unrealised return in the levels of the gates. Each agent counts its own.
"""

from __future__ import annotations

import torch
from torch import nn

from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.curiosity import CuriosityConfig
from pacesetter.learning.extras.extra import Extra, Surroundings

__all__ = ["Counts"]

BARS, MOST_BARS = 4, 32  # bars held of one state, and the number of the last one
FIFTHS = 5  # positions from −1 to 1 of equity
LEVELS = (-0.01, 0.0, 0.01)  # of the unrealised return


def states(position: torch.Tensor) -> torch.Tensor:
    """(row,) the number of the state of each position (row, entry)."""
    held = (position[:, PositionEntry.BARS_HELD] / BARS).clamp(0, MOST_BARS).long()
    weight = (FIFTHS * (position[:, PositionEntry.WEIGHT].clamp(-1, 1) + 1)).round().long()
    gain = position[:, PositionEntry.UNREALISED_RETURN]
    level = sum((gain > edge).long() for edge in LEVELS)
    return (held * (2 * FIFTHS + 1) + weight) * (len(LEVELS) + 1) + level


STATES = (MOST_BARS + 1) * (2 * FIFTHS + 1) * (len(LEVELS) + 1)


class Counts(Extra):
    """How often each agent was in each state; nothing learns."""

    declared = ("shown",)
    log = ()  # of losses: there are none

    def __init__(self, around: Surroundings, config: CuriosityConfig) -> None:
        if around.batch is None or around.batch.bank.is_whole:
            raise ConfigError(
                "agent.extras.curiosity.model=counts counts states of single positions; take task=fleet, or model=icm"
            )
        self.around, self.config = around, config
        self.own = nn.ModuleDict()
        self.own["visits"] = Visits(around.symbols).to(around.device)
        self.shown: dict[str, torch.Tensor] = {}

    def reward(self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, steps: int) -> torch.Tensor:
        """(1 − share)·reward + share·η/√N; during the warm-up states are counted alone."""
        assert batch.rewards is not None
        position = self.around.complete(batch.observation)["position"].float()
        novelty: torch.Tensor = self.own["visits"](self._agents(batch), states(position))
        intrinsic = self.config.eta * novelty
        self.shown["icm/intrinsic_reward_mean"] = intrinsic.mean()
        if steps < self.config.warmup_steps:
            return batch.rewards
        return (1 - self.config.share) * batch.rewards + self.config.share * intrinsic

    def _agents(self, batch: Transitions) -> torch.Tensor:
        return batch.symbol if self.around.places is None else self.around.places[batch.symbol]

    def figures_to_log(self) -> dict[str, torch.Tensor]:
        """The mean of the latest intrinsic rewards."""
        return self.shown


class Visits(nn.Module):
    """(agent, state) visits."""

    counts: torch.Tensor

    def __init__(self, agents: int) -> None:
        super().__init__()
        self.register_buffer("counts", torch.zeros(agents, STATES))

    def forward(self, agents: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """(row,) 1/√N of the states of these agents, the visits of all rows counted."""
        self.counts.index_put_((agents, states), torch.ones_like(agents, dtype=self.counts.dtype), accumulate=True)
        return self.counts[agents, states].rsqrt()
