"""A market that shows each environment what its agent has kept of the episode's latest bars."""

from __future__ import annotations

from typing import Any

import torch

from pacesetter.learning.experience.conditioned import ConditionedMarket
from pacesetter.learning.experience.gather import INDEX
from pacesetter.learning.experience.market import FleetMarket, FleetStep
from pacesetter.methods.meta.memory import CONTEXT, NOISE, POSITION, WINDOW, BarMemory, order_numbers

__all__ = ["ContextMarket"]


class ContextMarket(ConditionedMarket):
    """Keeps bars as `BarMemory` does, and draws a latent task's noise for each episode where `noise_size` is not 0.

    kept   (env, bar, ·) before this bar       now   (env, ·) this bar       noise   (env, noise_size) of the episode
    """

    def __init__(self, market: FleetMarket, memory: BarMemory, noise_size: int = 0) -> None:
        super().__init__(market)
        self.memory, self.noise_size = memory, noise_size
        envs, device = market.env_count, market.device
        self.kept = torch.zeros(envs, *memory.shape, device=device)
        self.now = torch.zeros(envs, memory.shape[1] - 2, device=device)
        self.noise = torch.zeros(envs, noise_size, device=device)
        self._orders = torch.zeros(envs, device=device)

    @property
    def remembered(self) -> dict[str, torch.Tensor]:
        return {"kept": self.kept, "now": self.now, "noise": self.noise}

    def entries(self) -> dict[str, torch.Tensor]:
        drawn = {NOISE: self.noise.clone()} if self.noise_size else {}
        return {CONTEXT: self.kept.clone(), **drawn}

    def step(self, actions: torch.Tensor) -> FleetStep:
        self._orders = order_numbers(actions, self.market.actions is not None)
        return super().step(actions)

    def advance(self, step: FleetStep) -> FleetStep:
        self.kept.copy_(self.memory.push(self.kept, self.now, self._orders))
        return step

    def begin(self, rows: torch.Tensor) -> None:
        self.kept.masked_fill_(rows[:, None, None], 0.0)
        if self.noise_size:
            self.noise.copy_(torch.where(rows[:, None], torch.randn_like(self.noise), self.noise))

    def before_showing(self, observation: Any) -> None:
        index = observation[INDEX].long()
        block, bar = index.unbind(-1)
        # The newest bar alone: whole windows are gathered where the network reads them.
        newest = {WINDOW: self.market.tables.windows[block, 0, bar][:, None], POSITION: observation[POSITION]}
        self.now.copy_(self.memory.now(newest | self.market.tables.context_at(index)))

    def counterfactual(self) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """As the market's, with what the agent would have kept after each order."""
        rewards, terminated, following = self.market.counterfactual()
        envs, orders = rewards.shape
        every = order_numbers(torch.arange(orders, device=rewards.device), True).repeat(envs)
        before = self.kept.repeat_interleave(orders, dim=0), self.now.repeat_interleave(orders, dim=0)
        noise = {NOISE: self.noise.repeat_interleave(orders, dim=0)} if self.noise_size else {}
        return rewards, terminated, following | {CONTEXT: self.memory.push(*before, every)} | noise

    def again(self, market: FleetMarket) -> ContextMarket:
        return ContextMarket(market, self.memory, self.noise_size)
