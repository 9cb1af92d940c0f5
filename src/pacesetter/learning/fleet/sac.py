"""Fleet SAC: every symbol has its actor, twin critics and temperature, all share the encoder.

Soft actor–critic after Haarnoja et al. (2018), with temperatures that steer to a target entropy. The encoder learns
from the critics; actors and targets take its features as given. The fleet's own critic does not learn: SAC values an
action in a state, not a state. Of discrete orders the critics value each, and means over the policy are exact instead
of drawn (Christodoulou 2019).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Critic, Distribution, MaskedCategorical, head_layers
from pacesetter.agents.stacked import StackedHead
from pacesetter.errors import ConfigError
from pacesetter.learning.equations import soft_update
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.market import FleetStep
from pacesetter.learning.experience.replay import FOLLOWING, OBSERVATION, Replay
from pacesetter.learning.experience.rollout import ReturnScale, action_mix, by_symbol, sharpe
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import Extra, rewards_of_draw
from pacesetter.learning.fleet.method import Acting, FleetConfig, FleetMethod, Losses

__all__ = ["LEAST_LOG", "SAC", "FleetSAC", "TwinChoices", "TwinCritics"]

Steps = list[tuple[torch.Tensor, FleetStep]]
LEAST_LOG = -1e4  # of a masked order: the lowest number times 0 would be NaN in a gradient
ENTROPY, ENTROPY_SHARE = -1.0, 0.3  # targets: of numbers in nats, of discrete orders as a share of the most


@dataclass(frozen=True)
class FleetSAC(FleetConfig):
    """Options of fleet SAC."""

    train_freq: Annotated[int, "steps of each environment in a round, and `gradient_steps` that follow them"] = 8
    gradient_steps: int = 8
    batch_size: Annotated[int, "rows of each symbol in a gradient step"] = 128
    buffer_size: Annotated[int, "latest steps of each environment that are kept"] = 2_000
    learning_starts: Annotated[int, "steps of each symbol with random actions and without updates"] = 256
    target_entropy: Annotated[
        float | None,
        "in nats, to which the temperatures steer; null: -1 of numbers in [-1, 1], whose most is log 2, and 0.3 · "
        "log 7 of the seven discrete orders",
    ] = None
    tau: Annotated[float, "by which target critics follow at every gradient step"] = 0.01
    initial_ent_coef: float = 0.1
    hindsight: Annotated[
        dict[str, object] | None,
        "options of goals and of the replay that relabels them; null trades without goals",
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_goals(self)


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


class TwinChoices(nn.Module):
    """Two stacked heads with a value for each discrete order: (symbol · n, width) → (2, symbol · n, action)."""

    def __init__(self, width: int, hidden: int, symbols: int, actions: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(
            StackedHead([head_layers(width, hidden, actions, 1.0) for _ in range(symbols)]) for _ in range(2)
        )

    def forward(self, features: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
        return torch.stack([head(features, rows) for head in self.heads])


class PolicyActions(NamedTuple):
    """Actions that a mean over the policy is taken by, and their log-probabilities: one draw (row,), or all orders.

    `shares` (row, action) are the probabilities of all discrete orders, whose `actions` are None.
    """

    actions: torch.Tensor | None
    log_probs: torch.Tensor
    shares: torch.Tensor | None

    @classmethod
    def of(cls, policy: Distribution) -> PolicyActions:
        """Those of a policy; a draw keeps its gradient."""
        if isinstance(policy, MaskedCategorical):
            return cls(None, policy.log_probabilities.clamp(min=LEAST_LOG), policy.probabilities)
        actions = policy.sample()
        return cls(actions, policy.log_prob(actions), None)

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """(…, row) of (…, row) values of the draw, or (…, row, action) of all orders."""
        return values if self.shares is None else (self.shares * values).sum(-1)


class Temperature(nn.Module):
    """The weight of the entropy of each symbol, by its logarithm (symbol,)."""

    def __init__(self, first: float, symbols: int) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.full((symbols,), first).log())


class SAC(FleetMethod[Fleet, SymbolMarket]):
    """SAC for all symbols of a market at once."""

    config: FleetSAC
    has_state_value = False
    declared: ClassVar[tuple[str, ...]] = ("replay",)

    def __init__(self, fleet: Fleet, market: SymbolMarket, config: FleetSAC) -> None:
        super().__init__(fleet, market, config)
        # The critics are drawn before the trainer seeds: without this they would depend on what ran earlier.
        torch.manual_seed(config.seed)
        self.critics = self.make_critics(fleet)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.temperature = Temperature(config.initial_ent_coef, len(fleet.symbols))
        self.scale = ReturnScale(self.symbols, market.env_count, config.gamma)
        self.own["critics"], self.own["targets"] = self.critics, self.targets
        self.own["temperature"], self.own["scale"] = self.temperature, self.scale
        self.replay = _make_replay(config, market, self.device)

    def make_critics(self, fleet: Fleet) -> nn.Module:
        """Critics of features and actions, (2, …, symbol · n) values; with discrete orders of features alone."""
        return self.twin_critics(fleet)

    def twin_critics(self, fleet: Fleet) -> TwinCritics | TwinChoices:
        """Two critics for the kind of action that the fleet has."""
        sizes = fleet.config.width, fleet.hidden, len(fleet.symbols)
        return TwinCritics(*sizes) if fleet.actions is None else TwinChoices(*sizes, fleet.actions)

    @property
    def target_entropy(self) -> float:
        """In nats, to which the temperatures steer."""
        if self.config.target_entropy is not None:
            return self.config.target_entropy
        return ENTROPY if self.fleet.actions is None else ENTROPY_SHARE * math.log(self.fleet.actions)

    @property
    def round_steps(self) -> int:
        return self.config.train_freq * self.market.envs_each

    # ---- experience -----------------------------------------------------------------------------------------------

    def collect(self, acting: Acting) -> Steps:
        """Some steps of all environments into the replay."""
        return [self.step(acting) for _ in range(self.config.train_freq)]

    @torch.no_grad()
    def step(self, acting: Acting) -> tuple[torch.Tensor, FleetStep]:
        """One step of all environments; gives the actions and what they came to."""
        observation = acting.observation
        actions, log_probs = self.choose(observation, acting)
        step = acting.step_environments(actions, log_probs)
        ended = step.terminated | step.truncated
        # A replay row that ends an episode leads to its final observation, not to the next episode's first. What could
        # be ordered there is not known, and taken from the bar before.
        finals = {**observation, **step.finals}
        following = {
            name: torch.where(ended.view(-1, *[1] * (entry.ndim - 1)), finals[name], entry)
            for name, entry in step.observation.items()
        }
        added = [extra for extra in acting.extras.values() if extra.belongs_to_collection]
        money, scaled = ([extra for extra in added if extra.is_in_money == kind] for kind in (True, False))
        rewards = step.rewards
        if money:
            rewards = rewards + self.shape_step(money, observation, actions, following, step, acting)
        # Raw rewards are stored and scaled when drawn: old rows then follow the scale of now.
        self.scale.observe(rewards[None], ended[None])
        entries = {OBSERVATION + name: entry for name, entry in observation.items()}
        rest = {"actions": actions, "rewards": rewards, "terminated": step.terminated}
        rest |= {"objectives": step.objectives, "log_probs": log_probs}
        if self.config.hindsight is not None:
            rest["ended"] = ended
        if scaled:
            rest["shaping"] = self.shape_step(scaled, observation, actions, following, step, acting)
        self.replay.add(entries | {FOLLOWING + name: entry for name, entry in following.items()} | rest)
        return actions, step

    def shape_step(
        self,
        extras: list[Extra],
        observation: Mapping[str, torch.Tensor],
        actions: torch.Tensor,
        following: dict[str, torch.Tensor],
        step: FleetStep,
        acting: Acting,
    ) -> torch.Tensor:
        """(env,) what extras that belong to the moment of collection add to the rewards of a step."""
        rows = self.by_row(self.market.env_count)
        ended = step.terminated | step.truncated
        ends = {"follows": ~ended, "terminated": step.terminated}
        batch = Transitions(rows, dict(observation), actions, rewards=step.rewards, following=following, **ends)
        before, after = acting.features(observation), acting.features(following)
        return torch.stack([extra.shape_rewards(batch, before, after) for extra in extras]).sum(0)

    def choose(self, observation: Mapping[str, torch.Tensor], acting: Acting) -> tuple[torch.Tensor, torch.Tensor]:
        """(env, 1) actions with their log-probabilities (env,): random ones at first, then the policy's."""
        mask = observation.get(ACTION_MASK)
        if acting.steps < self.config.learning_starts:
            if mask is not None:
                evenly = MaskedCategorical(torch.zeros_like(mask, dtype=torch.float32), mask)
                orders = evenly.sample()
                return orders, evenly.log_prob(orders)
            actions = 2 * torch.rand(self.market.env_count, 1, device=self.device) - 1
            # Density ½ on [-1, 1]; off-policy evaluation of logged episodes needs it.
            return actions, torch.full_like(actions[:, 0], -math.log(2))
        features = acting.features(observation)
        policy, _ = self.fleet.decide(features, mask, self.rows)
        actions = policy.sample()
        return actions, policy.log_prob(actions)

    def batches(self, experience: Steps, acting: Acting) -> Iterator[Transitions]:
        """As many draws from the replay as there are gradient steps, none before learning starts."""
        # The steps of this round are in the replay already.
        if acting.steps + acting.round_steps >= self.config.learning_starts:
            for _ in range(self.config.gradient_steps):
                yield self.transitions(self.replay.sample(self.config.batch_size))

    def transitions(self, drawn: Mapping[str, torch.Tensor]) -> Transitions:
        """(symbol · n) rows of the replay, rewards scaled as they are now."""
        rewards = self.scale(self.per_symbol(drawn["rewards"])).flatten()
        names = ("objectives", "log_probs", "terminated", "shaping")
        kept = {name: drawn[name] for name in names if name in drawn}
        before, after = _part(drawn, OBSERVATION), _part(drawn, FOLLOWING)
        rows = self.by_row(len(rewards))
        return Transitions(rows, before, drawn["actions"], rewards=rewards, following=after, **kept)

    # ---- learning -------------------------------------------------------------------------------------------------

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        """Critics to their targets, actors up the critics, temperatures to the target entropy."""
        assert batch.following is not None
        with torch.no_grad():
            # Features of what follows are by the encoder of now, not a target encoder: only the heads have targets.
            wanted = self.critic_targets(batch, features, acting.features(batch.following), acting)
        values = self.values_of(self.critics, features, batch.actions)  # (2, row); of MO-SAC (2, objective, row)
        # Summed over twin critics, and objectives: each has parameters of its own, so that no gradient mixes.
        critic_loss = self.per_symbol((values - wanted).square().flatten(0, -2).sum(0)).mean(1)
        given = self.actor_features(features)
        policy, _ = self.fleet.decide(given, batch.observation.get(ACTION_MASK), self.rows)
        acted = PolicyActions.of(policy)
        log_probs = self.per_symbol(acted.mean(acted.log_probs))  # (symbol, n)
        self.critics.requires_grad_(False)  # the actor's loss moves the actor alone
        gained = self.per_symbol(acted.mean(self.critic_values(given.detach(), acted.actions, batch)))
        self.critics.requires_grad_(True)
        log_temperature = self.temperature.log[self.present]
        # α·log π − min Q (Haarnoja et al. 2018, arXiv 1812.05905, eq. 7), over one reparametrised action a row.
        actor_loss = (log_temperature.detach().exp()[:, None] * log_probs - gained).mean(1)
        # −log α·(log π + H̄): eq. 18 with log α in place of α, so that α stays positive and steps are relative.
        excess = (log_probs.detach() + self.target_entropy).mean(1)
        terms = {"critic": critic_loss, "actor": actor_loss, "temperature": -log_temperature * excess}
        metrics = {"critic_loss": critic_loss, "actor_loss": actor_loss, "entropy": -log_probs.mean(1)}
        return Losses(terms, {name: part.detach() for name, part in metrics.items()})

    def actor_features(self, features: torch.Tensor) -> torch.Tensor:
        """The encoder's features as the actor takes them."""
        # The encoder learns by the critics alone: an actor's gradient would bend features to what the policy likes.
        return features.detach()

    def values_of(self, critics: nn.Module, features: torch.Tensor, actions: torch.Tensor | None) -> torch.Tensor:
        """(2, …, row) values of these actions, or (2, …, row, action) of all discrete orders where none are given."""
        if self.fleet.actions is None:
            return critics(features, actions, self.rows)  # type: ignore[no-any-return]
        values: torch.Tensor = critics(features, self.rows)
        if actions is None:
            return values
        return values.gather(-1, actions[:, None].expand(*values.shape[:-1], 1)).squeeze(-1)

    def critic_values(self, features: torch.Tensor, actions: torch.Tensor | None, batch: Transitions) -> torch.Tensor:
        """What the critics expect of the actions, at the worse of the two, in the shape of `values_of`."""
        return self.values_of(self.critics, features, actions).amin(0)

    def soft_values(self, batch: Transitions, following: torch.Tensor) -> torch.Tensor:
        """(…, symbol · n) values of what followed, min Q'(s', a') − α log π(a'|s') by the policy of now."""
        assert batch.following is not None
        policy, _ = self.fleet.decide(following, batch.following.get(ACTION_MASK), self.rows)
        acted = PolicyActions.of(policy)
        # The smaller of two targets (Fujimoto et al. 2018): a maximum over noisy critics overestimates.
        values = self.values_of(self.targets, following, acted.actions).amin(0)
        temperature = self.temperature.log[self.present].exp()[batch.symbol]
        shape = (-1, *[1] * (acted.log_probs.ndim - 1))
        # The entropy counts in every objective.
        return acted.mean(values - temperature.view(shape) * acted.log_probs)

    def critic_targets(
        self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, acting: Acting
    ) -> torch.Tensor:
        """(symbol · n,) targets r + γ(min Q'(s', a') − α log π(a'|s')), the latter 0 after a termination."""
        assert batch.rewards is not None
        assert batch.terminated is not None
        values, rewards = self.per_symbol(self.soft_values(batch, following)), batch.rewards
        for extra in acting.extras.values():
            changed = rewards_of_draw(extra, batch, features, following, acting.steps + acting.round_steps)
            rewards = rewards if changed is None else changed
        # Terminated alone: after a truncation the value of the final observation counts.
        continues = ~self.per_symbol(batch.terminated)
        wanted: torch.Tensor = self.per_symbol(rewards) + self.config.gamma * continues * values
        return wanted.flatten()

    def after_step(self) -> None:
        """Let the target critics follow the critics."""
        soft_update(self.targets, self.critics, self.config.tau)

    def round_observations(self, experience: Steps, acting: Acting) -> dict[str, torch.Tensor]:
        return acting.observation

    def describe(self, experience: Steps, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Figures of a round, as those of PPO; `temperature` weighs the entropy against rewards."""
        returns = by_symbol(torch.stack([step.returns for _, step in experience]), self.symbols)
        actions = by_symbol(torch.stack([actions for actions, _ in experience]), self.symbols)
        rules = self.market.batch.market
        return {
            "returns": returns.mean(1),
            "sharpe": sharpe(returns, rules.bars_per_year),
            "action_mix": action_mix(actions, self.market.actions, rules.orders.hold_zone),
            "temperature": self.temperature.log.detach()[self.present].exp(),
            **{name: values.mean(0) for name, values in metrics.items()},
            **self.market.figures_to_log(),
        }


def _part(batch: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The observation among the entries of a batch."""
    return {name.removeprefix(prefix): entry for name, entry in batch.items() if name.startswith(prefix)}


def check_goals(config: FleetSAC) -> None:
    """Refuse goals beside an extra whose rewards are those of the goal that a row was collected with."""
    if config.hindsight is not None and "potential" in config.extras:
        raise ConfigError("agent.hindsight changes goals of stored rows, and agent.extras.potential does not; drop one")


def _make_replay(config: FleetSAC, market: SymbolMarket, device: torch.device) -> Replay:
    """The replay of a market's environments: with hindsight where its episodes have goals."""
    if config.hindsight is None:
        return Replay(config.buffer_size, len(market.symbols), market.envs_each, device)
    from pacesetter.methods.goals.goals import read_hindsight
    from pacesetter.methods.goals.hindsight import make_replay

    return make_replay(config.buffer_size, market, read_hindsight(vars(config)), device)
