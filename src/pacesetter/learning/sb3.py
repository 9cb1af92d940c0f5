"""Every Stable-Baselines3 class: six algorithms around our encoders, made from plain options, stored without pickle.

`make_algorithm("ppo", env, network="transformer_small")`, `learn(algorithm, 10_000)`, `save_algorithm`, and
`AlgorithmAgent(algorithm)` to act.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO, RecurrentPPO
from sb3_contrib.common.maskable.utils import is_masking_supported
from stable_baselines3 import A2C, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from pacesetter.agents.agent import ACTION_MASK, Observation
from pacesetter.agents.encoders import Network, network
from pacesetter.agents.initialise import initialise_encoder
from pacesetter.agents.layout import Shapes
from pacesetter.agents.normaliser import ObservationNormaliser
from pacesetter.errors import ConfigError, RunError, did_you_mean
from pacesetter.learning.state import read_header, read_state, write_state
from pacesetter.registry import Registry, configure

__all__ = [
    "ALGORITHMS",
    "AlgorithmAgent",
    "EncoderExtractor",
    "NormaliserCallback",
    "Recipe",
    "VectorAdapter",
    "fit_normaliser",
    "learn",
    "load_algorithm",
    "make_algorithm",
    "observation_shapes",
    "save_algorithm",
]

Array = NDArray[Any]
Environment = gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | VecEnv
_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_total_timesteps", "_current_progress_remaining")
_OURS = ("self", "policy", "env", "seed", "device", "policy_kwargs", "_init_setup_model")


@dataclass(frozen=True)
class Algorithm:
    """A Stable-Baselines3 class, the kind of actions it can learn, and its policy for dict observations."""

    kind: Any  # a subclass of BaseAlgorithm
    actions: Literal["discrete", "continuous", "either"] = "either"
    policy: str = "MultiInputPolicy"
    masked: bool = False

    @property
    def options(self) -> list[str]:
        """Hyperparameters that its constructor takes."""
        return [name for name in inspect.signature(self.kind).parameters if name not in _OURS]


ALGORITHMS: Registry[Algorithm] = Registry("algorithm")
ALGORITHMS.add("ppo", Algorithm(PPO))
ALGORITHMS.add("a2c", Algorithm(A2C))
ALGORITHMS.add("sac", Algorithm(SAC, "continuous"))
ALGORITHMS.add("td3", Algorithm(TD3, "continuous"))
ALGORITHMS.add("maskable_ppo", Algorithm(MaskablePPO, "discrete", masked=True))
ALGORITHMS.add("recurrent_ppo", Algorithm(RecurrentPPO, policy="MultiInputLstmPolicy"))


@dataclass(frozen=True)
class Recipe:
    """All that makes an untrained algorithm, as plain values that JSON can hold.

    heads            widths of the hidden layers of actor and critic
    hyperparameters  of the Stable-Baselines3 constructor, by its own names
    """

    algorithm: str
    network: str = "transformer_small"
    network_options: dict[str, Any] = field(default_factory=dict)
    heads: tuple[int, ...] = (128,)
    seed: int = 0
    hyperparameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = ALGORITHMS[self.algorithm].options
        for name, value in self.hyperparameters.items():
            if name not in known:
                raise ConfigError(f"{self.algorithm} has no hyperparameter '{name}'{did_you_mean(name, known)}")
            if not _is_plain(value):
                raise ConfigError(f"{self.algorithm}.{name}={value!r} cannot be stored; give numbers or words")


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def make_algorithm(
    name: str,
    env: Environment,
    network: str = "transformer_small",
    network_options: Mapping[str, Any] | None = None,
    heads: Sequence[int] = (128,),
    seed: int = 0,
    device: str = "cpu",
    **hyperparameters: Any,
) -> BaseAlgorithm:
    """An untrained algorithm around one of our networks; refuses a combination that cannot learn."""
    recipe = Recipe(name, network, dict(network_options or {}), tuple(heads), seed, hyperparameters)
    return _build(recipe, env, device)


def _build(recipe: Recipe, env: Environment, device: str) -> BaseAlgorithm:
    chosen = ALGORITHMS[recipe.algorithm]
    config = network(recipe.network, **recipe.network_options)
    if isinstance(env, gymnasium.vector.VectorEnv):
        env = VectorAdapter(env)
    _check_environment(recipe.algorithm, chosen, env)
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in recipe.hyperparameters.items()}
    try:
        algorithm: BaseAlgorithm = chosen.kind(
            chosen.policy, env, seed=recipe.seed, device=device, policy_kwargs=_policy(recipe, config), **options
        )
    except (AssertionError, TypeError, ValueError) as problem:
        raise ConfigError(f"{recipe.algorithm} refuses its options: {' '.join(str(problem).split())}") from problem
    if not isinstance(algorithm, OffPolicyAlgorithm):  # these re-draw the encoder with the heads' rule; it is not ours
        for extractor in _extractors(algorithm):
            initialise_encoder(extractor.encoder)
    algorithm.recipe = recipe  # type: ignore[attr-defined]
    return algorithm


def _policy(recipe: Recipe, config: Network) -> dict[str, Any]:
    """The policy's options: our encoder, and heads of rectifiers."""
    kind = ALGORITHMS[recipe.algorithm].kind
    critic = "qf" if issubclass(kind, OffPolicyAlgorithm) else "vf"
    options: dict[str, Any] = {
        "features_extractor_class": EncoderExtractor,
        "features_extractor_kwargs": {"config": config},
        "net_arch": {"pi": list(recipe.heads), critic: list(recipe.heads)},
        "activation_fn": nn.ReLU,
    }
    return options | ({"lstm_hidden_size": config.width} if kind is RecurrentPPO else {})


def _check_environment(name: str, chosen: Algorithm, env: gymnasium.Env[Any, Any] | VecEnv) -> None:
    """Refuse actions the algorithm cannot learn, and masks that are missing."""
    observation_shapes(env.observation_space)
    found = "continuous" if isinstance(env.action_space, spaces.Box) else "discrete"
    if chosen.actions not in ("either", found):
        others = [other for other in ALGORITHMS if ALGORITHMS[other].actions in ("either", found)]
        raise ConfigError(
            f"{name} needs {chosen.actions} actions, but the environment's are {found} ({env.action_space}); "
            f"choose {chosen.actions} actions or one of {', '.join(others)}"
        )
    if chosen.masked and not is_masking_supported(env):
        raise ConfigError(f"{name} needs masks, but the environment has no action_masks(); add it or choose ppo")


def observation_shapes(space: spaces.Space[Any]) -> Shapes:
    """Entry names to shapes of a dict space of arrays; refuses any other space."""
    if not isinstance(space, spaces.Dict):
        raise ConfigError(f"networks take observations of named arrays (spaces.Dict), not {space}")
    for name, entry in space.items():
        if not isinstance(entry, (spaces.Box, spaces.MultiBinary)):
            raise ConfigError(f"observation entry '{name}' is {entry}; make it an array (spaces.Box)")
    return {name: tuple(entry.shape or ()) for name, entry in space.items()}


class EncoderExtractor(BaseFeaturesExtractor):
    """One of our encoders as a features extractor."""

    def __init__(self, observation_space: spaces.Dict, config: Network) -> None:
        super().__init__(observation_space, features_dim=config.width)
        self.encoder = config.build(observation_shapes(observation_space))

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.encoder(observations)  # type: ignore[no-any-return]


def _extractors(algorithm: BaseAlgorithm) -> list[EncoderExtractor]:
    return [module for module in algorithm.policy.modules() if isinstance(module, EncoderExtractor)]


# ---- learning -------------------------------------------------------------------------------------------------------


def learn(
    algorithm: BaseAlgorithm, steps: int, callbacks: Sequence[BaseCallback] = (), **options: Any
) -> BaseAlgorithm:
    """Train for `steps` environment steps with the normaliser kept up to date; `options` go to SB3's own `learn`."""
    return algorithm.learn(steps, callback=CallbackList([NormaliserCallback(), *callbacks]), **options)


class NormaliserCallback(BaseCallback):
    """Counts what the environments show; the counts come into force when a rollout starts.

    So the probabilities that a rollout stores and those of the update it feeds are computed on equal inputs.
    """

    def _on_rollout_start(self) -> None:
        _commit(self.model)

    def _on_step(self) -> bool:
        _normalisers(self.model)[0].observe(_tensors(self.locals["new_obs"], self.model.device))
        return True


def fit_normaliser(algorithm: BaseAlgorithm, observations: Observation) -> None:
    """Count a batch of observations, e.g. a sample of the training part, and put it into force."""
    _normalisers(algorithm)[0].observe(_tensors(observations, algorithm.device))
    _commit(algorithm)


def _commit(algorithm: BaseAlgorithm) -> None:
    """Actor, critic and target networks normalise alike: one counts, the others copy."""
    first, *others = _normalisers(algorithm)
    first.commit()
    for other in others:
        other.load_state_dict(first.state_dict())


def _normalisers(algorithm: BaseAlgorithm) -> list[ObservationNormaliser]:
    return [extractor.encoder.normaliser for extractor in _extractors(algorithm)]


def _tensors(observation: Any, device: torch.device) -> dict[str, torch.Tensor]:
    return {name: torch.as_tensor(entry, device=device) for name, entry in observation.items()}


# ---- acting ---------------------------------------------------------------------------------------------------------


class AlgorithmAgent:
    """A trained algorithm as an `Agent`; a recurrent one remembers until `reset`."""

    def __init__(self, algorithm: BaseAlgorithm) -> None:
        self.algorithm = algorithm
        self.masked = isinstance(algorithm, MaskablePPO)
        self.reset()

    def reset(self) -> None:
        """Forget the episode so far."""
        self._memory: Any = None
        self._starts: Array | None = None

    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """Actions of one observation or a batch, under its `action_mask` entry where the algorithm masks."""
        masks = {"action_masks": observation.get(ACTION_MASK)} if self.masked else {}
        action, self._memory = self.algorithm.predict(
            dict(observation), state=self._memory, episode_start=self._starts, deterministic=deterministic, **masks
        )
        if self._memory is not None:
            self._starts = np.zeros(self._memory[0].shape[1], dtype=bool)
        return np.asarray(action)


# ---- on disk --------------------------------------------------------------------------------------------------------


def save_algorithm(algorithm: BaseAlgorithm, folder: str | Path) -> Path:
    """Store recipe, weights, optimisers and counters; replay, RNG and environments are the run's to store."""
    modules, variables = algorithm._get_torch_save_params()
    state = {
        "modules": {name: _reach(algorithm, name).state_dict() for name in modules},
        "variables": {name: _reach(algorithm, name) for name in variables},
        "counters": {name: getattr(algorithm, name) for name in _COUNTERS if hasattr(algorithm, name)},
    }
    header = {"recipe": asdict(_reach(algorithm, "recipe")), "spaces": _spaces(algorithm)}
    return write_state(folder, header, state)


def load_algorithm(folder: str | Path, env: Environment, device: str = "cpu") -> BaseAlgorithm:
    """The stored algorithm on `env`; refuses an environment whose observations or actions differ."""
    header = read_header(folder)
    if "recipe" not in header:
        raise RunError(f"{folder} holds no algorithm of {', '.join(ALGORITHMS)}; load it with what wrote it")
    algorithm = _build(configure(Recipe, header["recipe"], "recipe"), env, device)
    if header["spaces"] != _spaces(algorithm):
        raise RunError(
            f"{folder} was trained on {header['spaces']}, but this environment has {_spaces(algorithm)}; "
            "build the environment from the run's own config"
        )
    state = read_state(folder)
    for name, content in state["modules"].items():
        _reach(algorithm, name).load_state_dict(content)
    for name, value in state["variables"].items():
        _reach(algorithm, name).data.copy_(value)
    for name, value in state["counters"].items():
        setattr(algorithm, name, value)
    return algorithm


def _reach(algorithm: BaseAlgorithm, path: str) -> Any:
    """The attribute at a dotted path, e.g. `policy.optimizer`."""
    found: Any = algorithm
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _spaces(algorithm: BaseAlgorithm) -> dict[str, Any]:
    shapes = observation_shapes(algorithm.observation_space)
    return {"observation": {name: list(shape) for name, shape in shapes.items()}, "action": str(algorithm.action_space)}


# ---- environments ---------------------------------------------------------------------------------------------------


class VectorAdapter(VecEnv):
    """A Gymnasium vector environment that resets in the same step, as Stable-Baselines3 wants it.

    The last observation of an episode is read from `infos["final_obs"]`: a row per environment, or a dict of arrays.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        if env.metadata.get("autoreset_mode") != gymnasium.vector.AutoresetMode.SAME_STEP:
            raise ConfigError(
                "the vector environment does not reset in the same step; make it with AutoresetMode.SAME_STEP"
            )
        self.env = env
        self.returns, self.lengths = np.zeros(env.num_envs), np.zeros(env.num_envs, dtype=np.int64)
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Any:
        seeds = self._seeds if self._seeds[0] is not None else None
        observation, _ = self.env.reset(seed=seeds)  # type: ignore[arg-type]
        self._reset_seeds()
        self.returns[:], self.lengths[:] = 0.0, 0
        return observation

    def step_async(self, actions: Array) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        observation, rewards, terminated, truncated, infos = self.env.step(self.actions)
        done = np.logical_or(terminated, truncated)
        self.returns += rewards
        self.lengths += 1
        rows: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for place in np.flatnonzero(done):
            rows[place] = {
                "terminal_observation": _row(infos["final_obs"], place),
                "TimeLimit.truncated": bool(truncated[place] and not terminated[place]),
                "episode": {"r": float(self.returns[place]), "l": int(self.lengths[place])},
            }
        self.returns[done], self.lengths[done] = 0.0, 0
        return observation, np.asarray(rewards, dtype=np.float32), done, rows

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        value = getattr(self.env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """The rows of what a batch method gives, e.g. `action_masks() -> (env, action)`."""
        rows = getattr(self.env, method_name)(*method_args, **method_kwargs)
        return [rows[place] for place in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]


def _row(final: Any, place: Any) -> dict[str, Array]:
    """One environment's last observation."""
    return {name: entry[place] for name, entry in final.items()} if isinstance(final, dict) else final[place]
