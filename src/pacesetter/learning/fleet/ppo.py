"""Fleet PPO: one rollout steps every symbol × every environment, one update trains every head (Schulman et al. 2017).

Read `collect`, `prepare` and `losses`. The same code runs on CPU and GPU; observations stay indices until a minibatch
gathers them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.heads import Distribution
from pacesetter.errors import ConfigError
from pacesetter.learning.equations import clipped_surrogate, gae, returns_to_go
from pacesetter.learning.experience.playing import play_rollout, values_at_ends
from pacesetter.learning.experience.rollout import (
    ReturnScale,
    Rollout,
    action_mix,
    by_symbol,
    explained_variance,
    sharpe,
)
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import Extra
from pacesetter.learning.fleet.encoding import streams
from pacesetter.learning.fleet.method import Acting, AgentsT, FleetConfig, FleetMethod, Losses, SteppedT

__all__ = ["PPO", "FleetPPO"]


@dataclass(frozen=True)
class FleetPPO(FleetConfig):
    """Options of fleet PPO."""

    n_steps: Annotated[int, "of each environment in a round"] = 64
    n_epochs: int = 4
    batch_size: Annotated[int, "rows of each symbol in a minibatch; it divides the rows of a round"] = 256
    gae_lambda: float = 0.8
    clip_range: float = 0.2
    ent_coef: float = 0.003
    vf_coef: float = 0.5
    target_kl: Annotated[
        float | None,
        "a symbol whose policy has moved further than 1.5 of it stops learning for the round; None never does",
    ] = 0.03
    advantages: Annotated[
        Literal["sampled", "expected"],
        "sampled: of the orders sent; expected: of every discrete order, see `learning.fleet.expected`",
    ] = "sampled"


class PPO(FleetMethod[AgentsT, SteppedT]):
    """PPO for all symbols of a market at once."""

    config: FleetPPO
    is_recordable = True
    coefficients: ClassVar[tuple[str, ...]] = ("ent_coef",)
    learned: ClassVar[tuple[str, ...]] = ("actions", "objectives", "log_probs", "advantages", "targets")  # of a row

    def __init__(self, fleet: AgentsT, market: SteppedT, config: FleetPPO) -> None:
        rows = config.n_steps * market.envs_each
        # Equal minibatches: heads are stacked, and a shorter last one would be another compiled shape.
        if rows % config.batch_size:
            divisor = next(size for size in range(min(rows, config.batch_size), 0, -1) if rows % size == 0)
            raise ConfigError(
                f"agent.batch_size={config.batch_size} does not divide the {rows} rows of a round, agent.n_steps="
                f"{config.n_steps} · train.envs={market.envs_each}; give agent.batch_size={divisor}, or more envs"
            )
        super().__init__(fleet, market, config)
        self.scale = ReturnScale(self.symbols, market.env_count, config.gamma)
        self.own["scale"] = self.scale
        if streams(fleet.encoder):
            # The longest run of bars that fits both a rollout and a minibatch a whole number of times.
            self.segment_bars = math.gcd(config.n_steps, config.batch_size)
            self.batch_rows = config.batch_size
        self.data: dict[str, Any] = {}  # what the latest round is learned from
        self.going = torch.ones(self.symbols, dtype=torch.bool, device=self.device)

    @property
    def round_steps(self) -> int:
        return self.config.n_steps * self.market.envs_each

    # ---- experience -----------------------------------------------------------------------------------------------

    def collect(self, acting: Acting) -> Rollout:
        """Let the policies act in all environments."""
        return play_rollout(self.fleet, self.rows, acting, self.config.n_steps, self.consider)

    def consider(self, policy: Distribution, acting: Acting) -> None:
        """Called before each step of a round with the policy that has just chosen; nothing is done here."""

    def batches(self, experience: Rollout, acting: Acting) -> Iterator[Transitions]:
        """Epochs of minibatches; when all symbols have moved too far, the epochs end."""
        self.begin_epochs(experience, acting)
        for _ in range(self.config.n_epochs):
            yield from self.minibatches(self.data)
            if not bool(self.going.any()):
                break

    def begin_epochs(self, experience: Rollout, acting: Acting) -> dict[str, Any]:
        """What the epochs learn from; all symbols that are not frozen learn again."""
        self.data = self.prepare(experience, acting)
        self.going.copy_(~self.fleet.frozen[self.present])
        return self.data

    @torch.no_grad()
    def prepare(self, rollout: Rollout, acting: Acting) -> dict[str, Any]:
        """What the update reads, (symbol, row, …): advantages are standardised within each symbol."""
        ended = rollout.terminated | rollout.truncated
        # What the rollout's last step led to; where that ended an episode it is replaced below.
        last = acting.features(acting.observation)
        rewards = self.rewards(rollout, ended, last, acting)
        following = torch.cat([rollout.values[1:], self.fleet.value(last, self.rows)[None]])  # (step, env)
        # Time being up is not an end of the world: bootstrap from the final observation (Pardo et al. 2018).
        following = torch.where(rollout.truncated, self.final_values(rollout, acting), following)
        following = torch.where(rollout.terminated, 0.0, self.config.gamma * following)
        return {
            "observation": {name: by_symbol(entry, self.symbols) for name, entry in rollout.observation.items()},
            "actions": by_symbol(rollout.actions, self.symbols),
            "objectives": by_symbol(rollout.objectives, self.symbols),
            "values": by_symbol(rollout.values, self.symbols),
        } | self.advantages(rollout, rewards, following, ended)

    def advantages(
        self, rollout: Rollout, rewards: torch.Tensor, following: torch.Tensor, ended: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """`log_probs`, `advantages` and `targets` (symbol, row); `following` are the discounted values of what came."""
        # Targets are of advantages before they are standardised: the critic learns returns in the scale of rewards.
        advantages = gae(rewards, rollout.values, following, ended, self.config.gamma * self.config.gae_lambda)
        gains = by_symbol(advantages, self.symbols)  # (symbol, step · env)
        return {
            "log_probs": by_symbol(rollout.log_probs, self.symbols),
            "targets": by_symbol(advantages + rollout.values, self.symbols),
            "advantages": (gains - gains.mean(1, keepdim=True)) / (gains.std(1, keepdim=True) + 1e-8),
        }

    def rewards(self, rollout: Rollout, ended: torch.Tensor, last: torch.Tensor, acting: Acting) -> torch.Tensor:
        """(step, env) scaled rewards, as extras change them; `last` features follow the rollout."""
        raw = self._apply_extras(rollout.rewards, rollout, ended, last, acting, is_in_money=True)
        # Counted before they are scaled: the first rollout would otherwise be divided by nearly 0.
        self.scale.observe(raw, ended)
        rewards: torch.Tensor = self.scale(raw.view(len(ended), self.symbols, -1)).flatten(1)
        return self._apply_extras(rewards, rollout, ended, last, acting, is_in_money=False)

    def _apply_extras(
        self,
        rewards: torch.Tensor,
        rollout: Rollout,
        ended: torch.Tensor,
        last: torch.Tensor,
        acting: Acting,
        is_in_money: bool,
    ) -> torch.Tensor:
        """(step, env) rewards as the extras of one unit change them, one after another."""
        for extra in [each for each in acting.extras.values() if each.is_in_money == is_in_money]:
            batch = self._rows_of(rollout, rewards, ended)
            features, following = rollout.features, torch.cat([rollout.features[1:], last[None]])
            features, following = features.flatten(0, 1), following.flatten(0, 1)  # (step · env, width)
            if extra.belongs_to_collection:
                batch, following = self._with_finals(batch, rollout, following, last, acting)
            # Rewards before learning: a model that has just fitted these rows would find nothing in them surprising.
            changed = extra.reward_rollout(batch, rollout.features, following, acting.steps)
            if extra.optimiser is not None:
                self._teach(extra, batch, features, following, ended)
            rewards = rewards if changed is None else changed.view_as(rewards)
        return rewards

    def _teach(
        self, extra: Extra, batch: Transitions, features: torch.Tensor, following: torch.Tensor, ended: torch.Tensor
    ) -> None:
        """One pass of an extra that trains itself over the rows, in an order drawn again."""
        within = torch.nonzero(~ended.flatten()).squeeze(1)  # where an episode ended, another one follows
        for rows in torch.split(within[torch.randperm(len(within), device=self.device)], extra.rollout_rows):
            extra.learn(batch.at(rows), features[rows], following[rows])

    def _rows_of(self, rollout: Rollout, rewards: torch.Tensor, ended: torch.Tensor) -> Transitions:
        """All steps as rows in the order of time, with what extras ask for."""
        steps, envs = rewards.shape
        return Transitions(
            self.by_row(envs).repeat(steps),
            {name: entry.flatten(0, 1) for name, entry in rollout.observation.items()},
            rollout.actions.flatten(0, 1),
            rewards=rewards.flatten(),
            objectives=rollout.objectives.flatten(0, 1),
            log_probs=rollout.log_probs.flatten(),
            follows=~ended.flatten(),
            terminated=rollout.terminated.flatten(),
        )

    def _with_finals(
        self, batch: Transitions, rollout: Rollout, following: torch.Tensor, last: torch.Tensor, acting: Acting
    ) -> tuple[Transitions, torch.Tensor]:
        """The rows with what followed each, the last observation where an episode ended, and with returns to go."""
        assert batch.rewards is not None
        assert batch.follows is not None
        finals = {name: entry.flatten(0, 1) for name, entry in rollout.finals.items()}
        after = {
            name: torch.cat([entry[1:], acting.observation[name][None]]).flatten(0, 1)
            for name, entry in rollout.observation.items()
            if name in finals
        }
        for rows in torch.split(torch.nonzero(~batch.follows).squeeze(1), self.market.env_count):
            if not len(rows):  # no episode ended in this rollout
                break
            padded = torch.cat([rows, rows[:1].expand(self.market.env_count - len(rows))])  # compiled code has one size
            following[rows] = acting.features({name: entry[padded] for name, entry in finals.items()})[: len(rows)]
            for name, entry in after.items():
                entry[rows] = finals[name][rows]
        values = torch.cat([rollout.values[1:], self.fleet.value(last, self.rows)[None]])
        values = torch.where(rollout.truncated, self.final_values(rollout, acting), values)
        values = self.config.gamma * torch.where(rollout.terminated, 0.0, values)
        ended = rollout.terminated | rollout.truncated
        returns = returns_to_go(batch.rewards.view_as(values), values, ended, self.config.gamma)
        return replace(batch, following=after, targets=returns.flatten()), following

    def final_values(self, rollout: Rollout, acting: Acting) -> torch.Tensor:
        """(step, env) values of the observations at which time was up; 0 elsewhere."""
        return values_at_ends(rollout, self.fleet, self.rows, acting, self.symbols)

    def minibatches(self, data: Mapping[str, Any]) -> Iterator[Transitions]:
        """All rows once, in an order drawn again, each minibatch with as many rows of every symbol.

        For a stream encoder segments of an environment's rows stay together.
        """
        for rows in self.order(data["targets"].shape[1]).view(-1, self.config.batch_size):
            yield self.rows_of(data, rows)

    def rows_of(self, data: Mapping[str, Any], rows: torch.Tensor) -> Transitions:
        """A minibatch of the same rows (row,) of every symbol."""
        flat = {name: entry[:, rows].flatten(0, 1) for name, entry in data["observation"].items()}
        symbol = self.by_row(self.symbols * len(rows))
        return Transitions(symbol, flat, **{name: data[name][:, rows].flatten(0, 1) for name in self.learned})

    def order(self, rows: int) -> torch.Tensor:
        """(row,) the rows of a symbol, which are (step, env), in a random order; segments of them where asked for."""
        if self.segment_bars is None:
            return torch.randperm(rows, device=self.device)
        # Rows of a symbol are (step, env); a segment is one environment's steps in a row.
        steps = torch.arange(rows, device=self.device).view(-1, self.segment_bars, self.market.envs_each)
        segments = steps.transpose(1, 2).reshape(-1, self.segment_bars)
        return segments[torch.randperm(len(segments), device=self.device)].flatten()

    # ---- learning -------------------------------------------------------------------------------------------------

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        """The clipped surrogate, the error of the values, and the entropy; a symbol that has moved too far stops."""
        assert batch.targets is not None
        policy, values = self.fleet.decide(features, batch.observation.get(ACTION_MASK), self.rows)
        shaped = self.per_symbol
        surrogate, divergence = (shaped(part).mean(1) for part in self.surrogate(batch, policy))
        policy_loss = -surrogate
        value_loss = F.mse_loss(shaped(values), shaped(batch.targets), reduction="none").mean(1)
        entropy = shaped(policy.entropy()).mean(1)
        if self.config.target_kl is not None:
            # Judged before the step: a symbol that has gone too far does not go further, also not in later minibatches.
            self.going &= divergence.detach() <= 1.5 * self.config.target_kl
        terms = {
            "policy": policy_loss,
            "value": self.config.vf_coef * value_loss,
            "entropy": -self.config.ent_coef * entropy,
        }
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "divergence": divergence}
        return Losses(terms, {name: part.detach() for name, part in metrics.items()}, self.going)

    def surrogate(self, batch: Transitions, policy: Distribution) -> tuple[torch.Tensor, torch.Tensor]:
        """(row,) what the policy is to ascend, and its divergence from the one that acted."""
        assert batch.log_probs is not None
        assert batch.advantages is not None
        log_ratio = policy.log_prob(batch.actions) - batch.log_probs
        divergence = log_ratio.exp() - 1 - log_ratio  # unbiased and never negative (Schulman 2020)
        return clipped_surrogate(log_ratio, batch.advantages, self.config.clip_range), divergence

    def round_observations(self, experience: Rollout, acting: Acting) -> dict[str, torch.Tensor]:
        return {name: entry.flatten(0, 1) for name, entry in self.data["observation"].items()}

    def describe(self, experience: Rollout, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Figures of a round, (symbol,) each.

        returns     mean return of equity per bar       sharpe      of the same, annualised
        entropy     of the policy, in nats              explained   share of the variance of returns that values explain
        action_mix  (symbol, action) share of each discrete action, or of sell, hold and buy
        divergence  approximate KL of the last update   value_loss, policy_loss  means over the updates
        """
        returns, rules = by_symbol(experience.returns, self.symbols), self.market.batch.market
        return {
            "returns": returns.mean(1),
            "sharpe": sharpe(returns, rules.bars_per_year),
            "entropy": by_symbol(experience.entropies, self.symbols).mean(1),
            "action_mix": action_mix(self.data["actions"], self.market.actions, rules.orders.hold_zone),
            "explained": explained_variance(self.data["values"], self.data["targets"]),
            # The last update of the round, where the policy is furthest from the one that acted.
            "divergence": metrics["divergence"][-1],
            "value_loss": metrics["value_loss"].mean(0),
            "policy_loss": metrics["policy_loss"].mean(0),
        }
