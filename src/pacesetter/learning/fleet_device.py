"""What a fleet needs of a batch on the GPU beside its steps: masks, the starts that wait, and its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pacesetter.envs.batch import REMEMBERED, Batch
from pacesetter.envs.cuda import DeviceBatch
from pacesetter.envs.masks import mask_row
from pacesetter.market.cuda import SIMULATED, cuda, device_view, to_device
from pacesetter.market.orders import Discrete

__all__ = ["FleetDeviceBatch"]

POOL = 8  # place of the starts in a launch's arguments


def mask_rows(
    inputs: Any,
    settings: Any,
    bars: Any,
    parameters: Any,
    accounts: Any,
    positions: Any,
    cursor: Any,
    fills: Any,
    pool: Any,
    offsets: Any,
    context_from: Any,
    nothing: Any,
    masks: Any,
) -> None:
    """The thread that writes the action mask of one environment."""
    e = cuda.grid(1)
    if e < inputs.shape[0]:
        mask_row(e, masks, bars, parameters, accounts, positions, cursor)


mask_on_device = cuda.jit(mask_rows)


class FleetDeviceBatch(DeviceBatch):
    """A batch on the GPU with action masks and state; `pool` (env, 3) is the memory of its starts."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self.pool = to_device(batch.starts.pool)
        self._arguments[POOL] = device_view(self.pool)

    def action_masks(self) -> Any:
        """(env, K · 7) True where a discrete order would be sent at this close."""
        shape = (self.batch.env_count, self.batch.bank.positions_each * len(Discrete))
        if SIMULATED:
            masks: Any = np.empty(shape, dtype=bool)
        else:
            import torch

            masks = torch.empty(shape, dtype=torch.bool, device="cuda")
        self._launch(mask_on_device, masks)
        return masks

    def state_dict(self) -> dict[str, Any]:
        """Copies of all that changes, as `Batch.state_dict`."""
        own = {name: getattr(self, name) + 0 for name in REMEMBERED}
        reward = {} if self._reward is None else self._reward.state_dict()
        return own | {f"reward.{name}": values for name, values in reward.items()}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        for name in REMEMBERED:
            getattr(self, name)[...] = stored[name]
        if self._reward is not None:
            prefix = "reward."
            self._reward.load_state_dict({n.removeprefix(prefix): v for n, v in stored.items() if n.startswith(prefix)})
