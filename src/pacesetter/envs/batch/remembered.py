"""What a batch of environments remembers from step to step, as it is stored and resumed on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import ConfigError
from pacesetter.rewards import Reward

if TYPE_CHECKING:
    from pacesetter.envs.batch.batch import Batch

__all__ = ["PLACE", "check_stored", "load_reward", "on_host", "stored_reward"]

PREFIX = "reward."  # of what the reward remembers, in a stored state
PLACE = [Cursor.BLOCK, Cursor.TIME, Cursor.END]  # the columns of a pool of starts


def check_stored(batch: Batch, stored: Mapping[str, object]) -> dict[str, Array]:
    """The `remembered` of a stored state as NumPy arrays; refuses another shape or kind, and bars not in the bank."""
    given = {name: on_host(stored.get(name)) for name in batch.remembered}
    # A state stored before a market parameter was added can still be resumed.
    given["parameters"] = _with_later_slots(given["parameters"], batch.parameters)
    given["cursor"] = _with_later_columns(given["cursor"], batch.cursor)
    for name, own in batch.remembered.items():
        values = given[name]
        is_alike = values.shape == own.shape and values.dtype == own.dtype
        if not is_alike or (
            own is batch.cursor and not batch.bank.contains_starts(values[:, PLACE], batch.window_bars)
        ):
            raise ConfigError(
                f"stored '{name}' does not match this batch of {batch.env_count}; use the options it was stored with"
            )
    return given


def _with_later_slots(stored: Array, own: Array) -> Array:
    """Stored parameters with the batch's own in the slots that were added since, which come last."""
    if stored.ndim != 3 or stored.shape[:2] != own.shape[:2] or stored.shape[2] >= own.shape[2]:
        return stored
    return np.concatenate([stored, own[:, :, stored.shape[2] :]], axis=2)


def _with_later_columns(stored: Array, own: Array) -> Array:
    """A stored cursor with 0 in the columns that were added since, which are behind all others."""
    if stored.ndim != 2 or len(stored) != len(own) or stored.shape[1] >= own.shape[1]:
        return stored
    return np.pad(stored, ((0, 0), (0, own.shape[1] - stored.shape[1])))


def on_host(values: object) -> Array:
    """An array or a tensor, of whatever device."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def stored_reward(reward: Reward | None) -> dict[str, Array]:
    """What a reward remembers, by names that begin with `reward.`; nothing where the compiled step writes it."""
    return {} if reward is None else {f"{PREFIX}{name}": values for name, values in reward.state_dict().items()}


def load_reward(reward: Reward | None, stored: Mapping[str, Array]) -> None:
    """Restore a reward from what `stored_reward` returned; refuses what does not fit before it changes anything."""
    if reward is not None:
        own = {name: values for name, values in stored.items() if name.startswith(PREFIX)}
        reward.load_state_dict({name.removeprefix(PREFIX): values for name, values in own.items()})
