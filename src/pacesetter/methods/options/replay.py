"""Completed options, the latest of each symbol: they last differently, so that symbols have different numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pacesetter.errors import ConfigError

__all__ = ["OptionReplay"]


class OptionReplay:
    """The latest `capacity` completed options of each of `symbols`; `added` (symbol,) counts all that were."""

    def __init__(self, capacity: int, symbols: int, device: torch.device | None = None) -> None:
        self.capacity, self.symbols, self.device = capacity, symbols, device or torch.device("cpu")
        self.entries: dict[str, torch.Tensor] = {}
        self.added = torch.zeros(symbols, dtype=torch.int64, device=self.device)

    def __len__(self) -> int:
        """Options that every symbol has at least."""
        return int(self.added.min().clamp(max=self.capacity))

    def add(self, is_added: torch.Tensor, options: Mapping[str, torch.Tensor]) -> None:
        """Keep the rows (env, …), environments of a symbol side by side, where `is_added` (env,)."""
        by_symbol = is_added.view(self.symbols, -1).long()
        # Each takes the place after the one before it in its symbol; a ring, the newest over the oldest.
        places = (self.added[:, None] + by_symbol.cumsum(1) - 1) % self.capacity
        rows = torch.nonzero(is_added).squeeze(1)
        symbol = rows // (len(is_added) // self.symbols)
        place = places.flatten()[rows]
        for name, entry in options.items():
            if name not in self.entries:
                self.entries[name] = entry.new_zeros(self.symbols, self.capacity, *entry.shape[1:])
            self.entries[name][symbol, place] = entry[rows]
        self.added += by_symbol.sum(1)

    def sample(self, batch_size: int) -> dict[str, torch.Tensor]:
        """Entries (symbol · batch_size, …), those of a symbol side by side; refuses to draw from nothing."""
        if len(self) == 0:
            raise ConfigError("there is no completed option to draw yet; collect some first")
        filled = self.added.clamp(max=self.capacity)[:, None]
        # A share of what each symbol has: symbols complete different numbers, and randint takes one bound for all.
        shares = torch.rand(self.symbols, batch_size, dtype=torch.float64, device=self.device)
        places = (shares * filled).long()
        symbol = torch.arange(self.symbols, device=self.device)[:, None]
        return {name: entry[symbol, places].flatten(0, 1) for name, entry in self.entries.items()}

    def state_dict(self) -> dict[str, Any]:
        """The filled part."""
        most = int(self.added.max().clamp(max=self.capacity))
        return {"added": self.added, "entries": {name: entry[:, :most] for name, entry in self.entries.items()}}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        self.added, self.entries = stored["added"].to(self.device).clone(), {}
        for name, entry in stored["entries"].items():
            shape = (self.symbols, self.capacity, *entry.shape[2:])
            self.entries[name] = torch.zeros(shape, dtype=entry.dtype, device=self.device)
            self.entries[name][:, : entry.shape[1]] = entry
