"""Algorithms of Stable-Baselines3 around our encoders, made from plain options, stored without pickle.

`make_algorithm("ppo", env, network="transformer_small")`, `learn(algorithm, 10_000)`, `save_algorithm`, and
`AlgorithmAgent(algorithm)` to act.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO, RecurrentPPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.maskable.utils import is_masking_supported
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy
from torch import nn

from pacesetter.agents.agent import ACTION_MASK, Agent, Observation
from pacesetter.agents.encoders import Network, network
from pacesetter.agents.heads import silence_head
from pacesetter.agents.initialise import initialise_encoder
from pacesetter.agents.layout import Shapes, Tensors, with_entries
from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import PRIOR
from pacesetter.errors import ConfigError, RunError, did_you_mean
from pacesetter.late import load
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.extras.extra import check_extras
from pacesetter.learning.methods import METHODS
from pacesetter.learning.sb3.adapter import VectorAdapter
from pacesetter.learning.sb3.extras import ExtraReplay, ExtrasCallback, SingleExtras, surroundings_of
from pacesetter.learning.sb3.own import AnyAlgorithm, OwnAlgorithm
from pacesetter.learning.state import read_header, read_state, write_state
from pacesetter.registry import Registry, configure

__all__ = [
    "ALGORITHMS",
    "ActorCritic",
    "AlgorithmAgent",
    "AnyAlgorithm",
    "EncoderExtractor",
    "NormaliserCallback",
    "Recipe",
    "VectorAdapter",
    "first_extractor",
    "fit_normaliser",
    "learn",
    "load_algorithm",
    "load_weights",
    "make_algorithm",
    "observation_shapes",
    "save_algorithm",
]

Memory = tuple[tuple[Array, ...] | None, Array | None]  # of a recurrent policy, and where episodes begin
ActorCritic = ActorCriticPolicy | MaskableActorCriticPolicy
Environment = gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | VecEnv
_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_total_timesteps", "_current_progress_remaining")
_OURS = ("self", "policy", "env", "seed", "device", "policy_kwargs", "_init_setup_model", "advantages")


@dataclass(frozen=True)
class Algorithm:
    """What a family declares of one of its methods, see `TaskSupport.algorithm`.

    kind      subclass of BaseAlgorithm, or of OwnAlgorithm      actions   that it can learn
    policy    name of the former's for dict observations         masked    whether it takes masks of actions
    expected  the same with the advantages of all orders, see `agent.advantages`; None: it has sampled ones alone
    """

    kind: type[BaseAlgorithm] | type[OwnAlgorithm]
    actions: Literal["discrete", "continuous", "either"] = "either"
    policy: str = "MultiInputPolicy"
    masked: bool = False
    expected: Any = None

    def kind_for(self, advantages: str) -> Any:
        """The class with such advantages."""
        return self.expected if advantages == "expected" else self.kind

    def options(self, advantages: str = "sampled") -> dict[str, str]:
        """Hyperparameters that it takes -> their types, as it writes them."""
        kind = self.kind_for(advantages)
        if issubclass(kind, OwnAlgorithm):
            return {name: known for name, known in kind.hyperparameters().items() if name not in _OURS}
        taken = inspect.signature(kind).parameters.values()
        return {item.name: str(item.annotation) for item in taken if item.name not in _OURS}


def _load_declared() -> dict[str, Algorithm]:
    """The algorithms that methods declare, by the method's name."""
    return {
        name: load(support.algorithm)
        for name in METHODS
        for support in METHODS[name].supports
        if support.algorithm is not None
    }


ALGORITHMS: Registry[Algorithm] = Registry("algorithm", declared=_load_declared)


@dataclass(frozen=True)
class Recipe:
    """All that makes an untrained algorithm, as plain values that JSON can hold.

    heads            widths of the hidden layers of actor and critic
    hyperparameters  of the Stable-Baselines3 constructor, by its own names
    extras           name -> options of what is added to rewards while it learns
    advantages       sampled; or expected, of an algorithm that declares it and discrete orders
    hindsight        of goals and the replay that relabels them, for sac; None without goals
    """

    algorithm: str
    network: str = "transformer_small"
    network_options: dict[str, object] = field(default_factory=dict)
    heads: tuple[int, ...] = (128,)
    seed: int = 0
    hyperparameters: dict[str, object] = field(default_factory=dict)
    extras: dict[str, object] = field(default_factory=dict)
    advantages: Literal["sampled", "expected"] = "sampled"
    hindsight: dict[str, object] | None = None

    def __post_init__(self) -> None:
        if self.advantages == "expected" and ALGORITHMS[self.algorithm].expected is None:
            raise ConfigError(
                f"agent.advantages=expected is for agent=ppo, not {self.algorithm}; give agent.advantages=sampled"
            )
        checked = {name: asdict(options) for name, options in check_extras(self.extras).items()}
        object.__setattr__(self, "extras", checked)
        if self.hindsight is not None and checked:
            raise ConfigError("agent.hindsight and agent.extras both change the rewards of a replay; leave one out")
        if self.advantages == "expected" and checked:
            raise ConfigError(
                f"agent.extras ({', '.join(checked)}) change the rewards of orders that were sent, and "
                "agent.advantages=expected needs those of all; give agent.advantages=sampled, or no extras"
            )
        if any(width < 1 for width in self.heads):
            raise ConfigError(f"agent.heads={list(self.heads)}: a hidden layer has a width of 1 or more")
        known = ALGORITHMS[self.algorithm].options(self.advantages)
        for name, value in self.hyperparameters.items():
            if name not in known:
                raise ConfigError(f"{self.algorithm} has no hyperparameter '{name}'{did_you_mean(name, known)}")
            if not _is_plain(value):
                raise ConfigError(f"{self.algorithm}.{name}={value!r} cannot be stored; give numbers or words")
            if isinstance(value, str) and "str" not in known[name]:
                raise ConfigError(f"agent.{name}='{value}' must be a number")


def _is_plain(value: object) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def make_algorithm(
    name: str,
    env: Environment,
    network: str = "transformer_small",
    network_options: Mapping[str, object] | None = None,
    heads: Sequence[int] = (128,),
    seed: int = 0,
    device: str = "cpu",
    tables: Tables | None = None,
    extras: Mapping[str, object] | None = None,
    advantages: str = "sampled",
    hindsight: Mapping[str, object] | None = None,
    **hyperparameters: object,
) -> AnyAlgorithm:
    """An untrained algorithm around one of our networks; refuses a combination that cannot learn.

    With `tables` the environment's observations may hold places instead of windows.
    """
    own = {"network": network, "network_options": network_options or {}, "heads": heads, "seed": seed}
    own["extras"] = dict(extras or {})
    own["hindsight"] = None if hindsight is None else dict(hindsight)
    recipe = {"algorithm": name, "hyperparameters": hyperparameters, "advantages": advantages} | own
    return _build(configure(Recipe, recipe, "agent"), env, device, tables)


def _build(recipe: Recipe, env: Environment, device: str, tables: Tables | None = None) -> AnyAlgorithm:
    chosen = ALGORITHMS[recipe.algorithm]
    config = network(recipe.network, **recipe.network_options)
    if isinstance(env, gymnasium.vector.VectorEnv):
        env = VectorAdapter(env)
    _check_environment(recipe.algorithm, chosen, env)
    options = _constructor_options(recipe, env)
    if recipe.extras and issubclass(chosen.kind, OffPolicyAlgorithm):
        # Off-policy, intrinsic rewards are those of the model now, so they are computed when rows are drawn.
        options["replay_buffer_class"] = ExtraReplay
    if recipe.hindsight is not None:
        from pacesetter.methods.goals.goals import read_hindsight
        from pacesetter.methods.goals.sb3_hindsight import goal_options

        options |= goal_options(read_hindsight(vars(recipe)))
    kind, networks = chosen.kind_for(recipe.advantages), _policy(recipe, config, tables)
    algorithm: AnyAlgorithm
    try:
        if issubclass(kind, OwnAlgorithm):
            algorithm = kind(env, configure(kind.options_kind, options, "agent"), recipe.seed, device, **networks)
        else:
            make: Callable[..., BaseAlgorithm] = kind
            algorithm = make(chosen.policy, env, seed=recipe.seed, device=device, policy_kwargs=networks, **options)
    except (AssertionError, TypeError, ValueError) as problem:
        raise ConfigError(f"{recipe.algorithm} rejects its options: {' '.join(str(problem).split())}") from problem
    if not isinstance(algorithm, OffPolicyAlgorithm):  # these re-draw the encoder with the heads' rule; it is not ours
        for extractor in _extractors(algorithm):
            initialise_encoder(extractor.encoder)
    if PRIOR in _extractors(algorithm)[0].shapes:
        _begin_at_prior(algorithm.policy)
    algorithm.recipe = recipe  # type: ignore[union-attr]
    algorithm.set_logger(Logger(None, []))  # its own would leave a folder among the temporary files
    _add_extras(algorithm, recipe.extras)
    return algorithm


def _begin_at_prior(policy: BasePolicy) -> None:
    """Let the actor say 0 of everything: its actions are residuals of the prior that it sees."""
    if isinstance(policy, ActorCritic):
        silence_head(nn.Sequential(policy.action_net))
        return
    assert isinstance(policy, (SACPolicy, TD3Policy))
    for actor in (policy.actor, policy.actor_target) if isinstance(policy, TD3Policy) else (policy.actor,):
        silence_head(actor.mu if isinstance(actor.mu, nn.Sequential) else nn.Sequential(actor.mu))


def _add_extras(algorithm: AnyAlgorithm, asked: Mapping[str, object]) -> None:
    """Let extras change the rewards that it learns from; an environment that is not ours is refused."""
    if not asked:
        return
    env = algorithm.env
    if not isinstance(env, VectorAdapter):
        raise ConfigError("agent.extras need one of this package's vector environments")
    around = surroundings_of(algorithm, env, first_extractor(algorithm))
    # Extras have a stream of their own: switching one on leaves the policy's first weights as they were.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(algorithm.seed or 0)
        env.extras = SingleExtras(asked, algorithm, around)
    if isinstance(algorithm, OffPolicyAlgorithm):
        assert isinstance(algorithm.replay_buffer, ExtraReplay)
        algorithm.replay_buffer.extras = env.extras


def first_extractor(algorithm: AnyAlgorithm) -> EncoderExtractor:
    """The encoder that acts."""
    return _extractors(algorithm)[0]


def _constructor_options(recipe: Recipe, env: gymnasium.Env[Any, Any] | VecEnv) -> dict[str, object]:
    """Hyperparameters as the constructor wants them: tuples, and noise by its deviation."""
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in recipe.hyperparameters.items()}
    if options.get("action_noise") is not None:
        shape = env.action_space.shape or ()
        options["action_noise"] = NormalActionNoise(np.zeros(shape), np.full(shape, options["action_noise"]))
    return options


def _policy(recipe: Recipe, config: Network, tables: Tables | None) -> dict[str, object]:
    """The policy's options: our encoder, and heads of rectifiers."""
    kind = ALGORITHMS[recipe.algorithm].kind
    critic = "qf" if issubclass(kind, OffPolicyAlgorithm) else "vf"
    options: dict[str, object] = {
        "features_extractor_class": EncoderExtractor,
        "features_extractor_kwargs": {"config": config, "tables": tables},
        "net_arch": {"pi": list(recipe.heads), critic: list(recipe.heads)},
        "activation_fn": nn.ReLU,
    }
    # As wide as the features that it stands behind.
    return options | ({"lstm_hidden_size": config.width} if issubclass(kind, RecurrentPPO) else {})


def _check_environment(name: str, chosen: Algorithm, env: gymnasium.Env[Any, Any] | VecEnv) -> None:
    """Refuse actions the algorithm cannot learn, and masks that are missing."""
    observation_shapes(env.observation_space)
    kind = "continuous" if isinstance(env.action_space, spaces.Box) else "discrete"
    if chosen.actions not in ("either", kind):
        others = [other for other in ALGORITHMS if ALGORITHMS[other].actions in ("either", kind)]
        raise ConfigError(
            f"{name} needs {chosen.actions} actions, but the environment's are {kind} ({env.action_space}); "
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
    """One of our encoders as a features extractor; entries (asset, bar, feature) become (asset, bar · feature).

    Entries `passed` (number,) stand behind the features as they are, for heads that read them by themselves.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        config: Network,
        tables: Tables | None = None,
        passed: tuple[str, ...] = (),
    ) -> None:
        shapes = observation_shapes(observation_space)
        super().__init__(observation_space, config.width + sum(shapes[name][0] for name in passed))
        self.tables, self.passed = tables, passed
        complete = shapes if tables is None else tables.shapes(shapes)
        self.shapes = dict(sorted(complete.items()))  # vectors are joined in this order, wherever windows come from
        self.encoder = config.build({name: _flat_shape(shape) for name, shape in self.shapes.items()})

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        entries = self.complete(observations)
        return with_entries(self.encoder(entries), entries, self.passed)

    def complete(self, observations: Tensors) -> dict[str, torch.Tensor]:
        """(batch, …) entries as the encoder takes them."""
        full = observations if self.tables is None else self.tables(observations)
        return {name: entry.flatten(2) if entry.ndim == 4 else entry for name, entry in full.items()}


def _flat_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[1] * shape[2]) if len(shape) == 3 else shape


def _extractors(algorithm: AnyAlgorithm) -> list[EncoderExtractor]:
    return [module for module in algorithm.policy.modules() if isinstance(module, EncoderExtractor)]


# ---- learning -------------------------------------------------------------------------------------------------------


def learn(algorithm: AnyAlgorithm, steps: int, callbacks: Sequence[BaseCallback] = (), **options: Any) -> AnyAlgorithm:
    """Train for `steps` environment steps with the normaliser kept up to date; `options` go to SB3's own `learn`."""
    env = algorithm.env
    extras = env.extras if isinstance(env, VectorAdapter) else None
    more = [] if extras is None else [ExtrasCallback(extras)]
    # The normaliser first: its counts come into force before any other callback looks at the policy.
    return algorithm.learn(steps, callback=CallbackList([NormaliserCallback(), *more, *callbacks]), **options)


class NormaliserCallback(BaseCallback):
    """Counts what the environments show; the counts come into force when a rollout starts.

    So the probabilities that a rollout stores and those of the update it feeds are computed on equal inputs.
    """

    def _on_rollout_start(self) -> None:
        _commit(self.model)

    def _on_step(self) -> bool:
        _observe(self.model, self.locals["new_obs"])
        return True


def fit_normaliser(algorithm: AnyAlgorithm, observations: Observation) -> None:
    """Count a batch of observations, e.g. a sample of the training set, and put it into force."""
    _observe(algorithm, observations)
    _commit(algorithm)


def _observe(algorithm: AnyAlgorithm, observation: Observation) -> None:
    first = _extractors(algorithm)[0]
    if _is_learning(first):
        tensors = {name: torch.as_tensor(entry, device=algorithm.device) for name, entry in observation.items()}
        first.encoder.normaliser.observe(first.complete(tensors))


def _commit(algorithm: AnyAlgorithm) -> None:
    """Actor, critic and target networks normalise alike: one counts, the others copy."""
    first, *others = _extractors(algorithm)
    if _is_learning(first):
        first.encoder.normaliser.commit()
    for other in others:
        other.encoder.normaliser.load_state_dict(first.encoder.normaliser.state_dict())


def _is_learning(extractor: EncoderExtractor) -> bool:
    """False for a frozen encoder, which keeps the normaliser it was trained with, also what that had only counted."""
    return bool(extractor.encoder.start.requires_grad)


# ---- acting ---------------------------------------------------------------------------------------------------------


class AlgorithmAgent(Agent):
    """A trained algorithm as an `Agent`; a recurrent one remembers until `reset`."""

    masked: bool

    def __init__(self, algorithm: AnyAlgorithm) -> None:
        self.algorithm = algorithm
        self.masked = isinstance(algorithm, MaskablePPO)
        self.reset()

    def reset(self) -> None:
        """Forget the episode so far."""
        self._memory: tuple[Array, ...] | None = None
        self._starts: Array | None = None

    @property
    def has_memory(self) -> bool:
        """Whether it is recurrent: what it did before changes what it does."""
        return isinstance(self.algorithm.policy, RecurrentActorCriticPolicy)

    def remember(self) -> Memory:
        """What it remembers of the episode so far, for `recall`."""
        return self._memory, self._starts

    def recall(self, remembered: Memory) -> None:
        """Go back to what `remember` gave."""
        self._memory, self._starts = remembered

    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """Actions of one observation or a batch, under its `action_mask` entry where the algorithm masks."""
        masks = {"action_masks": observation.get(ACTION_MASK)} if self.masked else {}
        known = self.algorithm.observation_space  # the mask may come beside what the policy sees
        assert isinstance(known, spaces.Dict)
        inputs = {name: entry for name, entry in observation.items() if name in known.spaces}
        predict: Callable[..., tuple[Array, tuple[Array, ...] | None]] = self.algorithm.predict
        action, self._memory = predict(
            inputs, state=self._memory, episode_start=self._starts, deterministic=deterministic, **masks
        )
        if self._memory is not None:
            # One entry for each environment: from the second bar on, no episode starts until `reset`.
            self._starts = np.zeros(self._memory[0].shape[1], dtype=bool)
        return self.stretch(np.asarray(action))

    def stretch(self, actions: Array) -> Array:
        """The environment's actions for those of the algorithm."""
        env = self.algorithm.env
        return env.stretch(actions) if isinstance(env, VectorAdapter) else actions


# ---- on disk --------------------------------------------------------------------------------------------------------


def save_algorithm(
    algorithm: AnyAlgorithm,
    folder: str | Path,
    header: Mapping[str, object] | None = None,
    state: Mapping[str, object] | None = None,
) -> Path:
    """Store recipe, weights, optimisers and counters, with what else a run's `header` and `state` add."""
    modules, variables = algorithm._get_torch_save_params()
    own = {
        "modules": {name: _reach(algorithm, name).state_dict() for name in modules},
        "variables": {name: _reach(algorithm, name) for name in variables},
        "counters": {name: getattr(algorithm, name) for name in _COUNTERS if hasattr(algorithm, name)},
    }
    content = {"recipe": asdict(_reach(algorithm, "recipe")), "spaces": _spaces(algorithm)}
    return write_state(folder, content | dict(header or {}), own | dict(state or {}))


def load_algorithm(
    folder: str | Path, env: Environment, device: str = "cpu", tables: Tables | None = None
) -> AnyAlgorithm:
    """The stored algorithm on `env`; refuses an environment whose observations or actions differ."""
    header = read_header(folder)
    if "recipe" not in header:
        raise RunError(f"{folder} has no algorithm of {', '.join(ALGORITHMS)}; load it with the tool that wrote it")
    with warnings.catch_warnings():  # to act, it need not have as many environments as it learned in
        warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
        algorithm = _build(configure(Recipe, header["recipe"], "recipe"), env, device, tables)
    if header["spaces"] != _spaces(algorithm):
        raise RunError(
            f"{folder} was trained on {header['spaces']}, but this environment has {_spaces(algorithm)}; "
            "build the environment from the run's own config"
        )
    load_weights(algorithm, read_state(folder))
    return algorithm


def load_weights(algorithm: AnyAlgorithm, state: Mapping[str, Any]) -> None:
    """Put what `save_algorithm` stored of an equal algorithm into this one."""
    for name, content in state["modules"].items():
        _reach(algorithm, name).load_state_dict(content)
    for name, value in state["variables"].items():
        _reach(algorithm, name).data.copy_(value)
    for name, value in state["counters"].items():
        setattr(algorithm, name, value)


def _reach(algorithm: AnyAlgorithm, path: str) -> Any:
    """The attribute at a dotted path, e.g. `policy.optimizer`."""
    value: Any = algorithm
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _spaces(algorithm: AnyAlgorithm) -> dict[str, object]:
    """What the encoder sees and what the policy does: equal whether windows are gathered inside or outside."""
    shapes = _extractors(algorithm)[0].shapes
    entries = {name: list(shapes[name]) for name in sorted(shapes)}
    return {"observation": entries, "action": str(algorithm.action_space)}
