"""How a fleet does on bars it did not learn from: every symbol played once, from its first bar to its last."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pacesetter.agents.fleet import Fleet
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.rollout import action_mix
from pacesetter.learning.fleet.encoding import make_look
from pacesetter.rewards.sharpe import sharpe_of_known

__all__ = ["FleetPlay", "play"]


@dataclass(frozen=True, eq=False)
class FleetPlay:
    """One episode of every symbol, on the CPU.

    starts    (symbol,) bar at whose close the first order was given; the first return is of the bar after it
    returns   (symbol, bar) of equity; NaN after the end of a symbol's episode, as in all that follow
    costs     (symbol, bar) share of equity         rewards   (symbol, bar)
    entropy   (symbol, bar) of the policy, in nats  trades    (symbol, bar) 1 where an order was filled
    mix       (symbol, action) shares of the actions, as in `action_mix`
    objectives   (symbol, k) components of the reward, means over the episode
    """

    symbols: tuple[str, ...]
    starts: torch.Tensor
    returns: torch.Tensor
    costs: torch.Tensor
    rewards: torch.Tensor
    entropy: torch.Tensor
    trades: torch.Tensor
    mix: torch.Tensor
    bars_per_year: float
    objectives: torch.Tensor | None = None

    @property
    def sharpe(self) -> torch.Tensor:
        """(symbol,) annualised; 0 where returns never vary."""
        return self._sharpe(self.returns)

    @property
    def gross_sharpe(self) -> torch.Tensor:
        """The same before costs."""
        return self._sharpe(self.returns + self.costs)

    @property
    def sharpe_together(self) -> float:
        """That of all agents in equal parts."""
        return float(self._sharpe(self.returns.nanmean(0)[None]))

    def _sharpe(self, returns: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(sharpe_of_known(returns.double().numpy().T, self.bars_per_year)).float()

    def align_returns(self, bars: int) -> torch.Tensor:
        """(bar, symbol) returns at the bars of the market, of which it has `bars`; NaN where a symbol did not play."""
        returns = torch.full((bars, len(self.symbols)), torch.nan)
        for column, start in enumerate(self.starts.tolist()):
            last = min(self.returns.shape[1], bars - start - 1)
            # + 1: the first return is of the bar after the one at whose close the first order was given.
            returns[start + 1 : start + 1 + last, column] = self.returns[column, :last]
        return returns

    @property
    def growth(self) -> torch.Tensor:
        """(symbol,) equity at the end / at the start − 1."""
        return self.returns.nan_to_num().add(1).prod(1) - 1

    @property
    def drawdown(self) -> torch.Tensor:
        """(symbol,) largest fall of equity from its highest, as a share of it."""
        equity = self.returns.nan_to_num().add(1).cumprod(1)
        # The start counts as a high: a fall from the first bar on is a drawdown too.
        highest = equity.cummax(1).values.clamp(min=1.0)
        return (1 - equity / highest).amax(1)


@torch.no_grad()
def play(fleet: Fleet, market: SymbolMarket, deterministic: bool = True) -> FleetPlay:
    """Let each agent trade until its first episode ends; refuses a market with random starts or many environments."""
    if not market.is_fixed or market.envs_each != 1:
        raise ConfigError("a fleet is validated in one environment per symbol with fixed starts; build the market so")
    rows = torch.tensor(fleet.places(market.symbols), device=market.device)
    observation, starts = market.reset(), market.waiting[:, 1].cpu()
    results, parts, actions, look = [], [], [], make_look(fleet, market)
    kept = fleet.no_memory(market.env_count)
    is_over = torch.zeros(market.env_count, dtype=torch.bool, device=market.device)
    while not bool(is_over.all()):
        policy, _ = fleet.evaluate({**look(observation), **kept}, rows)
        actions.append(policy.mode() if deterministic else policy.sample())
        kept = fleet.memory_after(policy)
        step = market.step(actions[-1])
        entries = (step.returns, step.costs, step.rewards, policy.entropy(), step.trades.float())
        # Environments restart by themselves; rows behind a symbol's first end are of an episode that does not count.
        results.append(torch.where(is_over[:, None], torch.nan, torch.stack(entries, dim=1)))
        parts.append(torch.where(is_over[:, None], torch.nan, step.objectives))
        is_over = is_over | step.terminated | step.truncated
        observation = step.observation
    rules = market.batch.market
    mix = action_mix(torch.stack(actions, dim=1), market.actions, rules.orders.hold_zone).cpu()
    returns, costs, rewards, entropy, trades = torch.stack(results, dim=1).cpu().unbind(2)
    objectives = torch.stack(parts).nanmean(0).cpu()
    played = (returns, costs, rewards, entropy, trades, mix)
    return FleetPlay(market.symbols, starts, *played, rules.bars_per_year, objectives)
