"""Where the episodes of an update start: at recent bars, and a share of them at earlier ones."""

from __future__ import annotations

import numpy as np
import torch

from pacesetter.errors import DataError
from pacesetter.learning.experience.market import FleetMarket

__all__ = ["use_starts"]


def use_starts(market: FleetMarket, recent: range, earlier: list[int], share: float, seed: int) -> None:
    """Let episodes start at recent bars, and a share of them at earlier ones; refuses where no start is left."""
    generator, groups = np.random.default_rng(seed), []
    pool = market.pool.cpu().numpy()
    offsets, counts = market.offsets.flatten().tolist(), market.counts.flatten().tolist()
    for symbol, offset, count in zip(market.symbols, offsets, counts, strict=True):
        own = pool[offset : offset + count]
        new, old = own[np.isin(own[:, 1], np.array(recent))], own[np.isin(own[:, 1], np.array(earlier))]
        if len(new) == 0:
            raise DataError(f"'{symbol}' has no recent bar to start an episode at; give more online.recent_bars")
        # Starts are drawn evenly from the pool: old ones are added until they are `share` of it.
        wanted = round(share / (1 - share) * len(new)) if share < 1 and len(old) else 0
        drawn = old[generator.integers(0, len(old), wanted)] if wanted else old[:0]
        groups.append(np.concatenate([new, drawn]))
    market.pool = torch.as_tensor(np.concatenate(groups), device=market.device)
    market.counts = torch.tensor([len(group) for group in groups], device=market.device)[:, None]
    market.offsets = market.counts.cumsum(0) - market.counts
