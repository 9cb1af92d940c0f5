"""Our vector environments as Stable-Baselines3 wants them, with their clock and their state."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorWrapper
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from pacesetter.arrays import Array
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.counterfactual import Counterfactual
from pacesetter.envs.curriculum import course_of
from pacesetter.envs.lookback.batch import LookbackBatch
from pacesetter.envs.lookback.state import load_lookback_state, lookback_state
from pacesetter.envs.vector import Environments
from pacesetter.errors import ConfigError
from pacesetter.learning.fleet.resume import Stateful
from pacesetter.registry import is_installed

if TYPE_CHECKING:
    from pacesetter.learning.sb3.extras import SingleExtras
    from pacesetter.methods.goals.environment import GoalVectorEnv

__all__ = ["VectorAdapter"]

Finals = Mapping[str, Array] | Sequence[Mapping[str, Array]]  # last observations: entries (env, …), or a row each


class VectorAdapter(VecEnv):
    """A Gymnasium vector environment that resets in the same step.

    Continuous actions are numbers in [-1, 1] to the algorithm, whatever box the environment has: a Gaussian policy
    begins with a deviation of 1. `stretch` gives those of the environment.

    The last observation of an episode is read from `infos["final_obs"]`: a row per environment, or a dict of arrays.
    `infos` are those of the latest step, `seconds` the time spent in steps so far. Where `tried` is a list, what every
    discrete order would come to is added to it before each step.
    """

    def __init__(self, env: Environments) -> None:
        if env.metadata.get("autoreset_mode") != gymnasium.vector.AutoresetMode.SAME_STEP:
            raise ConfigError(
                "the vector environment does not reset in the same step; make it with AutoresetMode.SAME_STEP"
            )
        self.env = env
        self.infos: dict[str, Any] = {}
        self.tried: list[Counterfactual] | None = None
        self.seconds = 0.0
        self.returns, self.lengths = np.zeros(env.num_envs), np.zeros(env.num_envs, dtype=np.int64)
        self.extras: SingleExtras | None = None  # change rewards as they are collected
        self._last: Mapping[str, Array] = {}
        self.box = env.single_action_space
        space = self.box
        if isinstance(space, spaces.Box):
            space = spaces.Box(-1.0, 1.0, space.shape, np.float32)
        super().__init__(env.num_envs, env.single_observation_space, space)

    def stretch(self, actions: Array) -> Array:
        """The environment's actions for those of the algorithm (…, number)."""
        if not isinstance(self.box, spaces.Box):
            return actions
        low, high = self.box.low, self.box.high
        # Rounding must not leave the box, which the environment would refuse.
        stretched: Array = np.clip(low + (actions + 1) * ((high - low) / 2), low, high)
        return stretched

    def reset(self) -> dict[str, Array]:
        seeds = self._seeds if self._seeds[0] is not None else None
        observation, _ = self.env.reset(seed=seeds)  # type: ignore[arg-type]
        self._reset_seeds()
        self.returns[:], self.lengths[:] = 0.0, 0
        self._last = observation
        return observation

    def step_async(self, actions: Array) -> None:
        self.actions, self._given = self.stretch(actions), actions

    def step_wait(self) -> tuple[dict[str, Array], Array, Array, list[dict[str, object]]]:
        start = time.perf_counter()
        if self.tried is not None:
            # Before the step: orders are tried where the environments stand now.
            self.tried.append(self.trading.counterfactual())
        observation, rewards, terminated, truncated, self.infos = self.env.step(self.actions)
        done = np.logical_or(terminated, truncated)
        self.returns += rewards
        self.lengths += 1
        rows: list[dict[str, object]] = [{} for _ in range(self.num_envs)]
        for place in np.flatnonzero(done).tolist():
            rows[place] = {
                "terminal_observation": _row(self.infos["final_obs"], place),
                # Stable-Baselines3 bootstraps by this key; a termination in the same step wins.
                "TimeLimit.truncated": bool(truncated[place] and not terminated[place]),
                "episode": {"r": float(self.returns[place]), "l": int(self.lengths[place])},
            }
        self.returns[done], self.lengths[done] = 0.0, 0
        self.seconds += time.perf_counter() - start
        if self.extras is not None:
            # Environments have reset already: `observation` is of the next episode where one ended.
            after = _with_finals(observation, self.infos.get("final_obs", ()), done)
            rewards = self.extras.shape_rewards(self._last, self._given, rewards, after, terminated, done)
            self._last = observation
        return observation, np.asarray(rewards, dtype=np.float32), done, rows

    def state_dict(self) -> dict[str, object]:
        """What batch and curriculum remember, and the episodes so far; refuses an environment without a batch."""
        batch, course = self.batch, course_of(self.env)
        return {
            "batch": lookback_state(batch) if isinstance(batch, LookbackBatch) else batch.state_dict(),
            "course": None if course is None else course.state_dict(),
            "returns": self.returns.copy(),
            "lengths": self.lengths.copy(),
            "goals": None if (goals := _goals(self.env)) is None else goals.state_dict(),
        }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave, without a reset."""
        self.env.reset(seed=0)  # opens the episodes that are then overwritten
        batch = self.batch
        if (course := course_of(self.env)) is not None:
            course.load_state_dict(stored["course"])
        if isinstance(batch, LookbackBatch):
            load_lookback_state(batch, stored["batch"])
        else:
            batch.load_state_dict(stored["batch"])
        self.returns[:], self.lengths[:] = stored["returns"], stored["lengths"]
        if (goals := _goals(self.env)) is not None:
            goals.load_state_dict(stored["goals"])
        self._reset_seeds()

    def resume_at(self, observation: Mapping[str, Array]) -> None:
        """Continue from this observation, which the environments showed last."""
        self._last = observation

    @property
    def batch(self) -> LookbackBatch | Stateful:
        """The arrays behind the environments; refuses environments that have none."""
        batch = getattr(self.env.unwrapped, "batch", None)
        # Stored episodes stand in for environments by rows that say of themselves that they have no state.
        if not isinstance(batch, (LookbackBatch, Stateful)):
            raise ConfigError(f"{type(self.env.unwrapped).__name__} has no batch whose state could be stored")
        return batch

    @property
    def trading(self) -> Batch:
        """The batch of environments that trade."""
        batch = self.batch
        assert isinstance(batch, Batch)
        return batch

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        value = getattr(self.env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: object, indices: object = None) -> None:
        setattr(self.env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: object, indices: VecEnvIndices = None, **method_kwargs: object
    ) -> list[Any]:
        """The rows of what a batch method gives, e.g. `action_masks() -> (env, action)`."""
        rows = getattr(self.env, method_name)(*method_args, **method_kwargs)
        return [rows[place] for place in self._get_indices(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        return [False for _ in self._get_indices(indices)]


def _with_finals(observation: Mapping[str, Array], finals: Finals, done: Array) -> dict[str, Array]:
    """The observation with the last one of its episode where one ended."""
    after = {name: np.array(entry) for name, entry in observation.items()}
    for place in np.flatnonzero(done).tolist():
        for name, value in _row(finals, place).items():
            after[name][place] = value
    return after


def _goals(env: Environments | None) -> GoalVectorEnv | None:
    """The part of an environment that sets goals; None where none does."""
    if not is_installed("pacesetter.methods.goals"):
        return None
    from pacesetter.methods.goals.environment import GoalVectorEnv

    while env is not None and not isinstance(env, GoalVectorEnv):
        env = env.env if isinstance(env, VectorWrapper) else None
    return env


def _row(finals: Finals, place: int) -> Mapping[str, Array]:
    """One environment's last observation."""
    return {name: entry[place] for name, entry in finals.items()} if isinstance(finals, Mapping) else finals[place]
