"""Vector environments with goals: every episode has a return of equity to reach, and its rewards say how near it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space

from pacesetter.arrays import Array
from pacesetter.envs.batch.batch import batch_of
from pacesetter.envs.batch.starts import chosen_rows
from pacesetter.envs.curriculum import Course, course_of
from pacesetter.envs.vector import Environments, VectorStep
from pacesetter.methods.goals.reward import ACHIEVED, DESIRED, Goals

__all__ = ["GoalVectorEnv"]


class GoalVectorEnv(VectorWrapper):
    """A `TradingVectorEnv` or `PortfolioVectorEnv` with goals; where starts are fixed, all aim for `goals.goal`.

    The observation gains `achieved_goal` and `desired_goal`, returns of equity since the episode began, and infos
    `is_success` (env,): whether the return is within the tolerance of the goal now.
    """

    def __init__(self, env: Environments, goals: Goals) -> None:
        super().__init__(env)
        batch, shown = batch_of(env.unwrapped), env.single_observation_space
        assert batch is not None
        assert isinstance(shown, spaces.Dict)
        self.goals, self.batch = goals, batch
        self.achieved = np.zeros((env.num_envs, 1), np.float32)
        self.desired = np.full((env.num_envs, 1), goals.goal, np.float32)
        self.generator = np.random.default_rng(0)
        box = spaces.Box(-1.0, np.float32(np.finfo(np.float32).max), (1,), np.float32)
        self.single_observation_space = spaces.Dict({**shown.spaces, ACHIEVED: box, DESIRED: box})
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Array] | None = None) -> tuple[Any, dict[str, object]]:
        """Begin an episode with a goal of its own in every environment, or where `options["reset_mask"]` says."""
        if seed is not None:
            self.generator = np.random.default_rng(seed)
        observation, infos = self.env.reset(seed=seed, options=options)
        self._begin(chosen_rows((options or {}).get("reset_mask"), self.num_envs))
        return self._add_goals(observation), infos

    def step(self, actions: object) -> VectorStep:
        """Step; rewards are those of the goal, and last observations have the goal of their episode."""
        observation, paid, terminated, truncated, infos = self.env.step(actions)
        self.achieved = (infos["equity"][:, None] / self.batch.market.initial_cash - 1.0).astype(np.float32)
        rewards = self.goals.reward(self.achieved, self.desired)[:, 0]
        infos = infos | {"is_success": self.goals.is_reached(self.achieved, self.desired)[:, 0]}
        ended = terminated | truncated
        for e in np.flatnonzero(ended):
            infos["final_obs"][e] |= {ACHIEVED: self.achieved[e].copy(), DESIRED: self.desired[e].copy()}
        self._begin(ended)
        # A reward of the market that is not a number must reach the fail-safe.
        return self._add_goals(observation), rewards + 0.0 * paid, terminated, truncated, infos

    @property
    def course(self) -> Course | None:
        """The curriculum of the environments; None without one."""
        return course_of(self.env)

    def action_masks(self) -> Array:
        """(env, K · 7) True where a discrete order would be sent now."""
        return self.batch.action_masks()

    def state_dict(self) -> dict[str, object]:
        """Goals, returns and the generator of goals."""
        stored = {"achieved": self.achieved.copy(), "desired": self.desired.copy()}
        return stored | {"generator": self.generator.bit_generator.state}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.achieved, self.desired = np.array(stored["achieved"]), np.array(stored["desired"])
        self.generator.bit_generator.state = stored["generator"]

    def _begin(self, rows: Array) -> None:
        self.achieved = np.where(rows[:, None], np.float32(0.0), self.achieved)
        if not self.batch.starts.is_fixed:
            drawn = self.generator.random((self.num_envs, 1), np.float32) * np.float32(self.goals.cap)
            self.desired = np.where(rows[:, None], drawn, self.desired)

    def _add_goals(self, observation: Mapping[str, Array]) -> dict[str, Array]:
        return {**observation, ACHIEVED: self.achieved.copy(), DESIRED: self.desired.copy()}
