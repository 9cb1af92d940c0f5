"""Lookback environments as a market of one agent, so that its episodes are recorded and learned like a fleet's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.experience.market import FleetStep

__all__ = ["WINDOWS", "WindowMarket"]

WINDOWS = "windows"  # the one agent, where a fleet has symbols
LARGEST_SEED = 2**31 - 1


class WindowMarket:
    """A `LookbackVectorEnv` whose discrete choices one agent makes; its observations are whole, without tables."""

    symbols = (WINDOWS,)
    device = torch.device("cpu")

    def __init__(self, env: Any) -> None:
        if env.batch.config.windows.space != "discrete":
            raise ConfigError(
                "task.windows.space=continuous cannot be recorded; stored windows are choices: use discrete"
            )
        self.env, self.actions = env, int(env.single_action_space.n)
        self.envs_each = self.env_count = int(env.num_envs)
        nothing = np.zeros((1, 1, 1, 0), np.float32)
        self.tables = Tables(nothing, nothing, {}, 1, False)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of an observation's entries."""
        return {name: tuple(entry.shape or ()) for name, entry in self.env.single_observation_space.items()}

    def reset(self) -> dict[str, torch.Tensor]:
        """Begin an episode in every environment, with a seed from torch's generator, as a fleet's market does."""
        return _tensors(self.env.reset(seed=int(torch.randint(LARGEST_SEED, (1,))))[0])

    def step(self, actions: torch.Tensor) -> FleetStep:
        """Step all environments; windows trade nothing, so that returns, costs and trades are 0."""
        observation, rewards, terminated, truncated, infos = self.env.step(actions.cpu().numpy())
        nothing = torch.zeros(self.env_count)
        parts = np.stack(list(infos["reward"].values()), axis=1)
        return FleetStep(
            observation=_tensors(observation),
            rewards=torch.as_tensor(np.array(rewards, np.float32)),
            returns=nothing,
            costs=nothing,
            trades=nothing > 0,
            terminated=torch.as_tensor(np.array(terminated)),
            truncated=torch.as_tensor(np.array(truncated)),
            finals=_tensors(infos.get("final_obs", observation)),
            objectives=torch.as_tensor(np.nan_to_num(parts).astype(np.float32)),
        )


def _tensors(observation: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    # Copies: environments may write into their arrays at the next step.
    return {name: torch.as_tensor(np.array(entry, np.float32)) for name, entry in observation.items()}
