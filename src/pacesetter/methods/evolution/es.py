"""Evolution strategies for a fleet (Salimans et al. 2017): no gradient of a network, only scores of perturbed copies.

All members play the same bars, so that their scores differ by what they do alone. Each symbol ranks its own members:
its head moves by its own scores, the encoder by those of all symbols. `losses` turns the estimate into a loss, so that
Adam, frozen parts, schedules and checkpoints are the trainer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch

from pacesetter.agents.fleet import Fleet
from pacesetter.errors import ConfigError, check_range
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.rollout import action_mix, by_symbol, sharpe
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.making import make_fleet, own_options
from pacesetter.learning.fleet.method import Acting, FleetConfig, FleetMethod, Losses
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup
from pacesetter.methods.evolution.equations import centred_ranks, evolution_loss, standard_scores
from pacesetter.methods.evolution.population import ENCODER, Members, Population
from pacesetter.registry import configure

__all__ = ["ES", "FleetES", "make_es"]

SHAPING = {"ranks": centred_ranks, "scores": standard_scores}


@dataclass(frozen=True)
class FleetES(FleetConfig):
    """Options of evolution strategies. `train.envs` are those of each member."""

    learning_rate: float = 0.01
    encoder_learning_rate: float = 0.01
    max_grad_norm: float = 40.0
    population: Annotated[int, "members, half of them mirrored: θ + σε and θ − σε"] = 256
    sigma: Annotated[float, "deviation of the noise that is added to every parameter"] = 0.02
    n_steps: Annotated[int, "of each environment in a round, from fresh starts that all members share"] = 32
    decay: Annotated[float, "pull of the parameters towards 0, as a share of them that joins the gradient"] = 0.001
    shaping: Annotated[
        Literal["ranks", "scores"],
        "ranks: members count by their rank; scores: by their score in deviations",
    ] = "ranks"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(0, owner="agent", decay=self.decay)
        if self.population < 2 or self.population % 2:
            raise ConfigError(
                f"agent.population={self.population} must be an even number of 2 or more: half is mirrored"
            )
        if not self.sigma > 0:
            raise ConfigError(f"agent.sigma={self.sigma} must be above 0")
        if self.extras:
            raise ConfigError(
                "agent=es has no gradient that agent.extras could join; leave them out, or take agent=ppo"
            )


class Generation(NamedTuple):
    """What a round came to.

    scores    (symbol, member) mean reward a step          observation   compact entries (env, …) before the first step
    actions   (step, env, …)     returns   (step, env) of equity     entropies   (env,) of the policies at the last step
    """

    scores: torch.Tensor
    observation: dict[str, torch.Tensor]
    actions: torch.Tensor
    returns: torch.Tensor
    entropies: torch.Tensor


class ES(FleetMethod[Fleet, FleetMarket]):
    """Evolution strategies for all symbols of a market at once; the market has environments of every member."""

    config: FleetES
    has_state_value = False

    def __init__(self, fleet: Fleet, market: FleetMarket, config: FleetES) -> None:
        if market.envs_each % config.population:
            raise ConfigError(
                f"{market.envs_each} environments of each symbol are not the same number for each of "
                f"agent.population={config.population} members; build the market by `crowd`"
            )
        super().__init__(fleet, market, config)
        self.population = Population(fleet, config.population, self.rows, market.tables, config)
        self.noise: Members = {}

    @property
    def round_steps(self) -> int:
        return self.config.n_steps * self.market.envs_each

    # ---- experience -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def collect(self, acting: Acting) -> Generation:
        """Let all members play the same bars from fresh starts; they act by the mode, their noise explores."""
        self.noise = self.population.draw()
        members = self.population.members(self.noise, self.config.sigma)
        # Fresh starts: a score must not depend on the position that the member before it left in the same environment.
        acting.begin_episodes()
        first, rewards, returns, actions = acting.observation, [], [], []
        for _ in range(self.config.n_steps):
            policy = self.population.decide(members, acting.observation)
            actions.append(policy.mode())
            step = acting.step_environments(actions[-1])
            rewards.append(step.rewards)
            returns.append(step.returns)
        # (step, symbol, member, env): environments are laid out by symbol, then member.
        earned = torch.stack(rewards).view(len(rewards), self.symbols, self.config.population, -1)
        scores = earned.mean((0, 3))  # (symbol, member)
        return Generation(scores, first, torch.stack(actions), torch.stack(returns), policy.entropy())

    def batches(self, experience: Generation, acting: Acting) -> Iterator[Transitions]:
        """One batch, whose rows are (symbol, member): the first environment of each and its utility."""
        members = self.symbols * self.config.population
        every = self.market.env_count // members
        first = {name: entry[::every] for name, entry in experience.observation.items()}
        utilities = SHAPING[self.config.shaping](experience.scores).flatten()
        # Utilities travel as advantages: both say how much a row counts.
        yield Transitions(self.by_row(members), first, experience.actions[0, ::every], advantages=utilities)

    # ---- learning -------------------------------------------------------------------------------------------------

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        """Along the estimated gradient, and with a pull towards 0; `features` are of no use here."""
        assert batch.advantages is not None
        utilities = self.per_symbol(batch.advantages)  # (symbol, member)
        step = decay = torch.zeros(self.symbols, device=self.device)
        for name, whole in self.population.parameters.items():
            is_shared = name.startswith(ENCODER)
            # Noise was drawn for every agent of the fleet; those whose symbols this market lacks were not scored.
            noise = self.noise[name] if is_shared else self.noise[name][:, self.present]
            parameter: torch.Tensor = whole if is_shared else whole[self.present]
            step = step + evolution_loss(parameter, noise, utilities, self.config.sigma, is_shared)
            squares = parameter.square().sum() if is_shared else parameter.square().flatten(1).sum(1)
            # As a loss, so that clipping and freezing apply to it as to the step; its gradient is decay · θ.
            decay = decay + 0.5 * self.config.decay * squares
        return Losses({"evolution": step, "decay": decay}, {"decay_loss": decay.detach()})

    def round_observations(self, experience: Generation, acting: Acting) -> dict[str, torch.Tensor]:
        return acting.observation

    def describe(self, experience: Generation, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Figures of a round, (symbol,) each, over all members; `es/mean` and `es/best` are mean rewards a step."""
        returns, rules = by_symbol(experience.returns, self.symbols), self.market.batch.market
        actions = by_symbol(experience.actions, self.symbols)
        return {
            "es/mean": experience.scores.mean(1),
            "es/best": experience.scores.amax(1),
            "returns": returns.mean(1),
            "sharpe": sharpe(returns, rules.bars_per_year),
            "entropy": self.per_symbol(experience.entropies).mean(1),
            "action_mix": action_mix(actions, self.market.actions, rules.orders.hold_zone),
            **{name: values.mean(0) for name, values in metrics.items()},
        }


def make_es(setup: Setup) -> FleetTrainer:
    """Evolution strategies of a fleet; each member has the environments of the training market."""
    config, market = configure(FleetES, own_options(setup), "agent"), setup.train
    assert isinstance(market, FleetMarket)
    return FleetTrainer(ES(make_fleet(setup, market), market.for_members(config.population), config))
