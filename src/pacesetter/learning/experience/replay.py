"""Replay on the device: the latest steps of all environments, observations as indices, drawn symbol by symbol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pacesetter.errors import ConfigError

__all__ = ["FOLLOWING", "OBSERVATION", "Replay"]

OBSERVATION, FOLLOWING = "observation.", "following."  # before the names of entries seen before and after a step


class Replay:
    """The latest `capacity` steps of `symbols` × `envs_each` environments, entries by name."""

    def __init__(self, capacity: int, symbols: int, envs_each: int, device: torch.device | None = None) -> None:
        if capacity < 1:
            raise ConfigError(f"a replay of {capacity} steps is empty; give 1 or more")
        self.capacity, self.symbols, self.envs_each = capacity, symbols, envs_each
        self.device = device or torch.device("cpu")
        self.entries: dict[str, torch.Tensor] = {}
        self.added = 0

    def __len__(self) -> int:
        """Steps of each environment that it holds."""
        return min(self.added, self.capacity)

    def add(self, step: Mapping[str, torch.Tensor]) -> None:
        """Keep one step, entries (env, …), in place of the oldest when full."""
        for name, entry in step.items():
            if name not in self.entries:  # a replay of an earlier version may lack some: its old rows stay 0
                self.entries[name] = entry.new_zeros(self.capacity, *entry.shape)
            # A ring: the newest step takes the place of the oldest.
            self.entries[name][self.added % self.capacity] = entry
        self.added += 1

    def sample(self, batch_size: int) -> dict[str, torch.Tensor]:
        """Entries (symbol · batch_size, …), those of a symbol side by side; refuses to draw from nothing."""
        return self.at(*self.draw(batch_size))

    def draw(self, batch_size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(symbol, batch_size) places of rows: steps of the ring and environments."""
        if not self.added:
            raise ConfigError("the replay is empty; add steps first")
        device = next(iter(self.entries.values())).device
        shape = (self.symbols, batch_size)
        steps = torch.randint(len(self), shape, device=device)
        envs = torch.randint(self.envs_each, shape, device=device)
        # Each symbol draws from its own environments only: heads must not learn from another's rows.
        envs += self.envs_each * torch.arange(self.symbols, device=device)[:, None]
        return steps, envs

    def at(self, steps: torch.Tensor, envs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Entries (symbol · row, …) of the rows at (symbol, row) places."""
        return {name: entry[steps, envs].flatten(0, 1) for name, entry in self.entries.items()}

    def state_dict(self) -> dict[str, Any]:
        """The filled part."""
        # Unfilled rows are left out: early checkpoints stay small.
        return {"added": self.added, "entries": {name: entry[: len(self)] for name, entry in self.entries.items()}}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        self.added, self.entries = stored["added"], {}
        for name, entry in stored["entries"].items():
            # At full capacity again: what was stored is the filled part, and the ring goes on behind it.
            self.entries[name] = torch.zeros(self.capacity, *entry.shape[1:], dtype=entry.dtype, device=self.device)
            self.entries[name][: len(entry)] = entry
