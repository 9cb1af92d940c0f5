"""BC, CQL and IQL for windows: the losses of the fleet's offline methods on one Stable-Baselines3 policy.

`train.steps` counts rows drawn. The policy is stored, evaluated, explained, bundled and served like every other agent
of windows; critics are modules of it, so that a checkpoint has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.vec_env import VecEnv

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import check_extras
from pacesetter.learning.methods import Setup
from pacesetter.learning.sb3.adapter import VectorAdapter
from pacesetter.learning.sb3.algorithms import ALGORITHMS, Algorithm, fit_normaliser
from pacesetter.learning.sb3.learner import SB3Learner
from pacesetter.methods.offline.bc import Cloning, FleetBC
from pacesetter.methods.offline.cql import ConservativeQ, FleetCQL
from pacesetter.methods.offline.iql import FleetIQL, ImplicitQ
from pacesetter.methods.offline.method import OfflineConfig, OfflineMethod
from pacesetter.methods.offline.rows import StoredRows
from pacesetter.methods.offline.window_agents import PolicyAgents
from pacesetter.methods.offline.window_rows import StoredWindows

__all__ = ["OfflineWindows", "WindowsBC", "WindowsCQL", "WindowsIQL", "make_windows"]

OF_DATASET = ("dataset", "regimes", "held_out")  # options that the task reads; the algorithm has none of them


class _NoRows:
    """In place of stored rows where a policy is only to act."""

    symbols = PolicyAgents.symbols

    def __init__(self, actions: int, device: torch.device) -> None:
        self.actions, self.device = actions, device

    def reset(self) -> dict[str, torch.Tensor]:
        return {}


class OfflineWindows(OnPolicyAlgorithm):
    """An offline method of a fleet of one, in the loop of Stable-Baselines3; it never steps an environment.

    kind     the method, whose losses are descended        config   its options
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = PPO.policy_aliases
    kind: ClassVar[type[OfflineMethod]]

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv,
        config: OfflineConfig,
        device: str,
        more: Mapping[str, Any],
    ) -> None:
        self.config = config
        super().__init__(
            policy,
            env,
            learning_rate=config.learning_rate,
            n_steps=config.batch_size * config.gradient_steps,  # rows of a round
            gamma=config.gamma,
            # Unused: nothing is estimated from a rollout, but the parent asks for them.
            gae_lambda=1.0,
            ent_coef=0.0,
            vf_coef=0.0,
            max_grad_norm=config.max_grad_norm,
            use_sde=False,
            sde_sample_freq=-1,
            device=device,
            **more,
        )

    def _setup_model(self) -> None:
        super()._setup_model()
        own = self.env.env if isinstance(self.env, VectorAdapter) else None
        self.agents = PolicyAgents(self.policy)
        rows: Any = own.rows if isinstance(own, StoredWindows) else _NoRows(self.agents.actions, self.device)
        make: Callable[..., OfflineMethod] = self.kind
        self.method = make(self.agents, rows, self.config)
        self.policy.add_module("offline", self.method.own.to(self.device))
        learned = [tensor for tensor in self.policy.parameters() if tensor.requires_grad]  # targets follow instead
        kind: Any = self.policy.optimizer_class
        self.policy.optimizer = kind(learned, lr=self.lr_schedule(1), **self.policy.optimizer_kwargs)

    @property
    def rows(self) -> StoredRows:
        """What is learned from."""
        return self.method.market

    def features(self, observation: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """(row, width) features, as an offline method asks for them."""
        return self.agents.encoder(observation)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Draw the batches of a round; nothing is played."""
        callback.on_rollout_start()
        self._batches: list[Transitions] = list(self.method.batches(None, self))
        self.num_timesteps += n_rollout_steps
        shown = {
            name: _join_parts([batch.observation[name] for batch in self._batches]) for name in self._last_obs or {}
        }
        actions, rewards = (
            _join_parts([getattr(batch, name) for batch in self._batches]) for name in ("actions", "rewards")
        )
        done = np.zeros(len(actions), dtype=bool)
        callback.update_locals({"new_obs": shown, "infos": [], "actions": actions, "rewards": rewards, "dones": done})
        if not callback.on_step():
            return False
        self._last_obs = {name: entry[-self.config.batch_size :] for name, entry in shown.items()}
        callback.on_rollout_end()
        return True

    def train(self) -> None:
        """A gradient step for each batch."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        for batch in self._batches:
            losses = self.method.losses(batch, self.features(batch.observation), self)
            self.policy.optimizer.zero_grad()
            torch.stack(list(losses.terms.values())).sum().backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            self.method.after_step()
        self._n_updates += len(self._batches)
        for name, value in losses.metrics.items():
            self.logger.record(f"train/{name}", float(value.mean()))


def _join_parts(parts: list[torch.Tensor]) -> Array:
    return np.asarray(torch.cat(parts).cpu().numpy())


class WindowsBC(OfflineWindows):
    """Behaviour cloning."""

    kind = Cloning

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv,
        learning_rate: float = 1e-3,
        batch_size: int = 256,
        gradient_steps: int = 16,
        gamma: float = 0.9,
        max_grad_norm: float = 0.5,
        seed: int | None = None,
        device: str = "cpu",
        policy_kwargs: dict[str, object] | None = None,
        _init_setup_model: bool = True,
    ) -> None:
        config = FleetBC(
            learning_rate=learning_rate,
            batch_size=batch_size,
            gradient_steps=gradient_steps,
            gamma=gamma,
            max_grad_norm=max_grad_norm,
            seed=seed or 0,
        )
        more = {"seed": seed, "policy_kwargs": policy_kwargs, "_init_setup_model": _init_setup_model}
        super().__init__(policy, env, config, device, more)


class WindowsCQL(OfflineWindows):
    """Conservative Q-learning; see `FleetCQL` for its options."""

    kind = ConservativeQ

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv,
        learning_rate: float = 1e-3,
        batch_size: int = 256,
        gradient_steps: int = 16,
        gamma: float = 0.9,
        max_grad_norm: float = 0.5,
        penalty: float = 0.2,
        temperature: float = 0.02,
        tau: float = 0.02,
        seed: int | None = None,
        device: str = "cpu",
        policy_kwargs: dict[str, object] | None = None,
        _init_setup_model: bool = True,
    ) -> None:
        config = FleetCQL(
            learning_rate=learning_rate,
            batch_size=batch_size,
            gradient_steps=gradient_steps,
            gamma=gamma,
            max_grad_norm=max_grad_norm,
            penalty=penalty,
            temperature=temperature,
            tau=tau,
            seed=seed or 0,
        )
        more = {"seed": seed, "policy_kwargs": policy_kwargs, "_init_setup_model": _init_setup_model}
        super().__init__(policy, env, config, device, more)


class WindowsIQL(OfflineWindows):
    """Implicit Q-learning; see `FleetIQL` for its options."""

    kind = ImplicitQ

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv,
        learning_rate: float = 1e-3,
        batch_size: int = 256,
        gradient_steps: int = 16,
        gamma: float = 0.9,
        max_grad_norm: float = 0.5,
        expectile: float = 0.8,
        inverse_temperature: float = 10.0,
        tau: float = 0.02,
        seed: int | None = None,
        device: str = "cpu",
        policy_kwargs: dict[str, object] | None = None,
        _init_setup_model: bool = True,
    ) -> None:
        config = FleetIQL(
            learning_rate=learning_rate,
            batch_size=batch_size,
            gradient_steps=gradient_steps,
            gamma=gamma,
            max_grad_norm=max_grad_norm,
            expectile=expectile,
            inverse_temperature=inverse_temperature,
            tau=tau,
            seed=seed or 0,
        )
        more = {"seed": seed, "policy_kwargs": policy_kwargs, "_init_setup_model": _init_setup_model}
        super().__init__(policy, env, config, device, more)


def make_windows(setup: Setup) -> SB3Learner:
    """A learner of windows from stored rows, whose normaliser has counted all of them; refuses a market and extras."""
    from pacesetter.learning.sb3.making import make_learner

    if not isinstance(setup.train, StoredWindows):
        raise ConfigError(
            f"agent={setup.name} learns task=lookback from stored rows, not task={setup.task} in a market; give "
            "task=lookback and agent.dataset=FILE"
        )
    if extras := check_extras(dict(setup.options.get("extras", {}))):
        raise ConfigError(f"offline methods take no extras, not even {', '.join(extras)}; leave them out")
    options = {name: value for name, value in setup.options.items() if name not in OF_DATASET}
    learner = make_learner(replace(setup, options=options))
    fit_normaliser(learner.algorithm, setup.train.rows.observation)  # type: ignore[arg-type]
    return learner


ALGORITHMS.add("bc", Algorithm(WindowsBC, "discrete"))
ALGORITHMS.add("cql", Algorithm(WindowsCQL, "discrete"))
ALGORITHMS.add("iql", Algorithm(WindowsIQL, "discrete"))
