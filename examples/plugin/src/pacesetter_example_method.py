"""A learning method from outside: REINFORCE for a fleet (Williams 1992), every symbol its own baseline.

A method owns its losses, never the loop: the trainer collects nothing, moves nothing and stores nothing by itself that
is not asked for here. `pacesetter train task=fleet agent=reinforce` finds it by its entry point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.fleet import Fleet
from pacesetter.learning.experience.market import FleetMarket, FleetStep
from pacesetter.learning.experience.rollout import action_mix, by_symbol, sharpe
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.making import make_learner
from pacesetter.learning.fleet.method import Acting, FleetConfig, FleetMethod, Losses
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import MethodSpec, Setup, TaskSupport

__all__ = ["Reinforce", "ReinforceOptions", "reinforce"]

Steps = list[tuple[dict[str, torch.Tensor], torch.Tensor, FleetStep]]


@dataclass(frozen=True)
class ReinforceOptions(FleetConfig):
    """Options: `n_steps` of each environment in a round; the reward of the next bar is all that counts."""

    n_steps: int = 32


class Reinforce(FleetMethod[Fleet, FleetMarket]):
    """−log π(a|s)·(r − mean r of the symbol); it has no critic, so no value is exported."""

    config: ReinforceOptions
    has_state_value = False

    @property
    def round_steps(self) -> int:
        return self.config.n_steps * self.market.envs_each

    @torch.no_grad()
    def collect(self, acting: Acting) -> Steps:
        """Let the policies act in all environments."""
        steps = []
        for _ in range(self.config.n_steps):
            observation = acting.observation
            policy, _ = self.fleet.decide(acting.features(observation), observation.get(ACTION_MASK), self.rows)
            actions = policy.sample()
            steps.append((observation, actions, acting.step_environments(actions)))
        return steps

    def batches(self, experience: Steps, acting: Acting) -> Iterator[Transitions]:
        """All rows of the round at once."""
        observations, actions, steps = zip(*experience, strict=True)
        entries = {name: torch.stack([one[name] for one in observations]) for name in observations[0]}
        rewards = by_symbol(torch.stack([step.rewards for step in steps]), self.symbols)
        gains = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-8)
        yield Transitions(
            self.by_row(rewards.numel()),
            {name: by_symbol(entry, self.symbols).flatten(0, 1) for name, entry in entries.items()},
            by_symbol(torch.stack(actions), self.symbols).flatten(0, 1),
            rewards=rewards.flatten(),
            advantages=gains.flatten(),
        )

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        """The score-function gradient of the mean reward."""
        assert batch.advantages is not None
        policy, _ = self.fleet.decide(features, batch.observation.get(ACTION_MASK), self.rows)
        loss = -self.per_symbol(policy.log_prob(batch.actions) * batch.advantages).mean(1)
        entropy = self.per_symbol(policy.entropy()).mean(1)
        return Losses({"policy": loss}, {"policy_loss": loss.detach(), "entropy": entropy.detach()})

    def round_observations(self, experience: Steps, acting: Acting) -> dict[str, torch.Tensor]:
        """The latest observations are enough for the normaliser."""
        return acting.observation

    def describe(self, experience: Steps, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What a run logs of a round."""
        returns = by_symbol(torch.stack([step.returns for *_, step in experience]), self.symbols)
        actions = by_symbol(torch.stack([actions for _, actions, _ in experience]), self.symbols)
        rules = self.market.batch.market
        return {
            "returns": returns.mean(1),
            "sharpe": sharpe(returns, rules.bars_per_year),
            "action_mix": action_mix(actions, self.market.actions, rules.orders.hold_zone),
            **{name: values.mean(0) for name, values in metrics.items()},
        }


def make(setup: Setup) -> FleetTrainer:
    """The trainer of a configuration."""
    return make_learner(Reinforce, ReinforceOptions, setup)


NETWORK = {"network": "mlp_tiny", "network_options": None, "heads": [32]}
reinforce = MethodSpec(
    "REINFORCE with a baseline",
    (TaskSupport(("fleet",), ("discrete", "continuous", "target"), ReinforceOptions, make, NETWORK),),
)
