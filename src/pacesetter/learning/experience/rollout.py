"""What a fleet collected in one rollout, and what is computed from it: scaled rewards, statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pacesetter.agents.layout import Tensors
from pacesetter.rewards.sharpe import SAME

__all__ = [
    "ReturnScale",
    "Rollout",
    "action_mix",
    "by_symbol",
    "explained_variance",
    "select",
    "sharpe",
]

LARGEST_REWARD = 10.0  # deviations of a return


@dataclass(frozen=True, eq=False)
class Rollout:
    """Steps of all environments, each tensor (step, env, …), environments of one symbol side by side.

    observation   compact entries that were acted on     finals   those at ends of episodes; other rows hold nothing
    rewards       as the market gave them                returns  of equity
    objectives    (step, env, k) components of the reward
    features      of the encoder; without columns unless requested
    """

    observation: dict[str, torch.Tensor]
    actions: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    entropies: torch.Tensor
    features: torch.Tensor
    rewards: torch.Tensor
    returns: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    finals: dict[str, torch.Tensor]
    objectives: torch.Tensor

    @classmethod
    def stack(cls, steps: list[Rollout]) -> Rollout:
        """Single steps (env, …) one after another."""
        joined: dict[str, Any] = {}
        for name, *parts in zip(vars(steps[0]), *(vars(step).values() for step in steps), strict=True):
            joined[name] = (
                {entry: torch.stack([part[entry] for part in parts]) for entry in parts[0]}
                if isinstance(parts[0], dict)
                else torch.stack(parts)
            )
        return cls(**joined)

    def to(self, device: torch.device) -> Rollout:
        """The same on a device."""
        moved: dict[str, Any] = {
            name: {entry: one.to(device) for entry, one in part.items()} if isinstance(part, dict) else part.to(device)
            for name, part in vars(self).items()
        }
        return Rollout(**moved)


def by_symbol(entry: torch.Tensor, symbols: int) -> torch.Tensor:
    """(step, symbol · n, …) as (symbol, step · n, …)."""
    return entry.view(len(entry), symbols, -1, *entry.shape[2:]).transpose(0, 1).flatten(1, 2)


class ReturnScale(nn.Module):
    """Rewards in deviations of each symbol's discounted return, so that all values are of one size."""

    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor
    running: torch.Tensor

    def __init__(self, symbols: int, env_count: int, discount: float) -> None:
        super().__init__()
        self.discount = discount
        for name in ("count", "mean", "variance"):
            self.register_buffer(name, torch.zeros(symbols, dtype=torch.float64))
        self.register_buffer("running", torch.zeros(env_count))

    def forward(self, rewards: torch.Tensor) -> torch.Tensor:
        """Rewards (…, symbol, n) in these deviations, cut to ±10."""
        # Scaled, not centred: subtracting a mean would pay or charge for every bar that an episode lasts.
        deviation = self.variance.sqrt().clamp(min=1e-8).to(rewards.dtype)
        return (rewards / deviation[:, None]).clamp(-LARGEST_REWARD, LARGEST_REWARD)

    def observe(self, rewards: torch.Tensor, ended: torch.Tensor) -> None:
        """Count (step, env) rewards and where an episode ended."""
        discounted = torch.empty_like(rewards)
        for t in range(len(rewards)):
            # The running discounted sum, as in SB3's VecNormalize: its deviation is that of the returns which a critic
            # has to fit.
            discounted[t] = self.running.mul_(self.discount).add_(rewards[t])
            # After the step is counted: its reward still belongs to the episode that ended.
            self.running.masked_fill_(ended[t], 0.0)
        self._merge(by_symbol(discounted, len(self.count)).double())

    def _merge(self, rows: torch.Tensor) -> None:
        """Merge the moments of (symbol, row) into the running ones (Chan, Golub, LeVeque 1979)."""
        self.count.add_(rows.shape[1])
        share, shift = rows.shape[1] / self.count, rows.mean(1) - self.mean
        # Population variance, which merges exactly with weights n_a/n and n_b/n.
        within = share * (rows.var(1, unbiased=False) - self.variance)
        self.variance.add_(within + share * (1 - share) * shift**2)
        self.mean.add_(share * shift)


def sharpe(returns: torch.Tensor, bars_per_year: float) -> torch.Tensor:
    """(symbol,) annualised Sharpe ratios of (symbol, bar) returns, on their device; defined as in `rewards.sharpe`."""
    mean, deviation, exact = returns.mean(1), returns.std(1), returns.double()
    # Whether they vary is judged in float64, as float32 rounds more than SAME; the ratio stays in the returns' own
    # precision, so that runs of earlier versions verify bit-exactly.
    moves = (exact.std(1) > SAME * exact.mean(1).abs()) & (deviation > 0)
    return torch.where(moves, mean / deviation, 0.0) * float(bars_per_year**0.5)


def explained_variance(values: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """(symbol,) 1 − var(target − value) / var(target) of (symbol, row); 0 where targets never vary."""
    variance = targets.var(1)
    return torch.where(variance > 0, 1 - (targets - values).var(1) / variance, 0.0)


def action_mix(actions: torch.Tensor, count: int | None, hold_zone: float) -> torch.Tensor:
    """(symbol, action) shares of (symbol, row) discrete actions, or of sell, hold and buy among continuous orders.

    A continuous order below `hold_zone` in size holds.
    """
    if count is None:
        order = actions.flatten(1)
        # 0 sells, 1 holds, 2 buys.
        actions, count = (order > -hold_zone).long() + (order >= hold_zone).long(), 3
    return torch.stack([(actions == action).float().mean(1) for action in range(count)], dim=1)


def select(observation: Tensors, rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """Flat observations (symbol · n, …) at the places `rows` (symbol, n) of (symbol, row, …) entries."""
    symbols = torch.arange(len(rows), device=rows.device)[:, None]
    return {name: entry[symbols, rows].flatten(0, 1) for name, entry in observation.items()}
