"""What learning of written and of learned options shares: signals of every bar, what is kept, figures of a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.gather import INDEX
from pacesetter.learning.experience.market import FleetMarket, FleetStep
from pacesetter.learning.experience.rollout import ReturnScale, action_mix, by_symbol, sharpe
from pacesetter.learning.fleet.method import Acting, FleetMethod
from pacesetter.methods.options.agents import OptionFleet
from pacesetter.methods.options.answer import OptionAnswer, OptionBar
from pacesetter.methods.options.config import HISTORY_BARS, FleetOptions
from pacesetter.methods.options.rule_options import Situation, initiation, read_market

__all__ = ["OptionMethod", "OptionStep", "ending_or", "market_signals"]

BARS_AT_ONCE = 65_536


@dataclass(frozen=True, eq=False)
class OptionStep:
    """One step of all environments: what was decided, with which answer, and what it came to.

    completed, gained   (env, 2) whether an option was completed before this step and with it, and without a loss
    """

    observation: dict[str, torch.Tensor]
    answer: OptionAnswer
    played: OptionBar
    step: FleetStep
    completed: torch.Tensor
    gained: torch.Tensor

    @property
    def ended(self) -> torch.Tensor:
        return self.step.terminated | self.step.truncated


class OptionMethod(FleetMethod[OptionFleet, FleetMarket]):
    """Steps environments by options; `memory` (env, ·) is what each keeps of its last bar."""

    config: FleetOptions
    declared: ClassVar[tuple[str, ...]] = ("memory", "equity")
    epsilon = 0.0

    def __init__(self, fleet: OptionFleet, market: FleetMarket, config: FleetOptions) -> None:
        super().__init__(fleet, market, config)
        if config.extras:
            named = ", ".join(config.extras)
            raise ConfigError(f"agent=options takes no extras, but agent.extras has {named}; leave them out")
        if config.kind == "written" and market.batch.action == "target":
            raise ConfigError(
                "the written options give orders, not targets; take task.action=continuous, or agent=option_critic"
            )
        torch.manual_seed(config.seed)
        self.scale = ReturnScale(self.symbols, market.env_count, config.gamma)
        self.own["scale"] = self.scale
        self.signals = market_signals(market, fleet.column).to(self.device)
        if config.kind == "written":
            check_beginnings(fleet, market, self.signals)
        self.memory = torch.zeros(market.env_count, fleet.options.memory_size, device=self.device)
        self.equity = torch.ones(market.env_count, device=self.device)  # since the option in force began

    @property
    def round_steps(self) -> int:
        return self.config.n_steps * self.market.envs_each

    # ---- experience -----------------------------------------------------------------------------------------------

    def signals_at(self, observation: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """(row, 3) what the rules read of the market at compact observations."""
        block, bar = observation[INDEX].long().unbind(-1)
        return self.signals[block, bar]

    def answer(
        self, observation: Mapping[str, torch.Tensor], features: torch.Tensor, memory: torch.Tensor
    ) -> OptionAnswer:
        signals = self.signals_at(observation)
        return self.fleet.answer(features, signals, observation["position"], memory, self.rows)

    @torch.no_grad()
    def step(self, acting: Acting) -> OptionStep:
        """Let the options in force give their orders; where an episode ends, nothing is kept."""
        observation = acting.observation
        answer = self.answer(observation, acting.features(observation), self.memory)
        played = answer.play(deterministic=False, epsilon=self.epsilon)
        step = acting.step_environments(played.orders)
        ended = step.terminated | step.truncated
        # 0 is "no option": the next episode begins by choosing one.
        self.memory = torch.where(ended[:, None], 0.0, played.memory)
        self.scale.observe(step.rewards[None], ended[None])
        return OptionStep(observation, answer, played, step, *self._completed_options(answer, played, step))

    def _completed_options(
        self, answer: OptionAnswer, played: OptionBar, step: FleetStep
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Which options were completed, and which of those without a loss of equity.

        One that began at a bar ended the one before; the last of an episode ends with it.
        """
        left, ended = played.began & (answer.before.option >= 0), step.terminated | step.truncated
        before = self.equity
        # Equity is counted from the bar at which the option in force gave its first order.
        self.equity = torch.where(played.began, 1.0, before) * (1 + step.returns)
        gained = torch.stack([left & (before >= 1.0), ended & (self.equity >= 1.0)], dim=1)
        self.equity = torch.where(ended, 1.0, self.equity)
        return torch.stack([left, ended], dim=1), gained

    # ---- figures --------------------------------------------------------------------------------------------------

    def describe(self, experience: Any, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Figures of a round, as those of PPO, with the options: shares of the bars, bars each lasted, successes."""
        steps: list[OptionStep] = experience
        returns = by_symbol(torch.stack([each.step.returns for each in steps]), self.symbols)
        actions = by_symbol(torch.stack([each.played.orders for each in steps]), self.symbols)
        began = by_symbol(torch.stack([each.played.began for each in steps]), self.symbols)
        option = by_symbol(torch.stack([each.played.option for each in steps]), self.symbols)
        entropy = by_symbol(torch.stack([each.answer.entropy() for each in steps]), self.symbols)
        completed = by_symbol(torch.stack([each.completed for each in steps]), self.symbols).sum((1, 2))
        gained = by_symbol(torch.stack([each.gained for each in steps]), self.symbols).sum((1, 2))
        starts, rules = began.sum(1).clamp(min=1), self.market.batch.market
        shares = {
            f"options/selection_distribution/{name}": ((option == place) & began).sum(1) / starts
            for place, name in enumerate(self.fleet.options.names)
        }
        return {
            "returns": returns.mean(1),
            "sharpe": sharpe(returns, rules.bars_per_year),
            "entropy": entropy.mean(1),
            "action_mix": action_mix(actions, None, rules.orders.hold_zone),
            "options/average_duration": began.shape[1] / starts,
            "options/success": gained / completed.clamp(min=1),
            **shares,
            **{name: values.mean(0) for name, values in metrics.items()},
        }


def ending_or(step: FleetStep) -> dict[str, torch.Tensor]:
    """What followed a step: the final observation where an episode ended, else what is shown now."""
    ended = step.terminated | step.truncated
    return {
        name: torch.where(ended.view(-1, *[1] * (entry.ndim - 1)), step.finals[name], entry)
        for name, entry in step.observation.items()
    }


@torch.no_grad()
def market_signals(market: FleetMarket, column: int) -> torch.Tensor:
    """(block, bar, 3) what the rules read at every bar; the bars before the first count as standing still."""
    returns = market.tables.windows[:, 0, :, column]  # (block, bar)
    # No environment starts that early (windows would be incomplete); the rows keep places and bars aligned.
    padded = torch.cat([returns.new_zeros(len(returns), HISTORY_BARS - 1), returns], dim=1)
    windows = padded.unfold(1, HISTORY_BARS, 1).flatten(0, 1)  # (block · bar, 20), a view until it is read
    signals = torch.cat([read_market(part) for part in torch.split(windows, BARS_AT_ONCE)])
    return signals.view(*returns.shape, -1)


def check_beginnings(fleet: OptionFleet, market: FleetMarket, signals: torch.Tensor) -> None:
    """Refuse a written option that no training bar lets begin, neither flat nor with a position at its cap."""
    usable = torch.as_tensor(market.batch.bank.usable(market.batch.window_bars, 1), device=signals.device)
    rows = signals[usable]
    cap = market.batch.market.limits.position_cap_fraction
    could = torch.zeros(len(fleet.options), dtype=torch.bool, device=signals.device)
    for weight in (0.0, cap):
        # Of an account only the weight decides where an option may begin.
        held = torch.zeros(len(rows), len(PositionEntry), device=rows.device)
        held[:, PositionEntry.WEIGHT] = weight
        account = Situation.of(rows, held)
        could |= initiation(fleet.options.names, account, fleet.options.rules).any(0)
    for name, is_possible in zip(fleet.options.names, could.tolist(), strict=True):
        if not is_possible:
            raise ConfigError(
                f"the option '{name}' can begin at none of the {len(rows):,} training bars, flat or with a position "
                f"of {cap:g}; change its thresholds in agent.rules, or leave it out of agent.options"
            )
