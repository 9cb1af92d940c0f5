"""Hybrid of PPO and evolution: gradient steps, then a population around what they reached, and back, on one fleet.

PPO's critic learns in its own phases alone; Adam's moments of each phase are kept until it comes again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar

import torch

from pacesetter.agents.fleet import Fleet
from pacesetter.errors import ConfigError, check_range
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.making import make_fleet, own_options
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.learner import Watcher
from pacesetter.learning.methods import Setup
from pacesetter.methods.evolution.es import ES, FleetES
from pacesetter.registry import configure

__all__ = ["FleetHybrid", "HybridTrainer", "make_hybrid", "should_switch"]

LEAST_ROUNDS = 4  # of a phase, before its improvement is judged
OF_ITS_OWN = ("population", "sigma", "n_steps", "decay", "shaping", "learning_rate", "encoder_learning_rate")


def _evolution_defaults() -> dict[str, object]:
    known = asdict(FleetES())
    return {name: known[name] for name in OF_ITS_OWN}


@dataclass(frozen=True)
class FleetHybrid(FleetPPO):
    """Options of PPO, and of the evolution between its phases."""

    rl_steps: Annotated[int, "of each symbol in a phase of PPO"] = 10_000
    es_iterations: Annotated[int, "rounds of a phase of evolution"] = 10
    switch_at: Annotated[
        float,
        "a phase ends early once its latest improvement is below this share of its mean improvement",
    ] = 0.5
    evolution: Annotated[dict[str, Any], "options of `agent=es`"] = field(default_factory=_evolution_defaults)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(1, owner="agent", rl_steps=self.rl_steps, es_iterations=self.es_iterations)
        check_range(0, owner="agent", switch_at=self.switch_at)
        if unknown := set(self.evolution) - set(OF_ITS_OWN):
            raise ConfigError(f"agent.evolution.{min(unknown)} is unknown; it has {', '.join(OF_ITS_OWN)}")
        if self.extras:
            raise ConfigError("agent=hybrid takes no agent.extras, which evolution has no gradient for; take agent=ppo")
        # Completed with defaults, so that stored options name every key, whichever of them was given.
        object.__setattr__(self, "evolution", _evolution_defaults() | dict(self.evolution))
        self.of_evolution  # noqa: B018  (refuses what ES cannot do)

    @property
    def of_evolution(self) -> FleetES:
        """Options of the phases of evolution; what both have is PPO's."""
        both = {"gamma": self.gamma, "precision": self.precision, "compile": self.compile, "seed": self.seed}
        options: FleetES = configure(FleetES, self.evolution | both, "agent.evolution")
        return options


def should_switch(scores: torch.Tensor, switch_at: float) -> bool:
    """Whether a phase of (round,) scores improves too little now: its later half against all of it, a round.

    A phase that lost on average ends once its later half loses too.
    """
    rounds, half = len(scores) - 1, len(scores) // 2
    if len(scores) < LEAST_ROUNDS:
        return False
    # Over half of the phase: the gain of a single round is mostly noise.
    mean, latest = (scores[-1] - scores[0]) / rounds, (scores[-1] - scores[-1 - half]) / half
    return bool(latest < switch_at * mean.clamp(min=0.0))


class HybridTrainer(FleetTrainer):
    """A trainer by PPO that hands its fleet to a trainer by evolution and takes it back; steps are those of both.

    is_evolving   which phase it is          phase_scores   (round,) mean return a bar of the phase's rounds
    """

    declared: ClassVar[tuple[str, ...]] = (*FleetTrainer.declared, "is_evolving", "phase_steps", "phase_scores")

    config: FleetHybrid

    def __init__(self, method: PPO[Fleet, FleetMarket], evolution: FleetTrainer) -> None:
        super().__init__(method)  # after evolution was made, so that the fleet has PPO's state value
        self.evolution = evolution
        self.is_evolving, self.phase_steps = False, 0
        self.phase_scores = torch.zeros(0, dtype=torch.float64)

    def round(self, watcher: Watcher) -> None:
        """A round of the phase that it is; behind it the phase may end."""
        # Read first: `round_steps` follows the phase, which may change at the end of this round.
        steps = self.round_steps
        if self.is_evolving:
            self.evolution.round(watcher)
            self.steps += steps
            self._statistics = self.evolution.statistics()
        else:
            super().round(watcher)
        self.phase_steps += steps
        # Return of equity, which both phases measure alike; PPO's losses and the scores of members do not compare.
        score = self._statistics["returns"].mean().double().cpu()
        self.phase_scores = torch.cat([self.phase_scores, score[None]])
        self._statistics["hybrid/evolving"] = torch.full_like(self._statistics["returns"], float(self.is_evolving))
        if self.phase_steps >= self._budget or should_switch(self.phase_scores, self.config.switch_at):
            self.is_evolving, self.phase_steps = not self.is_evolving, 0
            self.phase_scores = self.phase_scores[:0]

    @property
    def _budget(self) -> int:
        """Steps of each symbol after which the phase ends in any case."""
        config = self.config
        return int(config.es_iterations * self.round_steps if self.is_evolving else config.rl_steps)

    @property
    def round_steps(self) -> int:
        """Those of the phase that it is."""
        return self.evolution.round_steps if self.is_evolving else self.method.round_steps

    @property
    def seconds(self) -> dict[str, float]:
        both = self.clock.seconds(), self.evolution.seconds
        return {name: sum(part.get(name, 0.0) for part in both) for name in both[0] | both[1]}

    def state_dict(self) -> dict[str, Any]:
        # Both trainers hold the same fleet: it is stored once, with PPO's state.
        own = {name: part for name, part in self.evolution.state_dict().items() if name not in self.modules}
        return super().state_dict() | {"evolution": own}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        # Evolution first: the random numbers that go on are those that the whole learner stored.
        self.evolution.load_state_dict({**stored["evolution"], **{name: stored[name] for name in self.modules}})
        super().load_state_dict(stored)


def make_hybrid(setup: Setup) -> HybridTrainer:
    """PPO and evolution of one fleet; `train.envs` are those of each symbol, and of each member and symbol."""
    config, market = configure(FleetHybrid, own_options(setup), "agent"), setup.train
    assert isinstance(market, FleetMarket)
    fleet = make_fleet(setup, market)
    evolution = FleetTrainer(ES(fleet, market.for_members(config.of_evolution.population), config.of_evolution))
    return HybridTrainer(PPO(fleet, market, config), evolution)
