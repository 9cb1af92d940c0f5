"""Extras of a single agent: rewards that curiosity or a potential change, around Stable-Baselines3 algorithms.

Rewards of a rollout are changed where they are collected, and the models learn when it ends. Off-policy algorithms
change curiosity's part when rows are drawn from the replay, so that it is that of the model as it is now; a potential's
part belongs to the moment of collection and is stored with the row.

States are the features of the policy's own encoder, taken as given. Market rewards are measured in their own running
deviation, in which intrinsic ones are, and given back in the market's unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import DictReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize
from torch import nn

from pacesetter.arrays import Array
from pacesetter.envs.batch.batch import batch_of
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import Extra, Surroundings, make_extras, rewards_of_draw
from pacesetter.learning.sb3.own import AnyAlgorithm, OwnAlgorithm

if TYPE_CHECKING:
    from pacesetter.learning.sb3.adapter import VectorAdapter
    from pacesetter.learning.sb3.algorithms import EncoderExtractor

__all__ = ["ExtraReplay", "ExtrasCallback", "SingleExtras", "surroundings_of"]

Shown = Mapping[str, Array]
ROWS = 1_024  # of a step of an extra that trains itself


class RewardDeviation(nn.Module):
    """Running deviation of rewards, of all of them alike."""

    count: torch.Tensor
    square: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("count", "square"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def observe(self, rewards: torch.Tensor) -> None:
        """Count (env,) rewards."""
        self.count.add_(len(rewards))
        # A running mean of squares, around 0 and not around the mean: rewards are scaled, never shifted.
        self.square.add_((rewards.double().square().sum() - len(rewards) * self.square) / self.count)

    @property
    def value(self) -> float:
        # Before the first trade all rewards are 0.
        return max(float(self.square.sqrt()), 1e-8)


class SingleExtras:
    """The extras of one algorithm; `own` and what each declares is stored with a checkpoint."""

    def __init__(self, asked: Mapping[str, object], algorithm: AnyAlgorithm, around: Surroundings) -> None:
        self.algorithm = algorithm
        self.parts: dict[str, Extra] = make_extras(asked, around)
        for name, extra in self.parts.items():
            if extra.optimiser is None:
                raise ConfigError(f"agent.extras.{name} is for fleets only; take task=fleet, or leave it out")
            extra.own.to(algorithm.device)
        self.is_replayed = isinstance(algorithm, OffPolicyAlgorithm)
        self.deviation = RewardDeviation()
        self.rows: list[tuple[Transitions, torch.Tensor, torch.Tensor]] = []

    # ---- while collecting -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def shape_rewards(
        self, before: Shown, actions: Array, rewards: Array, after: Shown, terminated: Array, has_ended: Array
    ) -> Array:
        """(env,) rewards as the algorithm is to see them; `after` is the last observation where an episode ended."""
        given = torch.as_tensor(np.asarray(rewards, dtype=np.float32))
        self.deviation.observe(given)
        deviation, changed = self.deviation.value, given
        features, following = self._features(before), self._features(after)
        for extra in self._at_collection():
            size = 1.0 if extra.is_in_money else deviation
            batch = self._rows(actions, changed / size, terminated, before)
            batch = replace(batch, following=self._tensors(after), follows=~batch_tensor(has_ended, self.algorithm))
            shaped = extra.reward(batch, features, following, int(self.algorithm.num_timesteps))
            if not self.is_replayed:
                self.rows.append((batch, features, following))
            # Back to the market's unit: SB3 and its logs know nothing of the scaling.
            changed = changed if shaped is None else shaped.cpu() * size
        return np.asarray(changed.numpy(), dtype=np.float32)

    def _at_collection(self) -> list[Extra]:
        return [extra for extra in self.parts.values() if not self.is_replayed or not _is_drawn(extra)]

    def learn(self) -> None:
        """One pass of the models over the rows of a rollout, in an order drawn again."""
        # Taken before anything can fail: rows of one rollout are never learned from twice.
        rows, self.rows = self.rows, []
        if not rows:
            return
        for extra in self._at_collection():
            batches, before, after = zip(*rows, strict=True)
            features, following = torch.cat(before), torch.cat(after)
            actions = torch.cat([batch.actions for batch in batches])
            rewards = torch.cat([batch.rewards for batch in batches if batch.rewards is not None])
            ends = torch.cat([batch.terminated for batch in batches if batch.terminated is not None])
            symbol = torch.zeros(len(features), dtype=torch.long, device=features.device)
            whole = Transitions(symbol, {}, actions, rewards=rewards, terminated=ends)
            for part in torch.split(torch.randperm(len(features)), ROWS):
                extra.learn(whole.at(part), features[part], following[part])

    # ---- while replaying ------------------------------------------------------------------------------------------

    @torch.no_grad()
    def reward_samples(self, samples: DictReplayBufferSamples) -> DictReplayBufferSamples:
        """Samples of a replay with the rewards that extras make of them now; their models learn from the same rows."""
        rewards, size = samples.rewards.squeeze(1), self.deviation.value  # (row,)
        features, following = self._features(samples.observations), self._features(samples.next_observations)
        for extra in self.parts.values():
            if _is_drawn(extra):
                symbol = torch.zeros(len(rewards), dtype=torch.long, device=rewards.device)
                batch = Transitions(symbol, {}, samples.actions, rewards=rewards / size)
                shaped = rewards_of_draw(extra, batch, features, following, int(self.algorithm.num_timesteps))
                rewards = rewards if shaped is None else shaped * size
        return samples._replace(rewards=rewards[:, None])

    # ---- both -----------------------------------------------------------------------------------------------------

    def _features(self, observation: Mapping[str, Array | torch.Tensor]) -> torch.Tensor:
        from pacesetter.learning.sb3.algorithms import first_extractor

        extractor = first_extractor(self.algorithm)
        tensors = {name: torch.as_tensor(entry, device=self.algorithm.device) for name, entry in observation.items()}
        features: torch.Tensor = extractor(tensors)
        # As given: the extras' losses must not reach the policy's encoder.
        return features.detach()

    def _rows(self, actions: Array, rewards: torch.Tensor, terminated: Array, before: Shown) -> Transitions:
        device = self.algorithm.device
        taken = torch.as_tensor(np.asarray(actions), device=device)
        symbol = torch.zeros(len(rewards), dtype=torch.long, device=device)
        ends = torch.as_tensor(terminated, device=device)
        return Transitions(symbol, self._tensors(before), taken, rewards=rewards.to(device), terminated=ends)

    def _tensors(self, observation: Shown) -> dict[str, torch.Tensor]:
        return {name: batch_tensor(entry, self.algorithm) for name, entry in observation.items()}

    def figures_to_log(self) -> dict[str, float]:
        """What extras say of their latest update."""
        parts = [extra.figures_to_log() for extra in self.parts.values()]
        return {name: float(value.mean()) for part in parts for name, value in part.items()}

    def state_dict(self) -> dict[str, object]:
        """All that a resume needs, between rollouts."""
        from pacesetter.learning.fleet.resume import capture

        own = {name: {"own": part.own.state_dict()} | capture(part, part.declared) for name, part in self.parts.items()}
        return {"parts": own, "deviation": self.deviation.state_dict()}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        from pacesetter.learning.fleet.resume import restore

        for name, part in self.parts.items():
            part.own.load_state_dict(stored["parts"][name]["own"])
            restore(part, part.declared, stored["parts"][name], self.algorithm.device)
        self.deviation.load_state_dict(stored["deviation"])


class ExtraReplay(DictReplayBuffer):
    """A replay whose rewards pass through `extras` when they are drawn."""

    extras: SingleExtras | None = None

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        samples = super().sample(batch_size, env)
        return samples if self.extras is None else self.extras.reward_samples(samples)


class ExtrasCallback(BaseCallback):
    """Lets the models of extras learn when a rollout ends."""

    def __init__(self, extras: SingleExtras) -> None:
        super().__init__()
        self.extras = extras

    def _on_rollout_end(self) -> None:
        self.extras.learn()

    def _on_step(self) -> bool:
        return True


def _is_drawn(extra: Extra) -> bool:
    """Whether the extra's reward is that of its model as it is when a row is drawn, and not when it was collected."""
    return not extra.belongs_to_collection


def batch_tensor(values: Array, algorithm: AnyAlgorithm) -> torch.Tensor:
    """An array (env, …) on the algorithm's device."""
    return torch.as_tensor(np.asarray(values), device=algorithm.device)


def surroundings_of(algorithm: AnyAlgorithm, env: VectorAdapter, extractor: EncoderExtractor) -> Surroundings:
    """What extras of one agent are made for; refuses a choice for each of several symbols."""
    space = algorithm.action_space
    if isinstance(space, spaces.MultiDiscrete):
        raise ConfigError("agent.extras need one action; take task.action=target or continuous for a portfolio")
    assert isinstance(algorithm, (OnPolicyAlgorithm, OffPolicyAlgorithm, OwnAlgorithm))
    return Surroundings(
        extractor.encoder.width,
        int(space.n) if isinstance(space, spaces.Discrete) else None,
        1 if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or ())),
        env_count=env.num_envs,
        gamma=algorithm.gamma,
        batch=batch_of(env.env),
        complete=extractor.complete,
        device=algorithm.device,
    )
