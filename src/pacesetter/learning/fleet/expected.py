"""Fleet PPO with all-action advantages: the policy gradient is a mean over orders, not a sample of one.

The kernel says what every order would earn and which account it would leave, so Q(x, a) = r_a + γ·V(x'_a) is known for
all seven. Read `consider` and `advantages`; all else is PPO's. Why it is the mean of PPO's own gradient is in
`learning.equations.expected_surrogate`.
"""

from __future__ import annotations

import torch

from pacesetter.agents.heads import Distribution, MaskedCategorical
from pacesetter.envs.batch.counterfactual import check_counterfactual
from pacesetter.learning.equations import clipped_surrogate, expected_advantages, expected_surrogate
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.rollout import Rollout, by_symbol
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.method import Acting, AgentsT
from pacesetter.learning.fleet.ppo import PPO, FleetPPO

__all__ = ["ExpectedPPO"]

LOWEST = -1e4  # of a log-probability: a masked order's is the lowest number there is, and its differences overflow


class ExpectedPPO(PPO[AgentsT, SymbolMarket]):
    """PPO of a fleet whose advantages are those of every order; refuses a market whose orders cannot all be tried."""

    is_recordable = False  # trying orders makes new memory in each step
    learned = (*PPO.learned, "remainders")

    def __init__(self, fleet: AgentsT, market: SymbolMarket, config: FleetPPO) -> None:
        check_counterfactual(market.batch)
        super().__init__(fleet, market, config)
        self.considered: list[tuple[torch.Tensor, ...]] = []  # of the round: policy, rewards and values of all orders

    def collect(self, acting: Acting) -> Rollout:
        """Let the policies act, and remember what every other order would have come to."""
        self.considered = []
        return super().collect(acting)

    def consider(self, policy: Distribution, acting: Acting) -> None:
        """Try all orders where the environments stand: (env, order) log-probabilities, rewards and next values."""
        assert isinstance(policy, MaskedCategorical)
        rewards, terminated, following = self.market.counterfactual()
        values = torch.zeros_like(rewards)
        if self.config.gamma:
            # rows of a symbol lie side by side, orders of an environment within them: as the stacked heads want them
            values = self.config.gamma * self.fleet.value(acting.features(following), self.rows).view_as(rewards)
        values = torch.where(terminated, 0.0, values)
        self.considered.append((policy.log_probabilities.clamp(min=LOWEST), rewards, values))

    def advantages(
        self, rollout: Rollout, rewards: torch.Tensor, following: torch.Tensor, ended: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Those of every order, in deviations over orders and rows of each symbol, and the rest by the path taken."""
        # (step, env, order) each.
        log_probs, tried, values = (torch.stack(parts) for parts in zip(*self.considered, strict=True))
        # Rewards of orders that were not sent are scaled, not counted: the scale is of returns that happened.
        scaled = self.scale(tried.view(len(tried), self.symbols, -1)).view_as(tried)
        sent = scaled.gather(-1, rollout.actions.unsqueeze(-1)).squeeze(-1)
        result = expected_advantages(
            scaled + values,
            log_probs.exp(),
            rollout.values,
            rewards - sent,  # what an extra adds is known of the order sent alone
            ended,
            self.config.gamma * self.config.gae_lambda,
        )
        advantages, weights = by_symbol(result.advantages, self.symbols), by_symbol(log_probs.exp(), self.symbols)
        # Under the policy the advantages have mean 0 in every state: only their size is left to be standardised.
        deviation = (weights * advantages**2).sum(-1).mean(1).sqrt() + 1e-8
        return {
            "log_probs": by_symbol(log_probs, self.symbols),
            "advantages": advantages / deviation[:, None, None],
            "remainders": by_symbol(result.remainders, self.symbols) / deviation[:, None],
            "targets": by_symbol(result.targets, self.symbols),
        }

    def surrogate(self, batch: Transitions, policy: Distribution) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean of PPO's surrogate over orders, the sampled rest of it, and the exact divergence."""
        assert isinstance(policy, MaskedCategorical)
        assert batch.log_probs is not None
        assert batch.advantages is not None
        assert batch.remainders is not None
        clip, old, new = self.config.clip_range, batch.log_probs, policy.log_probabilities.clamp(min=LOWEST)
        sent = (new - old).gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
        surrogate = expected_surrogate(new, old, batch.advantages, clip)
        return surrogate + clipped_surrogate(sent, batch.remainders, clip), (old.exp() * (old - new)).sum(-1)
