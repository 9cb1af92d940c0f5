"""What a lookback batch remembers, to store and to resume from: places, windows, random numbers, curriculum, reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pacesetter.envs.lookback.batch import LookbackBatch
from pacesetter.errors import ConfigError

__all__ = ["load_lookback_state", "lookback_state"]


def lookback_state(batch: LookbackBatch) -> dict[str, object]:
    """Copies of all that changes; synthetic markets are told by their seeds."""
    return {
        "rows": {name: rows.copy() for name, rows in batch.stored_rows.items()},
        "resolutions": [market.resolution for market in batch.markets],
        "markets": [market.seed for market in batch.markets],
        "random": [generator.bit_generator.state for generator in batch.generators],
        "dealer": batch.dealer.state_dict(),
        "reward": batch.reward.state_dict(),
    }


def load_lookback_state(batch: LookbackBatch, stored: Mapping[str, Any]) -> None:
    """Restore what `lookback_state` gave; refuses rows of another shape."""
    for name, rows in batch.stored_rows.items():
        if stored["rows"][name].shape != rows.shape:
            raise ConfigError(f"stored '{name}' does not match this batch of {batch.env_count}; use its own options")
        setattr(batch, name, stored["rows"][name].copy())
    seeds = stored.get("markets", [None] * batch.env_count)
    drawn = batch.dealer.load_state_dict(stored["dealer"], seeds)
    resolutions = stored["resolutions"]
    batch.markets = [own or batch.dealer.market(name) for own, name in zip(drawn, resolutions, strict=True)]
    for generator, state in zip(batch.generators, stored["random"], strict=True):
        generator.bit_generator.state = state
    batch.reward.load_state_dict(stored["reward"])
    # No row is fresh: their encodings were stored and need not be computed again.
    batch._group(np.empty(0, dtype=np.int64))
