"""Markets with goals: every episode has a return or an exposure to reach, and its rewards say how near it is."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.conditioned import ConditionedMarket
from pacesetter.learning.experience.market import FleetMarket, FleetStep
from pacesetter.methods.goals.goals import ACHIEVED, DESIRED, HindsightConfig

__all__ = ["GoalMarket"]

MEMORY = 0.02  # of the moving shares of episodes that reached their goal


class GoalMarket(ConditionedMarket):
    """A market whose episodes draw goals, or all have the goal `options.goal` where starts are fixed.

    desired, achieved   (env, 1) returns of equity since the episode began, or positions as shares of equity
    reached             (symbol,) moving share of ended episodes that ended within the tolerance of their goal
    ended               (symbol,) episodes so far
    """

    def __init__(self, market: FleetMarket, options: HindsightConfig) -> None:
        super().__init__(market)
        self.options = options
        most = market.batch.market.limits.position_cap_fraction
        if options.kind == "exposure" and options.cap > most:
            raise ConfigError(
                f"agent.hindsight.cap={options.cap} is beyond the position cap; give {most} at most, or a larger "
                "task.market.limits.position_cap_fraction"
            )
        self.desired = torch.full((market.env_count, 1), options.goal, device=market.device)
        self.achieved = torch.zeros_like(self.desired)
        self.reached = torch.zeros(len(market.symbols), device=market.device)
        self.ended = torch.zeros_like(self.reached)

    @property
    def remembered(self) -> dict[str, torch.Tensor]:
        return {"desired": self.desired, "achieved": self.achieved, "reached": self.reached, "ended": self.ended}

    def entries(self) -> dict[str, torch.Tensor]:
        desired = {DESIRED: self.desired.clone()}
        # An exposure stands among the entries of the position already.
        return desired if self.options.kind == "exposure" else {ACHIEVED: self.achieved.clone(), **desired}

    def entries_of(self, observation: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        earned = observation["portfolio"][:, PortfolioEntry.EQUITY_RATIO].float()[:, None] - 1.0
        desired = {DESIRED: torch.full_like(earned, self.options.goal)}
        return desired if self.options.kind == "exposure" else {ACHIEVED: earned, **desired}

    def begin(self, rows: torch.Tensor) -> None:
        self.achieved.masked_fill_(rows[:, None], 0.0)
        if not self.market.is_fixed:
            # Evenly up to the cap: the policy has to answer for every goal that it may be asked for.
            drawn = torch.rand(len(self.desired), 1, device=self.desired.device) * self.options.cap
            self.desired.copy_(torch.where(rows[:, None], drawn, self.desired))

    def advance(self, step: FleetStep) -> FleetStep:
        ended = step.terminated | step.truncated
        if self.options.kind == "exposure":
            # Where an episode has ended, the observation is of the next one already.
            before, after = (rows["position"][:, PositionEntry.WEIGHT] for rows in (step.finals, step.observation))
            self.achieved[:, 0] = torch.where(ended, before, after)
        else:
            # In float64: the return of one bar is near float32's rounding beside 1, and an episode compounds hundreds.
            growth = (1.0 + self.achieved.double()) * (1.0 + step.returns.double()[:, None])
            self.achieved.copy_((growth - 1.0).float())
        self._count(ended)
        rewards = self.options.reward(self.achieved, self.desired)[:, 0]
        # Beside the goal's reward the money that the market paid: NaN there must reach the fail-safe.
        return step._replace(rewards=rewards.float() + 0.0 * step.rewards)

    def again(self, market: FleetMarket) -> GoalMarket:
        return GoalMarket(market, self.options)

    def figures_to_log(self) -> dict[str, torch.Tensor]:
        """(symbol,) figures for those of each round."""
        relabelled = torch.full_like(self.reached, self.options.ratio)
        return {"her/goal_achievement_rate": self.reached.clone(), "her/relabeled_ratio": relabelled}

    def _count(self, ended: torch.Tensor) -> None:
        """Let ended episodes say whether they reached their goal."""
        shape = (len(self.reached), -1)
        hits = self.options.is_reached(self.achieved, self.desired)[:, 0] & ended
        count = ended.view(shape).sum(1)
        share = hits.view(shape).sum(1) / count.clamp(min=1)
        # At first the plain mean, later a moving one.
        rate = (count / (self.ended + count).clamp(min=1)).clamp(min=MEMORY)
        self.ended.add_(count)
        self.reached.add_(torch.where(count > 0, rate * (share - self.reached), 0.0))
