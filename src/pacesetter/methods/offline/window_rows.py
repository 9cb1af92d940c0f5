"""Stored episodes where environments would be: their spaces and rows, and nothing that could be stepped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.methods.offline.rows import StoredRows

__all__ = ["StoredWindows"]


class StoredWindows(VectorEnv[dict[str, Array], Array, Array]):
    """The observation and action space of a dataset, with its rows.

    batch   the rows again: what a checkpoint asks for the state of, and they have none
    """

    metadata: dict[str, object] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, rows: StoredRows) -> None:
        self.rows = self.batch = rows
        self.num_envs = 1
        boxes: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(-np.inf, np.inf, tuple(entry.shape[1:]), np.float32)
            for name, entry in rows.observation.items()
        }
        self.single_observation_space = spaces.Dict(boxes)
        self.single_action_space = spaces.Discrete(int(rows.actions or 0))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, object] | None = None
    ) -> tuple[dict[str, Array], dict[str, object]]:
        """The first stored observation."""
        return {name: entry.cpu().numpy() for name, entry in self.rows.reset().items()}, {}

    def step(self, actions: Array) -> Any:
        """Refused: an offline learner is never handed a market."""
        raise ConfigError("stored episodes cannot be stepped; use agent=ppo or full_information to learn in a market")
