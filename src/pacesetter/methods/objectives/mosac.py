"""MO-SAC: fleet SAC with a critic for each objective, whose values become one number by the weights in force.

The policy sees the weights (Abels et al. 2019): one network for the whole front. With `weighted_sum` and `chebyshev`
they hold for an episode, with `state_dependent` the preference network chooses them at every bar. Every objective is
scaled by the deviation of its own discounted return, so that weights compare like with like.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from pacesetter.agents.fleet import Fleet
from pacesetter.errors import ConfigError, check_range
from pacesetter.learning.experience.replay import FOLLOWING, OBSERVATION
from pacesetter.learning.experience.rollout import ReturnScale, by_symbol
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import rewards_of_draw
from pacesetter.learning.fleet.making import make_trainer
from pacesetter.learning.fleet.method import Acting
from pacesetter.learning.fleet.sac import SAC, FleetSAC, Steps, TwinChoices, TwinCritics
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup
from pacesetter.methods.objectives.conditions import first_weights
from pacesetter.methods.objectives.market import PreferenceMarket, simplex
from pacesetter.rewards.scalarise import ACCRUED, PREFERENCE, chebyshev, weighted_sum

__all__ = ["MOSAC", "FleetMOSAC", "make_mosac"]

EXPLORATION = "exploration"  # the objective that rewards of extras belong to
CHANGED_SHARE = 0.5  # of drawn rows that are learned from for other weights, where a front is to be learned


@dataclass(frozen=True)
class FleetMOSAC(FleetSAC):
    """Options of multi-objective SAC."""

    objectives: Annotated[
        dict[str, Any] | None,
        "reward component -> its first weight; null: profit, risk, activity, timing, exploration",
    ] = None
    scalarisation: Annotated[
        Literal["weighted_sum", "chebyshev", "state_dependent"],
        "weighted_sum, chebyshev (which reaches concave fronts too) or state_dependent",
    ] = "weighted_sum"
    preferences: Annotated[
        int,
        "points of the front that is judged at the end; above 1, training covers all weights",
    ] = 1
    utility: Annotated[
        Literal["sharpe", "growth", "sortino"],
        "of whole episodes, which the preference network is trained by: sharpe, growth or sortino",
    ] = "sharpe"
    largest_weight: Annotated[float, "that the preference network gives to one objective"] = 0.6
    population: Annotated[int, "pairs of networks in its evolution strategy"] = 8
    preference_noise: Annotated[float, "deviation of the strategy's parameters"] = 0.2
    preference_rate: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hindsight is not None:
            raise ConfigError("agent.hindsight is for agent=sac; leave it out of agent=mosac")
        check_range(1, owner="agent", preferences=self.preferences, population=self.population)
        first_weights(self.objectives)


class ObjectiveCritics(nn.Module):
    """Twin critics of each objective: (symbol · n, width) features and actions → (2, objective, symbol · n).

    Those of discrete orders take features alone, and give a value for each order: (2, objective, symbol · n, action).
    """

    def __init__(self, each: Iterable[TwinCritics | TwinChoices]) -> None:
        super().__init__()
        self.each = nn.ModuleList(each)

    def forward(self, features: torch.Tensor, *rest: torch.Tensor | None) -> torch.Tensor:
        return torch.stack([critics(features, *rest) for critics in self.each], dim=1)


class ObjectiveScale(ReturnScale):
    """The scale of each objective's return, all in one: its "symbols" are (objective, symbol).

    One call for all: a scale for each took half of the step of a lone environment.
    """

    def __init__(self, objectives: int, symbols: int, env_count: int, discount: float) -> None:
        super().__init__(objectives * symbols, objectives * env_count, discount)
        self.objectives = objectives

    def forward(self, rewards: torch.Tensor) -> torch.Tensor:
        """(objective, row) of (row, objective) values."""
        by_place = rewards.T.reshape(len(self.count), -1)
        return super().forward(by_place).view(self.objectives, -1)

    def observe(self, rewards: torch.Tensor, ended: torch.Tensor) -> None:
        """Count (env, objective) values of a step and where an episode ended (env,)."""
        super().observe(rewards.T.reshape(1, -1), ended.repeat(self.objectives)[None])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: object) -> None:
        # Checkpoints of earlier versions hold a scale for each objective, numbered.
        for name in dict(self.named_buffers()):
            parts = [state_dict.pop(f"{prefix}{place}.{name}", None) for place in range(self.objectives)]
            if all(part is not None for part in parts):
                state_dict[prefix + name] = torch.cat(parts)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class MOSAC(SAC):
    """Multi-objective SAC for all symbols of a market at once."""

    config: FleetMOSAC
    market: PreferenceMarket
    declared: ClassVar[tuple[str, ...]] = (*SAC.declared, "search")

    def __init__(self, fleet: Fleet, market: PreferenceMarket, config: FleetMOSAC) -> None:
        # Before the parent's constructor, which asks `make_critics` for one critic of each.
        self.names = tuple(first_weights(config.objectives))
        if config.extras and EXPLORATION not in self.names:
            raise ConfigError(f"agent.extras are added to the objective '{EXPLORATION}'; name it in agent.objectives")
        super().__init__(fleet, market, config)
        self.search = market.search
        self.objective_scale = ObjectiveScale(len(self.names), self.symbols, market.env_count, config.gamma)
        self.own["scales"] = self.objective_scale
        # The best that an objective has added up to so far, in its own deviations: chebyshev's reference point.
        # As a parameter without a gradient it is stored and moved with the rest.
        self.own["best"] = nn.ParameterDict({"reference": nn.Parameter(torch.zeros(len(self.names), 1), False)})

    def make_critics(self, fleet: Fleet) -> nn.Module:
        return ObjectiveCritics(self.twin_critics(fleet) for _ in self.names)

    # ---- experience -----------------------------------------------------------------------------------------------

    def step(self, acting: Acting) -> Any:
        actions, step = super().step(acting)
        ended = step.terminated | step.truncated
        self.objective_scale.observe(step.objectives, ended)
        if self.config.scalarisation == "chebyshev":
            self._raise_reference(step.finals[ACCRUED], ended)
        return actions, step

    @torch.no_grad()
    def _raise_reference(self, accrued: torch.Tensor, ended: torch.Tensor) -> None:
        if bool(ended.any()):
            # Only whole episodes count: a sum under way is not an outcome that a policy could aim for.
            best = torch.where(ended, self.scale_objectives(accrued), -torch.inf).amax(1, keepdim=True)
            self.reference.copy_(torch.maximum(self.reference, best))

    @property
    def reference(self) -> torch.Tensor:
        """(objective, 1) chebyshev's reference point."""
        best: Any = self.own["best"]
        reference: torch.Tensor = best["reference"]
        return reference

    def scale_objectives(self, objectives: torch.Tensor) -> torch.Tensor:
        """(objective, row) of (row, objective) values, each in deviations of its discounted return."""
        return self.objective_scale(objectives)  # type: ignore[no-any-return]

    def transitions(self, drawn: Mapping[str, torch.Tensor]) -> Transitions:
        """Rows of the replay; where a front is learned, half of them for other weights than they were played for."""
        if self.config.preferences > 1:
            rows = len(drawn["rewards"])
            is_changed = torch.rand(rows, 1, device=self.device) < CHANGED_SHARE
            # The transition is the same whatever it is valued by: hindsight on weights (Abels et al. 2019).
            other = simplex(rows, len(self.names), self.device)
            # Rows that are not changed keep what followed: state-dependent weights change within an episode.
            names = (OBSERVATION + PREFERENCE, FOLLOWING + PREFERENCE)
            drawn = {**drawn, **{name: torch.where(is_changed, other, drawn[name]) for name in names}}
        return super().transitions(drawn)

    # ---- learning -------------------------------------------------------------------------------------------------

    def actor_features(self, features: torch.Tensor) -> torch.Tensor:
        """As SAC's; with the gradient where a front is learned.

        What an objective is worth hardly depends on the weights, which order is best does. Features that only the
        critics shape need not hold the weights, and one network for a front then plays them all alike.
        """
        return features if self.config.preferences > 1 else super().actor_features(features)

    def critic_values(self, features: torch.Tensor, actions: torch.Tensor | None, batch: Transitions) -> torch.Tensor:
        """The critics' values as one number, by the weights that each row has: (row,), or (row, action)."""
        values = self.values_of(self.critics, features, actions).amin(0)  # (objective, row, …)
        shape = (*values.shape[:2], *[1] * (values.ndim - 2))
        weights = batch.observation[PREFERENCE].T.reshape(shape)
        if self.config.scalarisation != "chebyshev":
            return weighted_sum(values, weights)
        # Not additive: how far the whole episode is from the reference, with what it has added up before.
        accrued = self.scale_objectives(batch.observation[ACCRUED]).view(shape)
        reference = self.reference.view(-1, *[1] * (values.ndim - 1))
        return chebyshev(values + accrued, weights, reference)

    def critic_targets(
        self, batch: Transitions, features: torch.Tensor, following: torch.Tensor, acting: Acting
    ) -> torch.Tensor:
        """(objective, symbol · n) targets r_k + γ(min Q'_k(s', a') − α log π(a'|s')), each as that of SAC."""
        assert batch.objectives is not None
        assert batch.terminated is not None
        values = self.soft_values(batch, following)  # the smaller critic of each objective separately
        rewards = self.scale_objectives(batch.objectives)  # (objective, row)
        for extra in acting.extras.values():
            changed = rewards_of_draw(extra, batch, features, following, acting.steps + acting.round_steps)
            if changed is not None and batch.rewards is not None:
                # What the extra added alone: its own reward starts from the scalar one, which the objectives hold
                # already.
                rewards[self.names.index(EXPLORATION)] += changed - batch.rewards
        wanted: torch.Tensor = rewards + self.config.gamma * ~batch.terminated * values
        return wanted

    def describe(self, experience: Steps, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Figures of SAC, the mean of each objective with the mean weight that it had, updates of what weighs them."""
        figures = super().describe(experience, metrics)
        figures["reward/preference_updates"] = self.search.updates.expand(self.symbols)
        objectives = by_symbol(torch.stack([step.objectives for _, step in experience]), self.symbols).mean(1)
        weights = self.market.preference.view(self.symbols, -1, len(self.names)).mean(1)
        for place, name in enumerate(self.names):
            figures[f"reward/{name}"] = objectives[:, place]
            figures[f"reward/{name}_weight"] = weights[:, place]
        return figures


def make_mosac(setup: Setup) -> FleetTrainer:
    """Multi-objective SAC of a fleet."""
    assert isinstance(setup.train, PreferenceMarket)
    return make_trainer(MOSAC, FleetMOSAC, setup, setup.train)
