"""Stable-Baselines3's hindsight buffer with our goals: rewards of relabelled rows come from the goal's own formula."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from pacesetter.arrays import Array
from pacesetter.methods.goals.goals import HindsightConfig

__all__ = ["GoalReplay", "goal_options"]


class GoalRewards:
    """What the buffer asks of an environment: the rewards of rows whose goals were changed."""

    def __init__(self, options: HindsightConfig) -> None:
        self.options = options

    def env_method(self, name: str, achieved: Array, desired: Array, *_: object, **__: object) -> list[Array]:
        """The rewards (row,), as the only element of a list."""
        return [np.asarray(self.options.reward(achieved, desired))[:, 0]]


class GoalReplay(HerReplayBuffer):
    """`HerReplayBuffer`, with the strategy random beside future and episode.

    Until the first episode has ended it draws rows as they are.
    """

    def __init__(self, *arguments: Any, options: HindsightConfig, env: object, **more: object) -> None:
        strategy = "future" if options.strategy == "random" else options.strategy
        own: dict[str, Any] = more | {"env": env, "n_sampled_goal": options.k, "goal_selection_strategy": strategy}
        super().__init__(*arguments, **own)
        self.options, self.env = options, GoalRewards(options)  # type: ignore[assignment]

    def sample(self, batch_size: int, env: Any = None) -> Any:
        # SB3's buffer refuses to sample before an episode has ended, and learning may start earlier.
        if not (self.ep_length > 0).any():
            return DictReplayBuffer.sample(self, batch_size, env)
        return super().sample(batch_size, env)

    def _sample_goals(self, batch_indices: Array, env_indices: Array) -> Array:
        if self.options.strategy != "random":
            return super()._sample_goals(batch_indices, env_indices)
        rows, envs = np.nonzero(self.ep_length > 0)
        chosen = np.random.randint(len(rows), size=len(batch_indices))  # noqa: NPY002 - as the other strategies draw
        return self.next_observations["achieved_goal"][rows[chosen], envs[chosen]]


def goal_options(options: HindsightConfig | None) -> dict[str, object]:
    """What the constructor of an off-policy algorithm is given for them; nothing where no row is relabelled."""
    if options is None or options.k == 0:
        return {}
    return {"replay_buffer_class": GoalReplay, "replay_buffer_kwargs": {"options": options}}
