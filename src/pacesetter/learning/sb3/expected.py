"""Single-agent PPO with all-action advantages: Stable-Baselines3's PPO, averaged over orders instead of sampled.

The kernel says what every discrete order would earn and which account it would leave (`Batch.counterfactual`), so the
policy gradient is a mean over the seven orders. The equations are those of the fleet, in `learning.equations`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.arrays import Array
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.counterfactual import Counterfactual
from pacesetter.learning.equations import clipped_surrogate, expected_advantages, expected_surrogate
from pacesetter.learning.sb3.adapter import VectorAdapter

__all__ = ["AllOrdersPPO"]

Observations = dict[str, torch.Tensor]


class Considered(NamedTuple):
    """A round as rows (step · env, …): old log-probabilities and advantages of all orders, and what was done."""

    log_probs: torch.Tensor
    advantages: torch.Tensor
    remainders: torch.Tensor
    actions: torch.Tensor
    targets: torch.Tensor


class AllOrdersPPO(PPO):
    """PPO whose advantages are those of every order; its environment is a `VectorAdapter` of discrete orders."""

    considered: Considered

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Let the policy act, and judge what every other order would have come to."""
        assert isinstance(env, VectorAdapter)
        env.tried = []
        is_whole = super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        if is_whole:
            self.considered = self._consider(env.trading, env.tried)
        env.tried = None
        return is_whole

    @torch.no_grad()
    def _consider(self, batch: Batch, tried: list[Counterfactual]) -> Considered:
        buffer = self._buffer
        steps = [self._evaluate_orders(batch, one, t) for t, one in enumerate(tried)]
        log_probs, action_values = (torch.stack(parts) for parts in zip(*steps, strict=True))  # (step, env, order)
        # SB3 stores where episodes start; shifted by one step it says where they ended.
        starts = np.concatenate([buffer.episode_starts[1:], np.asarray(self._last_episode_starts)[None]])
        values, ended = self._tensor(buffer.values), self._tensor(starts) > 0
        decay, probabilities = self.gamma * self.gae_lambda, log_probs.exp()
        advantages = expected_advantages(action_values, probabilities, values, torch.zeros_like(values), ended, decay)
        # For SB3's explained variance, which reads the buffer.
        buffer.returns[:] = advantages.targets.cpu().numpy()
        scale = 1.0
        if self.normalize_advantage:
            # Mean 0 under the policy already: only the size is standardised, over orders and rows.
            scale = float((probabilities * advantages.advantages**2).sum(-1).mean().sqrt()) + 1e-8
        actions = self._tensor(buffer.actions).long().squeeze(-1)
        rows = (log_probs, advantages.advantages / scale, advantages.remainders / scale, actions, advantages.targets)
        return Considered(*(part.flatten(0, 1) for part in rows))

    def _evaluate_orders(self, batch: Batch, tried: Counterfactual, t: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(env, order) log-probabilities of what was seen at step t of the round, and Q(x, a) = r_a + γ·V(x'_a)."""
        buffer = self._buffer
        observation = {name: self._tensor(entry[t]) for name, entry in buffer.observations.items()}
        categorical = self.policy.get_distribution(observation).distribution
        assert isinstance(categorical, torch.distributions.Categorical)
        following = {name: self._tensor(entry) for name, entry in _following_rows(batch, tried).items()}
        values = self.policy.predict_values(following).view(tried.rewards.shape)
        values = torch.where(self._tensor(tried.terminated), 0.0, self.gamma * values)
        return categorical.logits, self._tensor(tried.rewards).float() + values

    @property
    def _buffer(self) -> DictRolloutBuffer:
        assert isinstance(self.rollout_buffer, DictRolloutBuffer)
        return self.rollout_buffer

    def _tensor(self, values: object) -> torch.Tensor:
        return torch.as_tensor(values, device=self.device)

    # ---- learning -------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Update the policy by the latest round, as PPO does, with the mean of its surrogate over orders."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        buffer = self._buffer
        flat = {name: self._tensor(entry).flatten(0, 1) for name, entry in buffer.observations.items()}
        logged: list[dict[str, float]] = []
        for _ in range(self.n_epochs):
            order = torch.randperm(len(self.considered.targets)).to(self.device)
            is_far = not all(self._update(flat, rows, logged) for rows in torch.split(order, self.batch_size))
            self._n_updates += 1
            if is_far:
                break
        for name in logged[0]:
            self.logger.record(f"train/{name}", float(np.mean([entry[name] for entry in logged])))
        self.logger.record(
            "train/explained_variance", explained_variance(buffer.values.ravel(), buffer.returns.ravel())
        )
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _update(self, flat: Observations, rows: torch.Tensor, logged: list[dict[str, float]]) -> bool:
        """One step on these rows; False where the policy has moved too far for it."""
        old, advantages, remainders, actions, targets = (part[rows] for part in self.considered)
        distribution, values = self._decide({name: entry[rows] for name, entry in flat.items()})
        new, clip = distribution.logits, self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        sent = (new - old).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        surrogate = expected_surrogate(new, old, advantages, clip) + clipped_surrogate(sent, remainders, clip)
        policy_loss, value_loss = -surrogate.mean(), F.mse_loss(targets, values)
        entropy: torch.Tensor = distribution.entropy()  # type: ignore[no-untyped-call]
        entropy_loss = -entropy.mean()
        loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
        divergence = float((old.exp() * (old - new.detach())).sum(-1).mean())
        figures = {"policy_gradient_loss": policy_loss, "value_loss": value_loss, "entropy_loss": entropy_loss}
        logged.append({name: value.item() for name, value in figures.items()})
        logged[-1] |= {"loss": loss.item(), "approx_kl": divergence}
        # Before the step, as in SB3's PPO; the divergence is exact, being a sum over all orders.
        if self.target_kl is not None and divergence > 1.5 * self.target_kl:
            return False
        self.policy.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
        self.policy.optimizer.step()
        return True

    def _decide(self, observations: Observations) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        """The categorical of the seven orders and the values (row,), with one pass of the encoder."""
        policy = self.policy
        for_actor, for_critic = policy.mlp_extractor(policy.extract_features(observations))
        categorical = policy._get_action_dist_from_latent(for_actor).distribution
        assert isinstance(categorical, torch.distributions.Categorical)
        return categorical, policy.value_net(for_critic).flatten()


def _following_rows(batch: Batch, tried: Counterfactual) -> dict[str, Array]:
    """What would be seen after each order, rows (env · order, …)."""
    _, orders, size = tried.vectors.shape
    vectors, places = tried.vectors.reshape(-1, size), np.repeat(tried.places, orders, axis=0)
    if not batch.has_windows:
        return batch.builder.arrange(vectors, places, None, None)  # type: ignore[arg-type]
    rows = [batch.builder.build(block, t, vector) for (block, t), vector in zip(places, vectors, strict=True)]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
