"""Learned options: option-critic (Bacon, Harb, Precup 2017) with a deliberation cost (Harb et al. 2018).

Each option is a policy of its own and a probability to end. Read `collect`, `prepare` and `losses`: orders by PPO's
clipped surrogate on `option_advantages`, endings by `termination_loss`, and the selector up Σ_o π(o|s)·Q(s, o) where
it chose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from pacesetter.agents.heads import TanhGaussian
from pacesetter.learning.equations import clipped_surrogate
from pacesetter.learning.experience.rollout import by_symbol
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.method import Acting, Losses
from pacesetter.methods.options.answer import MEMORY, OptionAnswer
from pacesetter.methods.options.equations import arrival_values, option_advantages, termination_loss
from pacesetter.methods.options.method import OptionMethod, OptionStep, ending_or

__all__ = ["OptionCritic"]


class OptionCritic(OptionMethod):
    """Learned options for all symbols of a market at once."""

    def collect(self, acting: Acting) -> list[OptionStep]:
        """Let the options act in all environments."""
        self.kept: list[torch.Tensor] = []
        self.arrivals: list[torch.Tensor] = []
        steps = []
        for _ in range(self.config.n_steps):
            # Before the step: the update evaluates an ending by the option that arrived, which the step replaces.
            self.kept.append(self.memory)
            steps.append(self.step(acting))
            self.arrivals.append(self.arrival(steps[-1], acting))
        return steps

    @torch.no_grad()
    def arrival(self, each: OptionStep, acting: Acting) -> torch.Tensor:
        """(env,) U of what followed a step, with the option that was in force; 0 after a termination."""
        following = ending_or(each.step)
        answer = self.answer(following, acting.features(following), each.played.memory)
        cost = self.config.deliberation_cost
        chances = answer.selector.probabilities
        values = arrival_values(answer.values, chances, answer.ending(), each.played.option, cost)
        return torch.where(each.step.terminated, 0.0, values)

    def batches(self, experience: list[OptionStep], acting: Acting) -> Iterator[Transitions]:
        """Epochs of minibatches, each with as many rows of every symbol."""
        data = self.prepare(experience)
        rows = data["targets"].shape[1]
        for _ in range(self.config.n_epochs):
            for chosen in torch.split(torch.randperm(rows, device=self.device), self.config.batch_size):
                yield self.rows_of(data, chosen)

    @torch.no_grad()
    def prepare(self, steps: list[OptionStep]) -> dict[str, Any]:
        """What the update reads, (symbol, row, …): advantages are standardised within each symbol."""
        config = self.config
        rewards, ended = torch.stack([each.step.rewards for each in steps]), torch.stack([e.ended for e in steps])
        rewards = self.scale(rewards.view(len(steps), self.symbols, -1)).flatten(1)
        option = torch.stack([each.played.option for each in steps])
        # Values of the answers as they were played: those of the weights that collected.
        values = torch.stack([each.answer.values for each in steps]).gather(-1, option[..., None]).squeeze(-1)
        began = torch.stack([each.played.began for each in steps])
        advantages = option_advantages(
            rewards,
            values,
            torch.stack(self.arrivals),
            began,
            ended,
            config.gamma,
            config.gae_lambda,
            config.deliberation_cost,
        )
        orders = torch.stack([each.played.orders for each in steps])
        log_probs = torch.stack([order_policy(e.answer, e.played.option).log_prob(e.played.orders) for e in steps])
        gains = by_symbol(advantages, self.symbols)
        observations = {name: torch.stack([each.observation[name] for each in steps]) for name in steps[0].observation}
        observations[MEMORY] = torch.stack(self.kept)
        return {
            "observation": {name: by_symbol(entry, self.symbols) for name, entry in observations.items()},
            "actions": by_symbol(torch.cat([orders, option[..., None], began[..., None]], dim=-1), self.symbols),
            "log_probs": by_symbol(log_probs, self.symbols),
            "targets": by_symbol(advantages + values, self.symbols),
            "advantages": (gains - gains.mean(1, keepdim=True)) / (gains.std(1, keepdim=True) + 1e-8),
        }

    def rows_of(self, data: Mapping[str, Any], rows: torch.Tensor) -> Transitions:
        """A minibatch; its actions are the order, the option that gave it, and whether that began here."""
        flat = {name: entry[:, rows].flatten(0, 1) for name, entry in data["observation"].items()}
        parts = ("actions", "log_probs", "targets", "advantages")
        return Transitions(
            self.by_row(self.symbols * len(rows)), flat, **{name: data[name][:, rows].flatten(0, 1) for name in parts}
        )

    # ---- learning -------------------------------------------------------------------------------------------------

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        """Orders, values, selector and endings; see the head of this file."""
        assert batch.targets is not None
        assert batch.advantages is not None
        assert batch.log_probs is not None
        config, shaped = self.config, self.per_symbol
        order, option, began = batch.actions[:, :1], batch.actions[:, 1].long(), batch.actions[:, 2]
        answer = self.answer(batch.observation, features, batch.observation[MEMORY])
        policy = order_policy(answer, option)
        ratio = policy.log_prob(order) - batch.log_probs
        policy_loss = -shaped(clipped_surrogate(ratio, batch.advantages, config.clip_range)).mean(1)
        own = answer.values.gather(-1, option[:, None]).squeeze(-1)
        value_loss = shaped((own - batch.targets).square()).mean(1)
        chances = answer.selector.probabilities
        # Only where a choice was made; values are held fixed, or the selector could gain by inflating them.
        gained = shaped(began * (chances * answer.values.detach()).sum(-1)).mean(1)
        entropy = shaped(policy.entropy() + began * answer.selector.entropy()).mean(1)
        ending_loss = shaped(self._ending_loss(answer, chances)).mean(1)
        terms = {
            "policy": policy_loss,
            "value": config.vf_coef * value_loss,
            "selector": -gained,
            "ending": ending_loss,
            "entropy": -config.ent_coef * entropy,
        }
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "ending_loss": ending_loss}
        return Losses(terms, {name: part.detach() for name, part in metrics.items()})

    def _ending_loss(self, answer: OptionAnswer, chances: torch.Tensor) -> torch.Tensor:
        """(row,) of the option that arrived; none where there was none, or its time was up anyway."""
        arrived = answer.before.option
        counts = (arrived >= 0) & (answer.before.steps < self.fleet.options.timeout)
        cost, option = self.config.deliberation_cost, arrived.clamp(min=0)
        loss = termination_loss(answer.ending(), answer.values, chances, option, cost)
        return torch.where(counts, loss, 0.0)

    def round_observations(self, experience: list[OptionStep], acting: Acting) -> dict[str, torch.Tensor]:
        return acting.observation


def order_policy(answer: OptionAnswer, option: torch.Tensor) -> TanhGaussian:
    """The orders of an option (row,) at an answer."""
    return TanhGaussian(*answer.order_of(option, answer.before.steps))
