"""Algorithms of our own around a policy of Stable-Baselines3: its networks, and neither its loop nor its storage.

A family writes what a round is (`collect`) and what is learned from it (`update`). The options are a dataclass, where
each default stands once. What a learner, a checkpoint or an agent reads of any algorithm is named as it is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.utils import ConstantSchedule, get_device, set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

from pacesetter.arrays import Array
from pacesetter.learning.methods import NetworkOptions

__all__ = ["AnyAlgorithm", "OwnAlgorithm", "Steps"]

LATEST_EPISODES = 100  # whose mean reward is shown


class Steps(NamedTuple):
    """What a policy met in a round, (step, env, …): what it saw, did and expected, and what came of it."""

    observation: dict[str, torch.Tensor]
    actions: torch.Tensor
    values: torch.Tensor
    rewards: torch.Tensor
    ended: torch.Tensor

    def rows(self) -> Steps:
        """The same as rows (step · env, …)."""
        flat = {name: entry.flatten(0, 1) for name, entry in self.observation.items()}
        return Steps(flat, *(part.flatten(0, 1) for part in self[1:]))

    def at(self, rows: torch.Tensor) -> Steps:
        """Some rows of them."""
        return Steps(
            {name: entry[rows] for name, entry in self.observation.items()}, *(part[rows] for part in self[1:])
        )


class OwnAlgorithm(ABC):
    """An actor and critic that learn by rounds.

    options_kind   frozen dataclass of the keys of `agent`; those of `NetworkOptions` shape the policy
    policy_kind    networks
    """

    options_kind: ClassVar[type[NetworkOptions]]
    policy_kind: ClassVar[type[MultiInputActorCriticPolicy]] = MultiInputActorCriticPolicy
    _stats_window_size = LATEST_EPISODES

    policy: MultiInputActorCriticPolicy

    def __init__(
        self,
        env: gymnasium.Env[Any, Any] | VecEnv,
        options: Any,
        seed: int = 0,
        device: str = "cpu",
        **policy_options: Any,
    ) -> None:
        self.env = env if isinstance(env, VecEnv) else DummyVecEnv([lambda: Monitor(env)])
        self.options, self.seed, self.device = options, seed, get_device(device)
        self.observation_space, self.action_space = self.env.observation_space, self.env.action_space
        self.num_timesteps = self._n_updates = 0
        self._last_obs: Mapping[str, Array] | None = None
        self._last_episode_starts: Array | None = None
        self.ep_info_buffer: deque[dict[str, Any]] = deque(maxlen=LATEST_EPISODES)
        set_random_seed(seed, using_cuda=self.device.type == "cuda")
        self.action_space.seed(seed)
        self.env.seed(seed)
        self.set_logger(Logger(None, []))
        self.policy = self.make_policy(policy_options).to(self.device)

    def make_policy(self, options: dict[str, Any]) -> MultiInputActorCriticPolicy:
        """The networks, untrained."""
        assert isinstance(self.observation_space, spaces.Dict)
        return self.policy_kind(
            self.observation_space, self.action_space, ConstantSchedule(self.options.learning_rate), **options
        )

    @classmethod
    def hyperparameters(cls) -> dict[str, str]:
        """Names of its options, without those of the network -> their types, as they are written."""
        shared = {each.name for each in fields(NetworkOptions)}
        return {each.name: str(each.type) for each in fields(cls.options_kind) if each.name not in shared}

    # ---- what a family writes ---------------------------------------------------------------------------------------

    @property
    def n_steps(self) -> int:
        """Steps of each environment in a round."""
        return int(self.options.n_steps)

    @property
    def gamma(self) -> float:
        return float(self.options.gamma)

    @abstractmethod
    def collect(self, callback: BaseCallback) -> bool:
        """Gather a round; False where the callback asks to stop."""

    @abstractmethod
    def update(self) -> None:
        """Learn from the round."""

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int,
        callback: BaseCallback,
        log_interval: int | None = None,
        reset_num_timesteps: bool = True,
    ) -> OwnAlgorithm:
        """Rounds until so many more steps of all environments are done."""
        if reset_num_timesteps:
            self.num_timesteps = 0
            self.ep_info_buffer.clear()
        if reset_num_timesteps or self._last_obs is None:
            self._last_obs = _entries(self.env.reset())
            self._last_episode_starts = np.ones(self.n_envs, dtype=bool)
        until = self.num_timesteps + total_timesteps
        own: Any = self
        callback.init_callback(own)
        callback.on_training_start({"total_timesteps": until}, {})
        while self.num_timesteps < until:
            self.policy.set_training_mode(False)
            callback.on_rollout_start()
            if not self.collect(callback):
                break
            callback.on_rollout_end()
            self.policy.set_training_mode(True)
            self.update()
        callback.on_training_end()
        return self

    @torch.no_grad()
    def play(self, callback: BaseCallback) -> Steps | None:
        """Let the policy act for a round; None where the callback asks to stop."""
        taken = []
        for _ in range(self.n_steps):
            assert self._last_obs is not None
            observation = {name: torch.as_tensor(entry, device=self.device) for name, entry in self._last_obs.items()}
            actions, values, _ = self.policy(observation)
            new_obs, rewards, dones, infos = self.env.step(actions.cpu().numpy())
            self.num_timesteps += self.n_envs
            callback.update_locals(
                {
                    "actions": actions.cpu().numpy(),
                    "rewards": rewards,
                    "dones": dones,
                    "infos": infos,
                    "new_obs": new_obs,
                }
            )
            if not callback.on_step():
                return None
            self.ep_info_buffer.extend(info["episode"] for info in infos if "episode" in info)
            come = (torch.as_tensor(part, device=self.device) for part in (rewards, dones))
            taken.append((observation, actions, values.flatten(), *come))
            self._last_obs, self._last_episode_starts = _entries(new_obs), dones
        shown, *rest = zip(*taken, strict=True)
        whole = {name: torch.stack([entries[name] for entries in shown]) for name in shown[0]}
        return Steps(whole, *map(torch.stack, rest))

    def minibatches(self, rows: int, size: int) -> Iterator[torch.Tensor]:
        """Places of rows in a drawn order, so many at a time."""
        yield from torch.split(torch.randperm(rows).to(self.device), size)

    def descend(self, loss: torch.Tensor) -> None:
        """One step of the optimiser down a loss, its gradient cut to `max_grad_norm`."""
        self.policy.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.options.max_grad_norm)
        self.policy.optimizer.step()

    def set_option(self, name: str, value: float) -> None:
        """Change an option while it learns."""
        self.options = replace(self.options, **{name: value})
        for group in self.policy.optimizer.param_groups:
            group["lr"] = self.options.learning_rate

    # ---- what others read, named as in Stable-Baselines3 ------------------------------------------------------------

    @property
    def n_envs(self) -> int:
        return int(self.env.num_envs)

    @property
    def logger(self) -> Logger:
        return self._logger

    def set_logger(self, logger: Logger) -> None:
        self._logger = logger

    def get_env(self) -> VecEnv:
        return self.env

    def predict(
        self,
        observation: Array | dict[str, Array],
        state: tuple[Array, ...] | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
    ) -> tuple[Array, tuple[Array, ...] | None]:
        """Actions of one observation or a batch."""
        actions, after = self.policy.predict(observation, state, episode_start, deterministic)
        return np.asarray(actions), after

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", "policy.optimizer"], []


def _entries(observation: VecEnvObs) -> dict[str, Array]:
    assert isinstance(observation, dict)
    return observation


AnyAlgorithm = BaseAlgorithm | OwnAlgorithm
