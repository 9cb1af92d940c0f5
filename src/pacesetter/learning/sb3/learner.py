"""A Stable-Baselines3 algorithm as a `Learner`: step by step, between rollouts, and never by a name of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import ConstantSchedule
from stable_baselines3.sac.policies import SACPolicy

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, RunError, did_you_mean
from pacesetter.learning.learner import Between, StepRecord, Watcher
from pacesetter.learning.randomness import keep_randomness
from pacesetter.learning.sb3.adapter import VectorAdapter
from pacesetter.learning.sb3.algorithms import AlgorithmAgent, EncoderExtractor, learn, load_weights, save_algorithm
from pacesetter.learning.sb3.own import AnyAlgorithm, OwnAlgorithm
from pacesetter.learning.sb3.resume import capture, check_resumable, restore
from pacesetter.learning.state import read_header, read_state, tensors_hash

__all__ = ["SB3Learner"]

SCHEDULED = ("learning_rate", "clip_range", "ent_coef", "vf_coef", "gamma", "tau", "target_kl")
ENCODER = "encoder"


class _Bridge(BaseCallback):
    """Stable-Baselines3's callback as a watcher and a clock."""

    def __init__(self, watcher: Watcher, seconds: dict[str, float]) -> None:
        super().__init__()
        self.watcher, self.seconds = watcher, seconds
        self.rollout_ended: float | None = None

    def _on_rollout_start(self) -> None:
        now = time.perf_counter()
        if self.rollout_ended is not None:
            self.seconds["update"] += now - self.rollout_ended
        # Here nothing is half done: the update of the last rollout is over, and the next has not begun.
        self.watcher.between_rounds()
        self.rollout_started = time.perf_counter()

    def _on_rollout_end(self) -> None:
        self.rollout_ended = time.perf_counter()
        self.seconds["rollout"] += self.rollout_ended - self.rollout_started

    def _on_step(self) -> bool:
        # What was played: a Gaussian policy's draw may lie outside the box.
        actions = self.locals.get("clipped_actions", self.locals["actions"])
        if isinstance(self.training_env, VectorAdapter):
            actions = self.training_env.stretch(actions)
        infos = self.training_env.infos if isinstance(self.training_env, VectorAdapter) else {}
        self.watcher.step(StepRecord(actions, self.locals["rewards"], self.locals["dones"], infos))
        return True


class SB3Learner:
    """An algorithm on a vector environment, as a `Learner`."""

    def __init__(self, algorithm: AnyAlgorithm) -> None:
        check_resumable(algorithm)
        self.algorithm = algorithm
        self._seconds = {"rollout": 0.0, "update": 0.0}

    def learn(self, steps: int, watcher: Watcher | None = None) -> None:
        """Train up to `steps` environment steps in all; `Stop` passes through to the caller."""
        left = steps - self.step
        if left > 0:
            bridge = _Bridge(watcher or Between(), self._seconds)
            # A resumed run counts on: SB3 would otherwise begin its schedules and environments again.
            # Its step may be 0, of a state that was stored before the first one.
            is_new = self.algorithm._last_obs is None
            learn(self.algorithm, left, [bridge], reset_num_timesteps=is_new, log_interval=None)

    # ---- looking --------------------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Environment steps so far."""
        return int(self.algorithm.num_timesteps)

    @property
    def round_steps(self) -> int:
        """Environment steps between two updates; learning ends with a whole such round."""
        algorithm = self.algorithm
        if isinstance(algorithm, (OnPolicyAlgorithm, OwnAlgorithm)):
            return int(algorithm.n_steps * algorithm.n_envs)
        assert isinstance(algorithm, OffPolicyAlgorithm)
        each = algorithm.train_freq
        return int((each if isinstance(each, int) else each[0]) * algorithm.n_envs)

    @property
    def agent(self) -> AlgorithmAgent:
        """The policy as it is now, to act."""
        return AlgorithmAgent(self.algorithm)

    @property
    def seconds(self) -> dict[str, float]:
        """Time spent in environment, policy and update since this process began."""
        env = self.algorithm.env
        environment = env.seconds if isinstance(env, VectorAdapter) else 0.0
        return {
            "environment": environment,
            "policy": max(self._seconds["rollout"] - environment, 0.0),
            "update": self._seconds["update"],
        }

    @property
    def observation(self) -> dict[str, Array]:
        """The latest observations, entries (env, …)."""
        return dict(self.algorithm._last_obs or {})

    def parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Name and tensor of everything that is trained."""
        return self.algorithm.policy.named_parameters()

    def losses(self) -> dict[str, float]:
        """What the latest update logged, e.g. `value_loss`."""
        logged = self.algorithm.logger.name_to_value
        return {key.removeprefix("train/"): float(value) for key, value in logged.items() if key.startswith("train/")}

    def statistics(self) -> dict[str, float]:
        """Mean reward of the latest episodes, and entropy of the policy."""
        env = self.algorithm.env
        extras = env.extras if isinstance(env, VectorAdapter) else None
        return {"reward": self.mean_return(), "entropy": self.entropy()} | (
            {} if extras is None else extras.figures_to_log()
        )

    def mean_return(self) -> float:
        """Mean reward of the latest episodes; NaN before the first has ended."""
        episodes = self.algorithm.ep_info_buffer or ()
        return float(np.mean([episode["r"] for episode in episodes])) if episodes else float("nan")

    @torch.no_grad()
    def entropy(self) -> float:
        """Mean policy entropy on the latest observations, in nats; NaN for a policy without one."""
        policy = self.algorithm.policy
        assert isinstance(self.algorithm._last_obs, dict)
        observation, _ = policy.obs_to_tensor(self.algorithm._last_obs)
        # SAC draws actions for its entropy: looking must not change how it learns.
        with keep_randomness():
            if isinstance(policy, ActorCriticPolicy) and not isinstance(policy, RecurrentActorCriticPolicy):
                entropy = policy.get_distribution(observation).entropy()
                return float("nan") if entropy is None else float(entropy.mean())
            if isinstance(policy, SACPolicy):
                assert isinstance(policy.action_space, spaces.Box)
                widths = policy.action_space.high - policy.action_space.low  # it acts in [-1, 1], which is 2 wide
                return float(np.log(widths / 2).sum()) - float(policy.actor.action_log_prob(observation)[1].mean())
        return -self.losses().get("entropy_loss", float("nan"))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what the encoder takes, all entries per asset as one: `window`, `assets`, vectors, mask."""
        extractor = next(module for module in self.algorithm.policy.modules() if isinstance(module, EncoderExtractor))
        layout, entries = extractor.encoder.layout, extractor.shapes
        shapes: dict[str, tuple[int, ...]] = {name: (size,) for name, size in layout.vectors.items()}
        if layout.window:
            shapes["window"] = entries[next(iter(layout.window))]
        if layout.assets:
            shapes["assets"] = (entries[next(iter(layout.assets))][0], sum(layout.assets.values()))
        return shapes | ({} if layout.mask is None else {"universe_mask": entries[layout.mask]})

    def weights(self) -> dict[str, torch.Tensor]:
        """Every tensor of the policy, by name."""
        return dict(self.algorithm.policy.state_dict())

    def network(self) -> torch.nn.Module:
        """The policy's modules."""
        return self.algorithm.policy

    def weights_hash(self) -> str:
        """SHA-256 over names and bytes of all weights."""
        return tensors_hash(self.weights())

    # ---- changing -------------------------------------------------------------------------------------------------

    def set(self, name: str, value: float) -> None:
        """Change a hyperparameter while learning; refuses one that the algorithm reads only at the start."""
        own: object = self.algorithm.options if isinstance(self.algorithm, OwnAlgorithm) else self.algorithm
        known = [key for key in SCHEDULED if hasattr(own, key)]
        if name not in known:
            raise ConfigError(f"train.schedules names '{name}', which cannot be scheduled{did_you_mean(name, known)}")
        if isinstance(self.algorithm, OwnAlgorithm):
            self.algorithm.set_option(name, value)
        elif name == "learning_rate":
            # SB3 asks its schedule at every update: a constant one hands over ours.
            self.algorithm.lr_schedule = ConstantSchedule(value)
        else:
            setattr(self.algorithm, name, ConstantSchedule(value) if name == "clip_range" else value)

    def freeze(self, parts: tuple[str, ...]) -> None:
        """Keep the named parts of the policy as they are: `encoder`, or a module of the policy by its path."""
        policy = self.algorithm.policy
        for part in parts:
            named = dict(policy.named_modules())
            encoders = [module for module in named.values() if isinstance(module, EncoderExtractor)]
            modules = encoders if part == ENCODER else [named[part]] if part and part in named else []
            if not modules:
                known = [ENCODER, *(name for name, _ in policy.named_children())]
                raise ConfigError(f"train.freeze names '{part}', which the policy lacks{did_you_mean(part, known)}")
            for module in modules:
                module.requires_grad_(False)

    def take_weights(self, folder: str | Path) -> int:
        """Take every stored tensor of the policy that fits by name and shape; gives how many, and refuses none.

        Of a stored direction classifier the encoder is taken, see `transfer_encoder`.
        """
        if read_header(folder).get("kind") == "direction":
            from pacesetter.methods.supervised.forecasts import Forecasts
            from pacesetter.methods.supervised.transfer import transfer_encoder

            return transfer_encoder(Forecasts.load(folder).model, self.algorithm)
        if "recipe" not in read_header(folder):
            raise RunError(f"{folder} holds neither a single agent nor a direction classifier; use a run of this task")
        stored, own = read_state(folder)["modules"]["policy"], self.weights()
        fitting = {name: tensor for name, tensor in stored.items() if name in own and own[name].shape == tensor.shape}
        if not fitting:
            raise RunError(f"{folder} has no weights that fit this policy; use a run with the same network")
        self.algorithm.policy.load_state_dict(own | fitting)
        return len(fitting)

    # ---- storing --------------------------------------------------------------------------------------------------

    def save(
        self, folder: str | Path, header: Mapping[str, object] | None = None, more: Mapping[str, object] | None = None
    ) -> Path:
        """Store the agent; with `more`, also all that a bit-exact resume needs, and `more` beside it."""
        state = {} if more is None else {"resume": capture(self.algorithm), "run": dict(more)}
        return save_algorithm(self.algorithm, folder, header or {}, state)

    def load(self, folder: str | Path) -> dict[str, Any]:
        """Resume from what `save` stored with `more`, which it gives back."""
        state = read_state(folder)
        load_weights(self.algorithm, state)
        restore(self.algorithm, state["resume"])
        return dict(state["run"])
