"""IMPALA for a fleet (Espeholt et al. 2018): actors act with stale weights, V-trace corrects what one learner learns.

Read `collect` and `losses`. A gradient step is of whole rollouts of some environments, so that corrections can travel
through time by the weights of now. With `clip_range` the policy climbs PPO's surrogate along V-trace's advantages, so
that a rollout can be learned from several times (asynchronous PPO; Luo et al. 2020, IMPACT).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.fleet import Fleet
from pacesetter.errors import ConfigError, check_range
from pacesetter.learning.equations import clipped_surrogate, vtrace
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.playing import values_at_ends
from pacesetter.learning.experience.rollout import (
    ReturnScale,
    Rollout,
    action_mix,
    by_symbol,
    explained_variance,
    sharpe,
)
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.making import make_trainer
from pacesetter.learning.fleet.method import Acting, FleetConfig, FleetMethod, Losses
from pacesetter.learning.fleet.storage import describe_fleet
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.learner import StepRecord
from pacesetter.learning.methods import Setup
from pacesetter.methods.impala.actor import Blueprint, Parcel
from pacesetter.methods.impala.queue import Crews, RolloutQueue

__all__ = ["FleetImpala", "Impala", "make_impala"]


@dataclass(frozen=True)
class FleetImpala(FleetConfig):
    """Options of IMPALA."""

    learning_rate: float = 3e-4
    encoder_learning_rate: float = 3e-4
    max_grad_norm: float = 40.0
    n_steps: Annotated[int, "of each environment in a rollout"] = 100
    batch_size: Annotated[
        int,
        "rows of each symbol in a gradient step, in whole rollouts of as many environments as fit",
    ] = 256
    ent_coef: float = 0.003
    vf_coef: float = 0.5
    rho_bar: Annotated[float, "bound of the weights of V-trace's corrections: decides what is converged to"] = 1.0
    c_bar: Annotated[float, "bound of the weights by which corrections travel back: decides how fast"] = 1.0
    n_epochs: Annotated[int, "passes over a rollout"] = 1
    clip_range: Annotated[
        float | None,
        "of PPO's surrogate, with each symbol's advantages standardised; null: the plain policy gradient",
    ] = None
    actors: Annotated[int, "that play, each in environments of its own"] = 2
    queue: Annotated[
        int,
        "rollouts beside one of each actor that may be ordered and not yet learned from; actors wait behind it",
    ] = 0
    crew: Annotated[Crews, "here: in this process, one after another; processes; ray: actors on any machine"] = "here"
    address: Annotated[str | None, "of a Ray cluster, e.g. auto; null starts Ray here"] = None
    retries: Annotated[int, "how often an actor that died is replaced"] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(1, owner="agent", actors=self.actors, n_epochs=self.n_epochs)
        check_range(0, owner="agent", queue=self.queue, retries=self.retries)
        # V-trace is defined for ρ̄ ≥ c̄ (Espeholt et al. 2018, section 4.1).
        if not self.rho_bar >= self.c_bar > 0:
            raise ConfigError(
                f"agent.rho_bar={self.rho_bar} must be at least agent.c_bar={self.c_bar}, and both above 0"
            )
        if self.clip_range is not None and self.clip_range <= 0:
            raise ConfigError(f"agent.clip_range={self.clip_range} must be above 0, e.g. 0.3; null does not clip")
        if self.n_epochs > 1 and self.clip_range is None:
            raise ConfigError(
                f"agent.n_epochs={self.n_epochs} passes over a rollout need a bound; add agent.clip_range=0.3"
            )
        if self.extras:
            raise ConfigError("agent=impala takes no agent.extras, as its actors have none; take agent=ppo for them")
        if self.address is not None and self.crew != "ray":
            raise ConfigError(f"agent.address={self.address} is for Ray; add agent.crew=ray")


class Impala(FleetMethod[Fleet, FleetMarket]):
    """IMPALA for all symbols of a market at once."""

    config: FleetImpala
    coefficients: ClassVar[tuple[str, ...]] = ("ent_coef",)
    declared: ClassVar[tuple[str, ...]] = ("line",)

    def __init__(self, fleet: Fleet, market: FleetMarket, config: FleetImpala) -> None:
        super().__init__(fleet, market, config)
        self.scale = ReturnScale(self.symbols, market.env_count, config.gamma)
        self.own["scale"] = self.scale
        self.segment_bars, self.batch_rows = config.n_steps, config.batch_size
        self.line = self._make_queue()
        self.lag = self.waiting = 0

    def _make_queue(self) -> RolloutQueue:
        config, recipe = self.config, self.market.recipe()
        is_here = config.crew == "here"
        # Workers play on the CPU: several processes on one GPU would each hold a context and take turns.
        recipe = recipe if is_here else recipe | {"device": "cpu"}
        blueprint = Blueprint(recipe, describe_fleet(self.fleet), config, None if is_here else torch.get_num_threads())
        room = config.actors + config.queue
        return RolloutQueue(blueprint, config.actors, room, config.seed, config.crew, config.address, config.retries)

    @property
    def round_steps(self) -> int:
        return self.config.n_steps * self.market.envs_each

    @property
    def envs_in_batch(self) -> int:
        """Environments of each symbol in a gradient step: the most that fit and divide all of them."""
        most = max(self.config.batch_size // self.config.n_steps, 1)
        return next(
            size for size in range(min(most, self.market.envs_each), 0, -1) if self.market.envs_each % size == 0
        )

    def release(self) -> None:
        """End the workers."""
        self.line.release()

    # ---- experience -----------------------------------------------------------------------------------------------

    def collect(self, acting: Acting) -> Parcel:
        """The next rollout of the line, which weights of some updates ago have played."""
        parcel = self.line.take(self.weights)
        self.lag, self.waiting = self.line.taken - 1 - parcel.version, self.line.waiting
        rollout = parcel.rollout.to(self.device)
        moved = {name: entry.to(self.device) for name, entry in parcel.observation.items()}
        parcel = parcel._replace(rollout=rollout, observation=moved)
        done = rollout.terminated | rollout.truncated
        acting.receive(StepRecord(rollout.actions, rollout.rewards, done, {}), parcel.observation)
        return parcel

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of all that acts, on the CPU."""
        # Cloned: an order waits with its weights while the learner goes on to change them.
        return {name: tensor.detach().cpu().clone() for name, tensor in self.fleet.state_dict().items()}

    def batches(self, experience: Parcel, acting: Acting) -> Iterator[Transitions]:
        """Whole rollouts of some environments of every symbol, each once a pass, in an order drawn again.

        Rows are (symbol, env, step); `targets` are values of what followed where the rows themselves do not hold it.
        """
        rollout = experience.rollout
        ended = rollout.terminated | rollout.truncated
        self.scale.observe(rollout.rewards, ended)
        rewards = self.scale(rollout.rewards.view(len(ended), self.symbols, -1)).flatten(1)
        rows = {
            "actions": rollout.actions,
            "rewards": rewards,
            "log_probs": rollout.log_probs,
            "follows": ~ended,
            "terminated": rollout.terminated,
            "targets": self._bootstrap_values(rollout, acting),
        }
        for _ in range(self.config.n_epochs):
            order = torch.randperm(self.market.envs_each, device=self.device)
            for envs in order.view(-1, self.envs_in_batch):
                observation = {name: self._rows(entry, envs) for name, entry in rollout.observation.items()}
                chosen: dict[str, Any] = {name: self._rows(entry, envs) for name, entry in rows.items()}
                yield Transitions(self.by_row(len(chosen["rewards"])), observation, **chosen)

    @torch.no_grad()
    def _bootstrap_values(self, rollout: Rollout, acting: Acting) -> torch.Tensor:
        """(step, env) values at the ends of episodes by time, and behind the last step; 0 elsewhere."""
        beyond = values_at_ends(rollout, self.fleet, self.rows, acting, self.symbols)
        last = self.fleet.value(acting.features(acting.observation), self.rows)
        # The rollout ends in the middle of most episodes: there the value of the next observation stands in.
        beyond[-1] = torch.where(rollout.truncated[-1], beyond[-1], last)
        return beyond

    def _rows(self, entry: torch.Tensor, envs: torch.Tensor) -> torch.Tensor:
        """(step, symbol · env, …) of some environments of each symbol as (symbol · env · step, …)."""
        chosen = torch.unflatten(entry, 1, (self.symbols, -1))[:, :, envs]
        rows: torch.Tensor = chosen.permute(1, 2, 0, *range(3, chosen.ndim)).flatten(0, 2)
        return rows

    # ---- learning -------------------------------------------------------------------------------------------------

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        """The policy gradient along V-trace's advantages, the error of the values to its targets, and the entropy."""
        policy, values = self.fleet.decide(features, batch.observation.get(ACTION_MASK), self.rows)
        log_probs, shaped = policy.log_prob(batch.actions), self.per_symbol
        # Targets are constants (eq. 1): the critic is pulled to them, not they to the critic.
        targets, advantages, ratios = self._trace_targets(batch, values.detach(), log_probs.detach())
        policy_loss = -shaped(self._gain(batch, log_probs, advantages, ratios)).mean(1)
        value_loss = shaped((values - targets).square()).mean(1)
        entropy = shaped(policy.entropy()).mean(1)
        terms = {
            "policy": policy_loss,
            "value": self.config.vf_coef * value_loss,
            "entropy": -self.config.ent_coef * entropy,
        }
        gains = shaped(advantages)  # (symbol, row)
        metrics = {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "explained": explained_variance(shaped(values.detach()), shaped(targets)),
            "vtrace/rho_mean": shaped(ratios.clamp(max=self.config.rho_bar)).mean(1),
            "vtrace/clipped_share": (shaped(ratios) > self.config.rho_bar).float().mean(1),
            "vtrace/advantage_mean": gains.mean(1),
            "vtrace/advantage_std": gains.std(1),
        }
        return Losses(terms, metrics)

    def _gain(
        self, batch: Transitions, log_probs: torch.Tensor, advantages: torch.Tensor, ratios: torch.Tensor
    ) -> torch.Tensor:
        """(row,) what the policy ascends: A·log π, or PPO's surrogate around the weights that played."""
        assert batch.log_probs is not None
        if self.config.clip_range is None:
            return advantages * log_probs
        # V-trace's advantages hold min(ρ̄, π/μ) already, and the surrogate brings the ratio itself. Of an order that the
        # policy would never give again the ratio is 0 in float32, and 0/0 is undefined.
        least = torch.finfo(ratios.dtype).tiny
        gains = self.per_symbol(advantages / ratios.clamp(min=least, max=self.config.rho_bar))
        gains = (gains - gains.mean(1, keepdim=True)) / (gains.std(1, keepdim=True) + 1e-8)
        return clipped_surrogate(log_probs - batch.log_probs, gains.flatten(), self.config.clip_range)

    @torch.no_grad()
    def _trace_targets(
        self, batch: Transitions, values: torch.Tensor, log_probs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(row,) targets of the values, advantages, and ratios π/μ."""
        assert batch.rewards is not None
        assert batch.log_probs is not None
        assert batch.follows is not None
        assert batch.terminated is not None
        assert batch.targets is not None
        in_time = self._in_time
        v_t, ended, log_ratios = in_time(values), ~in_time(batch.follows), in_time(log_probs - batch.log_probs)
        following = torch.cat([v_t[1:], v_t[:1]])  # the last is replaced by what lies beyond
        is_beyond = ended.clone()
        is_beyond[-1] = True
        # At an end the next row is another episode; at the last step there is none.
        following = torch.where(is_beyond, in_time(batch.targets), following)
        following = torch.where(in_time(batch.terminated), 0.0, self.config.gamma * following)
        gamma, bounds = self.config.gamma, (self.config.rho_bar, self.config.c_bar)
        traced = vtrace(log_ratios, in_time(batch.rewards), v_t, following, ended, gamma, *bounds)
        return self._in_rows(traced.values), self._in_rows(traced.advantages), self._in_rows(log_ratios.exp())

    def _in_time(self, rows: torch.Tensor) -> torch.Tensor:
        """(symbol · env · step,) as (step, symbol · env)."""
        return rows.view(-1, self.config.n_steps).T

    def _in_rows(self, values: torch.Tensor) -> torch.Tensor:
        """(step, symbol · env) as (symbol · env · step,)."""
        return values.T.flatten()

    def round_observations(self, experience: Parcel, acting: Acting) -> dict[str, torch.Tensor]:
        return {name: entry.flatten(0, 1) for name, entry in experience.rollout.observation.items()}

    def describe(self, experience: Parcel, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Figures of a round as those of PPO, (symbol,) each.

        vtrace/rho_mean      mean weight of a correction        vtrace/clipped_share   share of ratios above ρ̄
        impala/policy_lag    updates that the weights of the rollout were behind
        impala/queue_depth   rollouts that were played and waited when it was taken
        impala/in_flight     rollouts that are ordered          impala/replaced        actors that died so far
        """
        rollout, rules = experience.rollout, self.market.batch.market
        returns, actions = (by_symbol(entry, self.symbols) for entry in (rollout.returns, rollout.actions))
        line = {"policy_lag": self.lag, "queue_depth": self.waiting, "in_flight": len(self.line.flights)}
        counts = {f"impala/{name}": value for name, value in (line | {"replaced": self.line.replaced}).items()}
        return {
            "returns": returns.mean(1),
            "sharpe": sharpe(returns, rules.bars_per_year),
            "entropy": by_symbol(rollout.entropies, self.symbols).mean(1),
            "action_mix": action_mix(actions, self.market.actions, rules.orders.hold_zone),
            **{name: values.mean(0) for name, values in metrics.items()},
            **{name: torch.full((self.symbols,), float(value), device=self.device) for name, value in counts.items()},
        }


def make_impala(setup: Setup) -> FleetTrainer:
    """IMPALA of a fleet."""
    assert isinstance(setup.train, FleetMarket)
    return make_trainer(Impala, FleetImpala, setup, setup.train)
