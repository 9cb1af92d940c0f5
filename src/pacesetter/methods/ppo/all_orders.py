"""Single-agent PPO with all-action advantages: averaged over orders instead of sampled.

The kernel says what every discrete order would earn and which account it would leave (`Batch.counterfactual`), so the
policy gradient is a mean over the seven orders. The equations are those of the fleet, in `learning.equations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.arrays import Array
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.counterfactual import Counterfactual
from pacesetter.learning.equations import clipped_surrogate, expected_advantages, expected_surrogate
from pacesetter.learning.sb3.adapter import VectorAdapter
from pacesetter.learning.sb3.own import OwnAlgorithm, Steps
from pacesetter.methods.ppo.options import PPOOptions

__all__ = ["AllOrdersOptions", "AllOrdersPPO"]

Observations = dict[str, torch.Tensor]


@dataclass(frozen=True)
class AllOrdersOptions(PPOOptions):
    """Those of PPO; `normalize_advantage` brings advantages to a size of 1 over a round."""

    normalize_advantage: bool = True


class Considered(NamedTuple):
    """A round as rows (step · env, …): old log-probabilities and advantages of all orders, and what was done."""

    log_probs: torch.Tensor
    advantages: torch.Tensor
    remainders: torch.Tensor
    actions: torch.Tensor
    targets: torch.Tensor


class AllOrdersPPO(OwnAlgorithm):
    """PPO whose advantages are those of every order; its environment is a `VectorAdapter` of discrete orders."""

    options_kind = AllOrdersOptions
    options: AllOrdersOptions
    steps: Steps
    considered: Considered

    def collect(self, callback: BaseCallback) -> bool:
        """Let the policy act, and judge what every other order would have come to."""
        env = self.env
        assert isinstance(env, VectorAdapter)
        tried: list[Counterfactual] = []
        env.tried = tried
        steps = self.play(callback)
        env.tried = None
        if steps is None:
            return False
        self.steps, self.considered = steps, self._consider(env.trading, steps, tried)
        return True

    @torch.no_grad()
    def _consider(self, batch: Batch, steps: Steps, tried: list[Counterfactual]) -> Considered:
        judged = [self._evaluate_orders(batch, steps, one, t) for t, one in enumerate(tried)]
        log_probs, action_values = (torch.stack(parts) for parts in zip(*judged, strict=True))  # (step, env, order)
        decay, probabilities = self.gamma * self.options.gae_lambda, log_probs.exp()
        nothing = torch.zeros_like(steps.values)
        advantages = expected_advantages(action_values, probabilities, steps.values, nothing, steps.ended, decay)
        scale = 1.0
        if self.options.normalize_advantage:
            # Mean 0 under the policy already: only the size is standardised, over orders and rows.
            scale = float((probabilities * advantages.advantages**2).sum(-1).mean().sqrt()) + 1e-8
        rows = (log_probs, advantages.advantages / scale, advantages.remainders / scale, steps.actions)
        return Considered(*(part.flatten(0, 1) for part in (*rows, advantages.targets)))

    def _evaluate_orders(
        self, batch: Batch, steps: Steps, tried: Counterfactual, t: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(env, order) log-probabilities of what was seen at step t of the round, and Q(x, a) = r_a + γ·V(x'_a)."""
        observation = {name: entry[t] for name, entry in steps.observation.items()}
        categorical = self.policy.get_distribution(observation).distribution
        assert isinstance(categorical, torch.distributions.Categorical)
        following = {name: self._tensor(entry) for name, entry in _following_rows(batch, tried).items()}
        values = self.policy.predict_values(following).view(tried.rewards.shape)
        values = torch.where(self._tensor(tried.terminated), 0.0, self.gamma * values)
        return categorical.logits, self._tensor(tried.rewards).float() + values

    def _tensor(self, values: object) -> torch.Tensor:
        return torch.as_tensor(values, device=self.device)

    # ---- learning -------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Update the policy by the latest round, as PPO does, with the mean of its surrogate over orders."""
        flat = self.steps.rows().observation
        logged: list[dict[str, float]] = []
        for _ in range(self.options.n_epochs):
            batches = self.minibatches(len(self.considered.targets), self.options.batch_size)
            is_far = not all(self._update(flat, rows, logged) for rows in batches)
            self._n_updates += 1
            if is_far:
                break
        for name in logged[0]:
            self.logger.record(f"train/{name}", float(np.mean([entry[name] for entry in logged])))
        values, targets = self.steps.values.flatten().cpu().numpy(), self.considered.targets.cpu().numpy()
        self.logger.record("train/explained_variance", explained_variance(values, targets))

    def _update(self, flat: Observations, rows: torch.Tensor, logged: list[dict[str, float]]) -> bool:
        """One step on these rows; False where the policy has moved too far for it."""
        options = self.options
        old, advantages, remainders, actions, targets = (part[rows] for part in self.considered)
        distribution, values = self._decide({name: entry[rows] for name, entry in flat.items()})
        new, clip = distribution.logits, options.clip_range
        sent = (new - old).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        surrogate = expected_surrogate(new, old, advantages, clip) + clipped_surrogate(sent, remainders, clip)
        policy_loss, value_loss = -surrogate.mean(), F.mse_loss(targets, values)
        entropy_loss = -distribution.entropy().mean()
        loss = policy_loss + options.ent_coef * entropy_loss + options.vf_coef * value_loss
        divergence = float((old.exp() * (old - new.detach())).sum(-1).mean())
        figures = {"policy_gradient_loss": policy_loss, "value_loss": value_loss, "entropy_loss": entropy_loss}
        logged.append({name: value.item() for name, value in figures.items()})
        logged[-1] |= {"loss": loss.item(), "approx_kl": divergence}
        # Before the step, as in SB3's PPO; the divergence is exact, being a sum over all orders.
        if options.target_kl is not None and divergence > 1.5 * options.target_kl:
            return False
        self.descend(loss)
        return True

    def _decide(self, observations: Observations) -> tuple[Any, torch.Tensor]:
        """The categorical of the seven orders and the values (row,), with one pass of the encoder."""
        for_actor, for_critic = self.policy.mlp_extractor(self.policy.extract_features(observations))
        categorical = self.policy._get_action_dist_from_latent(for_actor).distribution
        return categorical, self.policy.value_net(for_critic).flatten()


def _following_rows(batch: Batch, tried: Counterfactual) -> dict[str, Array]:
    """What would be seen after each order, rows (env · order, …)."""
    _, orders, size = tried.vectors.shape
    vectors, places = tried.vectors.reshape(-1, size), np.repeat(tried.places, orders, axis=0)
    if not batch.has_windows:
        return batch.builder.arrange(vectors, places, None, None)
    rows = [batch.builder.build(block, t, vector) for (block, t), vector in zip(places, vectors, strict=True)]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
