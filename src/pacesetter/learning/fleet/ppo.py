"""Fleet PPO: one rollout steps every symbol × every environment, one update trains every head (Schulman et al. 2017).

Read `round` first. The same code runs on CPU and GPU; observations stay indices until a minibatch gathers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.rollout import (
    ReturnScale,
    Rollout,
    Statistics,
    action_mix,
    advantages,
    by_symbol,
    explained,
    select,
    sharpe,
)
from pacesetter.learning.fleet.trainer import AgentsT, FleetConfig, FleetLearner, MarketT

__all__ = ["FleetPPO", "FleetPPOLearner"]

CURIOUS_ROWS = 4_096  # of a step of the curiosity models


@dataclass(frozen=True)
class FleetPPO(FleetConfig):
    """Options of fleet PPO.

    n_steps   of each environment in a round
    batch_size      rows of each symbol in a minibatch; it divides the rows of a round
    target_kl       a symbol whose policy has moved further than 1.5 of it stops learning for the round; None never does
    """

    n_steps: int = 64
    n_epochs: int = 4
    batch_size: int = 256
    gae_lambda: float = 0.8
    clip_range: float = 0.2
    ent_coef: float = 0.003
    vf_coef: float = 0.5
    target_kl: float | None = 0.03


class FleetPPOLearner(FleetLearner[AgentsT, MarketT]):
    """PPO for all symbols of a market at once; `statistics` are those of the latest round."""

    config: FleetPPO
    statistics: Statistics

    def __init__(self, fleet: AgentsT, market: MarketT, config: FleetPPO) -> None:
        rows = config.n_steps * market.envs_each
        if rows % config.batch_size:
            divisor = next(size for size in range(min(rows, config.batch_size), 0, -1) if rows % size == 0)
            raise ConfigError(
                f"agent.batch_size={config.batch_size} does not divide the {rows} rows of a round, agent.n_steps="
                f"{config.n_steps} · train.envs={market.envs_each}; give agent.batch_size={divisor}, or more envs"
            )
        super().__init__(fleet, market, config)
        self.scale = ReturnScale(self.symbols, market.env_count, config.gamma).to(self.device)

    def heads(self) -> list[nn.Parameter]:
        return [parameter for name, parameter in self.fleet.named_parameters() if not name.startswith("encoder.")]

    def round(self) -> None:
        """One rollout of all environments, and the epochs that learn from it."""
        with self.clock("rollout"):
            rollout = self.collect()
        with self.clock("update"):
            data = self.prepare(rollout)
            losses = self.update(data)
            self.count({name: entry.flatten(0, 1) for name, entry in data["seen"].items()})
        self.statistics = self.describe(rollout, data, losses)
        self.steps += self.round_steps

    # ---- experience -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def collect(self) -> Rollout:
        """Let the policies act in all environments."""
        steps = []
        for _ in range(self.config.n_steps):
            features = self.features(self.seen)
            policy, values = self.fleet.decide(features, self.seen.get(ACTION_MASK), self.rows)
            actions = policy.sample()
            log_probs, entropies = policy.log_prob(actions), policy.entropy()
            with self.clock("environment"):
                step = self.market.step(actions)
            if self.curiosity is None:
                features = features[:, :0]
            acted = (self.seen, actions, log_probs, values, entropies, features)
            steps.append(Rollout(*acted, step.rewards, step.returns, step.terminated, step.truncated, step.finals))
            self.seen = step.observation
        return Rollout.stack(steps)

    @torch.no_grad()
    def prepare(self, rollout: Rollout) -> dict[str, Any]:
        """What the update reads, (symbol, row, …): advantages are standardised within each symbol."""
        ended = rollout.terminated | rollout.truncated
        last = self.features(self.seen)
        rewards = self.rewards(rollout, ended, last)
        following = torch.cat([rollout.values[1:], self.fleet.value(last, self.rows)[None]])
        following = torch.where(rollout.truncated, self.final_values(rollout), following)
        following = torch.where(rollout.terminated, 0.0, self.config.gamma * following)
        decay = self.config.gamma * self.config.gae_lambda
        found = advantages(rewards, rollout.values, following, ended, decay)
        gains = by_symbol(found, self.symbols)
        return {
            "seen": {name: by_symbol(entry, self.symbols) for name, entry in rollout.seen.items()},
            "actions": by_symbol(rollout.actions, self.symbols),
            "log_probs": by_symbol(rollout.log_probs, self.symbols),
            "values": by_symbol(rollout.values, self.symbols),
            "targets": by_symbol(found + rollout.values, self.symbols),
            "advantages": (gains - gains.mean(1, keepdim=True)) / (gains.std(1, keepdim=True) + 1e-8),
        }

    def rewards(self, rollout: Rollout, ended: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """(step, env) scaled rewards, with the intrinsic ones where there is curiosity; `last` features follow."""
        self.scale.observe(rollout.rewards, ended)
        rewards: torch.Tensor = self.scale(rollout.rewards.view(len(ended), self.symbols, -1)).flatten(1)
        if self.curiosity is None:
            return rewards
        following = torch.cat([rollout.features[1:], last[None]])
        looked = [entry.flatten(0, 1) for entry in (rollout.features, rollout.actions, following)]
        intrinsic = self.curiosity.reward(*looked).view_as(rewards)
        within = torch.nonzero(~ended.flatten()).squeeze(1)  # where an episode ended, another one follows
        for rows in torch.split(within[torch.randperm(len(within), device=self.device)], CURIOUS_ROWS):
            self.curiosity.learn(*(entry[rows] for entry in looked))
        return self.curiosity.mix(rewards, torch.where(ended, 0.0, intrinsic), self.steps)

    def final_values(self, rollout: Rollout) -> torch.Tensor:
        """(step, env) values of the observations at which time was up; 0 elsewhere.

        Symbols have different numbers of them: those that were up come first, as many at a time as environments.
        """
        is_up = by_symbol(rollout.truncated, self.symbols)
        finals = {name: by_symbol(entry, self.symbols) for name, entry in rollout.finals.items()}
        first_up = is_up.byte().argsort(dim=1, descending=True, stable=True)
        values = torch.zeros(is_up.shape, device=self.device)
        for start in range(0, int(is_up.sum(1).max()), self.market.envs_each):
            rows = first_up[:, start : start + self.market.envs_each]
            found = self.fleet.value(self.features(select(finals, rows)), self.rows)
            values.scatter_(1, rows, found.view_as(rows))
        steps = (self.symbols, self.config.n_steps, -1)
        return torch.where(is_up, values, 0.0).view(steps).transpose(0, 1).flatten(1)

    # ---- learning -------------------------------------------------------------------------------------------------

    def update(self, data: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Epochs of minibatches; a symbol that has moved too far stops, and when all have stopped, so do the epochs."""
        going = ~self.fleet.frozen[self.present]
        logged = []
        for _ in range(self.config.n_epochs):
            for batch in self.minibatches(data):
                losses, parts = self.symbol_losses(batch)
                if self.config.target_kl is not None:
                    going = going & (parts["divergence"] <= 1.5 * self.config.target_kl)
                self.descend(losses, going)
                logged.append(parts)
            if not bool(going.any()):
                break
        return {name: torch.stack([parts[name] for parts in logged]) for name in logged[0]}

    def minibatches(self, data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """All rows once, in an order drawn anew, each minibatch with as many rows of every symbol."""
        order = torch.randperm(data["targets"].shape[1], device=self.device)
        for rows in order.view(-1, self.config.batch_size):
            flat = {name: entry[:, rows].flatten(0, 1) for name, entry in data["seen"].items()}
            rest = ("actions", "log_probs", "advantages", "targets")
            yield {"seen": flat} | {name: data[name][:, rows] for name in rest}

    def symbol_losses(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(symbol,) losses to descend, and their parts (symbol,)."""
        policy, values = self.decide(batch["seen"])
        shape = batch["targets"].shape
        log_ratio = policy.log_prob(batch["actions"].flatten(0, 1)).view(shape) - batch["log_probs"]
        ratio, clip = log_ratio.exp(), self.config.clip_range
        clipped = ratio.clamp(1 - clip, 1 + clip)
        policy_loss = -torch.minimum(ratio * batch["advantages"], clipped * batch["advantages"]).mean(1)
        value_loss = F.mse_loss(values.view(shape), batch["targets"], reduction="none").mean(1)
        entropy = policy.entropy().view(shape).mean(1)
        total = policy_loss + self.config.vf_coef * value_loss - self.config.ent_coef * entropy
        divergence = (ratio - 1 - log_ratio).mean(1)  # unbiased and never negative (Schulman 2020)
        parts = {"policy_loss": policy_loss, "value_loss": value_loss, "divergence": divergence}
        return total, {name: part.detach() for name, part in parts.items()}

    def describe(self, rollout: Rollout, data: Mapping[str, Any], losses: Mapping[str, torch.Tensor]) -> Statistics:
        """The statistics of a round."""
        returns, rules = by_symbol(rollout.returns, self.symbols), self.market.batch.market
        return Statistics(
            returns.mean(1),
            sharpe(returns, rules.bars_per_year),
            by_symbol(rollout.entropies, self.symbols).mean(1),
            action_mix(data["actions"], self.market.actions, rules.orders.hold_zone),
            explained(data["values"], data["targets"]),
            losses["divergence"][-1],
            losses["value_loss"].mean(0),
            losses["policy_loss"].mean(0),
        )

    # ---- storing --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"scale": self.scale.state_dict()}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        super().load_state_dict(stored)
        self.scale.load_state_dict(stored["scale"])
