"""Fleet SAC: every symbol has its actor, twin critics and temperature, all share the encoder.

Soft actor–critic after Haarnoja et al. (2018), with temperatures that steer to a target entropy. Read `round` first.
The encoder learns from the critics; actors and targets take its features as given.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Critic
from pacesetter.agents.stacked import StackedHead
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.market import FleetMarket, FleetStep
from pacesetter.learning.experience.replay import Replay
from pacesetter.learning.experience.rollout import ReturnScale, SacStatistics, action_mix, by_symbol, sharpe
from pacesetter.learning.fleet.trainer import FleetConfig, FleetLearner

__all__ = ["FleetSAC", "FleetSACLearner"]

SEEN, NEXT = "seen.", "next."  # entries of the replay that are observations before and after a step


@dataclass(frozen=True)
class FleetSAC(FleetConfig):
    """Options of fleet SAC.

    train_freq    of each environment in a round, and `updates` that follow them
    batch_size       rows of each symbol in an update
    buffer_size     latest steps of each environment that are kept
    learning_starts     of each symbol with random actions and without updates
    target_entropy   in nats, to which the temperatures steer; orders in [-1, 1] have at most log 2
    tau      by which target critics follow at every update
    """

    train_freq: int = 8
    gradient_steps: int = 8
    batch_size: int = 128
    buffer_size: int = 2_000
    learning_starts: int = 256
    target_entropy: float = -1.0
    tau: float = 0.01
    initial_ent_coef: float = 0.1


class TwinCritics(nn.Module):
    """Two stacked Q heads over features and action: (symbol · n, width + 1) → (2, symbol · n)."""

    def __init__(self, width: int, hidden: int, symbols: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(
            StackedHead([Critic(width + 1, hidden).layers for _ in range(symbols)]) for _ in range(2)
        )

    def forward(self, features: torch.Tensor, actions: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
        joined = torch.cat([features, actions], dim=-1)
        return torch.stack([head(joined, rows).squeeze(-1) for head in self.heads])


class FleetSACLearner(FleetLearner[Fleet, FleetMarket]):
    """SAC for all symbols of a market at once; `statistics` are those of the latest round."""

    config: FleetSAC
    statistics: SacStatistics

    def __init__(self, fleet: Fleet, market: FleetMarket, config: FleetSAC) -> None:
        if market.actions is not None:
            raise ConfigError("fleet SAC learns continuous orders; give task.action=continuous")
        torch.manual_seed(config.seed)
        self.critics = TwinCritics(fleet.config.width, fleet.hidden, len(fleet.symbols)).to(market.device)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        first = torch.full((len(fleet.symbols),), config.initial_ent_coef, device=market.device)
        self.log_temperature = nn.Parameter(first.log())
        super().__init__(fleet, market, config)
        self.replay = Replay(config.buffer_size, self.symbols, market.envs_each)
        self.scale = ReturnScale(self.symbols, market.env_count, config.gamma).to(self.device)

    def heads(self) -> list[nn.Parameter]:
        return [*self.fleet.actor.parameters(), *self.critics.parameters(), self.log_temperature]

    def round(self) -> None:
        """Some steps of all environments into the replay, and updates from it."""
        with self.clock("rollout"):
            steps = [self.collect() for _ in range(self.config.train_freq)]
        self.steps += self.round_steps
        if self.steps >= self.config.learning_starts:
            with self.clock("update"):
                logged = [
                    self.update(self.replay.sample(self.config.batch_size)) for _ in range(self.config.gradient_steps)
                ]
            self.statistics = self.describe(steps, logged)
        self.count(self.seen)

    # ---- experience -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def collect(self) -> tuple[torch.Tensor, FleetStep]:
        """One step of all environments; gives the actions and what they came to."""
        if self.steps < self.config.learning_starts:
            actions = 2 * torch.rand(self.market.env_count, 1, device=self.device) - 1
        else:
            actions = self.decide(self.seen)[0].sample()
        with self.clock("environment"):
            step = self.market.step(actions)
        ended = step.terminated | step.truncated
        following = {
            name: torch.where(ended.view(-1, *[1] * (entry.ndim - 1)), step.finals[name], entry)
            for name, entry in step.observation.items()
        }
        self.scale.observe(step.rewards[None], ended[None])
        seen = {SEEN + name: entry for name, entry in self.seen.items()}
        rest = {"actions": actions, "rewards": step.rewards, "terminated": step.terminated}
        self.replay.add(seen | {NEXT + name: entry for name, entry in following.items()} | rest)
        self.seen = step.observation
        return actions, step

    # ---- learning -------------------------------------------------------------------------------------------------

    def update(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """One step of all heads and the encoder on (symbol · n) rows; the targets follow."""
        features = self.features(_part(batch, SEEN))
        with torch.no_grad():
            following = self.features(_part(batch, NEXT))
            wanted = self.wanted(batch, features, following)
        values = self.critics(features, batch["actions"], self.rows)
        critic_loss = self._rows((values - wanted).square().sum(0)).mean(1)
        given = features.detach()
        policy, _ = self.fleet.decide(given, rows=self.rows)
        actions = policy.sample()
        log_probs = self._rows(policy.log_prob(actions))
        self.critics.requires_grad_(False)  # the actor's loss moves the actor alone
        gained = self._rows(self.critics(given, actions, self.rows).amin(0))
        self.critics.requires_grad_(True)
        log_temperature = self.log_temperature[self.present]
        actor_loss = (log_temperature.detach().exp()[:, None] * log_probs - gained).mean(1)
        excess = (log_probs.detach() + self.config.target_entropy).mean(1)
        self.descend(critic_loss + actor_loss - log_temperature * excess, ~self.fleet.frozen[self.present])
        self.follow()
        parts = {"critic_loss": critic_loss, "actor_loss": actor_loss, "entropy": -log_probs.mean(1)}
        return {name: part.detach() for name, part in parts.items()}

    def wanted(
        self, batch: Mapping[str, torch.Tensor], features: torch.Tensor, following: torch.Tensor
    ) -> torch.Tensor:
        """(symbol · n,) targets r + γ(min Q'(s', a') − α log π(a'|s')), the latter 0 after a termination."""
        policy, _ = self.fleet.decide(following, rows=self.rows)
        actions = policy.sample()
        temperature = self.log_temperature[self.present].exp()[:, None]
        values = self._rows(self.targets(following, actions, self.rows).amin(0))
        values = values - temperature * self._rows(policy.log_prob(actions))
        rewards = self.scale(self._rows(batch["rewards"]))
        if self.curiosity is not None:
            looked = (features, batch["actions"], following)
            rewards = self.curiosity.mix(rewards, self._rows(self.curiosity.reward(*looked)), self.steps)
            self.curiosity.learn(*looked)
        continues = ~self._rows(batch["terminated"])
        wanted: torch.Tensor = rewards + self.config.gamma * continues * values
        return wanted.flatten()

    @torch.no_grad()
    def follow(self) -> None:
        """Move the target critics towards the critics."""
        for target, critic in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
            target.lerp_(critic, self.config.tau)

    def _rows(self, values: torch.Tensor) -> torch.Tensor:
        return values.view(self.symbols, -1)

    def describe(
        self, steps: list[tuple[torch.Tensor, FleetStep]], logged: list[dict[str, torch.Tensor]]
    ) -> SacStatistics:
        """The statistics of a round."""
        returns = by_symbol(torch.stack([step.returns for _, step in steps]), self.symbols)
        actions = by_symbol(torch.stack([actions for actions, _ in steps]), self.symbols)
        means = {name: torch.stack([parts[name] for parts in logged]).mean(0) for name in logged[0]}
        temperature = self.log_temperature.detach()[self.present].exp()
        rules = self.market.batch.market
        ratio, mix = sharpe(returns, rules.bars_per_year), action_mix(actions, None, rules.orders.hold_zone)
        return SacStatistics(returns.mean(1), ratio, mix, temperature, **means)

    # ---- storing --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "critics": self.critics.state_dict(),
            "targets": self.targets.state_dict(),
            "log_temperature": self.log_temperature,
            "replay": self.replay.state_dict(),
            "scale": self.scale.state_dict(),
        }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        super().load_state_dict(stored)
        for name in ("critics", "targets", "scale"):
            getattr(self, name).load_state_dict(stored[name])
        self.log_temperature.data.copy_(stored["log_temperature"])
        self.replay.load_state_dict(stored["replay"], self.device)


def _part(batch: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The observation among the entries of a batch."""
    return {name.removeprefix(prefix): entry for name, entry in batch.items() if name.startswith(prefix)}
