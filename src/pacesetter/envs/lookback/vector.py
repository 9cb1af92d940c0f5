"""Many lookback environments as one Gymnasium vector environment, stepped by one batch over shared tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from pacesetter.arrays import Array
from pacesetter.envs.batch.starts import WHOLE
from pacesetter.envs.lookback.batch import LookbackConfig, LookbackStep, lookback_config
from pacesetter.envs.lookback.environment import action_space, observation_space
from pacesetter.envs.single import check_reset
from pacesetter.panel import Panel

__all__ = ["LookbackVectorEnv"]

Observation = dict[str, Array]


class LookbackVectorEnv(VectorEnv[Observation, Array, Array]):
    """`num_envs` environments that restart in the step in which they end; row e with seed s + e is `LookbackEnv` of it.

    `infos` has an array per name of `LookbackEnv`'s info. Where an episode ended, `final_obs` holds the last
    observations, `_final_obs` says of which rows, and `final_action_mask` is theirs.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self, panel: Panel, num_envs: int = 1, config: LookbackConfig | None = None, **options: object
    ) -> None:
        self.batch = lookback_config(config, **options).make_batch(panel, num_envs)
        self.num_envs = num_envs
        self.single_observation_space = observation_space(self.batch)
        self.single_action_space = action_space(self.batch.config.windows)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment, or where `options["reset_mask"]` says; a seed s gives row e s + e."""
        check_reset(options, "reset_mask")
        seeds = range(seed, seed + self.num_envs) if isinstance(seed, WHOLE) else seed
        self.batch.reset(seeds, (options or {}).get("reset_mask"))
        return self.batch.observe(), {"bar": self.batch.t.copy(), "lookback": self.batch.lookback.copy()}

    def step(self, actions: Array) -> tuple[Observation, Array, Array, Array, dict[str, Any]]:
        """Step every environment; those that end are restarted at once."""
        batch = self.batch
        step = batch.step(actions)
        infos = self._infos(actions, step)
        observation = batch.observe()  # before the restart: of ended rows this is the last observation
        ended = np.flatnonzero(step.truncated)
        if len(ended):
            infos |= {"final_obs": observation, "_final_obs": step.truncated}
            if batch.config.windows.space == "discrete":
                infos["final_action_mask"] = batch.masks()
            for mean_reward in (batch.total[ended] / batch.decisions[ended]).tolist():
                batch.dealer.record_episode(mean_reward)
            batch.restart(ended)
            observation = batch.observe()
        return observation, step.reward.total, np.zeros(self.num_envs, dtype=bool), step.truncated, infos

    def action_masks(self) -> Array:
        """(env, action) True where a discrete action is feasible as it is."""
        return self.batch.masks()

    def _infos(self, actions: Array, step: LookbackStep) -> dict[str, object]:
        names = self.batch.reward.names
        entered, left = self.batch.universe_changes(step.bars)
        return {
            "raw_action": np.array(actions),
            "asked": step.asked,
            "lookback": step.lookback,
            "clamped": step.clamped,
            "bar": step.bars,
            "reward": dict(zip(names, step.reward.raw.T, strict=True)),
            "shaped_reward": dict(zip(names, step.reward.shaped.T, strict=True)),
            "reward_weights": dict(zip(names, step.reward.weights.tolist(), strict=True)),
            "entered": entered,
            "left": left,
            "troubled": step.troubled,
        }
