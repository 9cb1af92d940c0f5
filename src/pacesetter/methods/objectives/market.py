"""Markets with weights: every episode is played for weights of the objectives, which the policy sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pacesetter.learning.experience.conditioned import ConditionedMarket
from pacesetter.learning.experience.market import FleetMarket, FleetStep
from pacesetter.methods.objectives.preference import PreferenceSearch, episode_utility
from pacesetter.rewards.scalarise import ACCRUED, PREFERENCE

__all__ = ["PreferenceMarket", "make_search", "simplex"]

FRONT_SHARE = 0.5  # of the environments whose weights are drawn evenly, where a front is to be learned


def simplex(rows: int, count: int, device: torch.device) -> torch.Tensor:
    """(row, k) weights that sum to 1, drawn evenly: Dirichlet(1), as normalised exponential numbers."""
    # rand may be exactly 0, whose logarithm is infinite.
    drawn = -torch.rand(rows, count, device=device).clamp(min=1e-12).log()
    return drawn / drawn.sum(1, keepdim=True)


def make_search(options: Mapping[str, Any], first: Mapping[str, float], device: torch.device) -> PreferenceSearch:
    """The search that the options of an agent ask for."""
    names = ("utility", "scalarisation", "preferences", "population")
    kept = {name: options[name] for name in names if name in options}
    renamed = {"largest": "largest_weight", "deviation": "preference_noise", "rate": "preference_rate"}
    kept |= {own: options[key] for own, key in renamed.items() if key in options}
    return PreferenceSearch(tuple(first.values()), device=device, **kept)


class PreferenceMarket(ConditionedMarket):
    """A market whose observations hold the weights in force; with chebyshev also what each objective has added up.

    Where starts are random, members of the search play, or weights drawn evenly; where they are fixed, its mean, or
    the weights in `asked`.

    preference, accrued   (env, k)         member   (env,) of the search; −1 where the weights are drawn
    moments               (env, 4) of the episode's returns so far: count, sum, squares, squares of losses
    """

    asked: torch.Tensor | None

    def __init__(self, market: FleetMarket, search: PreferenceSearch) -> None:
        super().__init__(market)
        self.search, self.asked = search, None
        envs, device = market.env_count, market.device
        self.preference = torch.full((envs, search.count), 1.0 / search.count, device=device)
        self.accrued = torch.zeros_like(self.preference)
        self.member = torch.full((envs,), -1, dtype=torch.int64, device=device)
        self.moments = torch.zeros(envs, 4, device=device)
        self._begun = torch.ones(envs, dtype=torch.bool, device=device)

    @property
    def remembered(self) -> dict[str, torch.Tensor]:
        return {"preference": self.preference, "accrued": self.accrued, "member": self.member, "moments": self.moments}

    def entries(self) -> dict[str, torch.Tensor]:
        shown = {PREFERENCE: self.preference.clone()}
        return shown | ({ACCRUED: self.accrued.clone()} if self.search.scalarisation == "chebyshev" else {})

    def reset(self) -> dict[str, torch.Tensor]:
        # Training alone opens a generation, and only where a checkpoint has not brought one.
        if not self.market.is_fixed and not bool(self.search.noise.any()):
            self.search.draw()
        return super().reset()

    def begin(self, rows: torch.Tensor) -> None:
        self.accrued.masked_fill_(rows[:, None], 0.0)
        self.moments.masked_fill_(rows[:, None], 0.0)
        self._begun = rows
        if not self.market.is_fixed:
            drawn = torch.randint(self.search.members, rows.shape, device=rows.device)
            if self.search.preferences > 1:
                # The other half plays for drawn weights: members alone would cover the neighbourhood of the search's
                # mean.
                drawn[torch.rand(rows.shape, device=rows.device) < FRONT_SHARE] = -1
            self.member.copy_(torch.where(rows, drawn, self.member))

    def before_showing(self, observation: Mapping[str, torch.Tensor]) -> None:
        """Choose weights where an episode has just begun; those that hang on the account are chosen at every bar."""
        if self.asked is not None:
            self.preference.copy_(self.asked.expand_as(self.preference))
            return
        # Weights hold for an episode: rewards of one return must be weighed alike. State-dependent ones are the
        # exception.
        changes = self._begun
        if self.search.scalarisation == "state_dependent":
            changes = changes | (self.member >= 0) | self.market.is_fixed
        if not bool(changes.any()):  # the networks of the members took a quarter of a step
            return
        account = torch.cat([observation["position"], observation["portfolio"]], dim=1).float()
        members = None if self.market.is_fixed else self.member.clamp(min=0)
        chosen = self.search.weights(account, members)
        if not self.market.is_fixed:
            even = simplex(len(chosen), self.search.count, chosen.device)
            chosen = torch.where((self.member < 0)[:, None], even, chosen)
        self.preference.copy_(torch.where(changes[:, None], chosen, self.preference))
        self._begun = torch.zeros_like(self._begun)

    def advance(self, step: FleetStep) -> FleetStep:
        self.accrued.add_(step.objectives)
        r = step.returns
        added = torch.stack([torch.ones_like(r), r, r.square(), r.clamp(max=0.0).square()], dim=1)
        self.moments.add_(added)
        ended = (step.terminated | step.truncated) & (self.member >= 0)
        if not self.market.is_fixed and bool(ended.any()):
            # Episodes of drawn weights (member −1) say nothing of the search's networks.
            self.search.observe_episodes(
                self.member[ended], episode_utility(self.search.utility, *self.moments[ended].unbind(1))
            )
        return step

    def again(self, market: FleetMarket) -> PreferenceMarket:
        return PreferenceMarket(market, self.search)
