"""The reward of a batch on an NVIDIA GPU: the compiled components by numba-cuda, one thread for each account."""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array, Floats, Integers
from pacesetter.market.cuda import SIMULATED, KernelLauncher, device_view, thread_for_each, to_device
from pacesetter.market.jit import jitable
from pacesetter.rewards.component import Component
from pacesetter.rewards.reward import Reward, RewardConfig, first_hole
from pacesetter.rewards.rows import fill

__all__ = ["DeviceReward"]


@jitable
def reward_row(
    e: int, ledger: Floats, codes: Integers, offsets: Integers, options: Floats, state: Floats, values: Floats
) -> None:
    """Write every compiled component of account e."""
    for c in range(codes.shape[0]):
        fill(c, e, ledger, codes, offsets, options, state, values)


reward_rows = thread_for_each(reward_row)


class DeviceReward(Reward):
    """A reward of the market's ledger whose arrays are CUDA tensors of torch; NumPy arrays in the simulator."""

    def __init__(self, config: RewardConfig, env_count: int) -> None:
        super().__init__(config, env_count, device=None if SIMULATED else "cuda")
        if not SIMULATED:
            # One column of all accounts side by side in memory, as neighbouring threads read it.
            self.state = self.state.T.contiguous().T
        fixed = (self._codes.astype(np.int64), self._offsets.astype(np.int64), self._packed)
        self._fixed, self._launch = [device_view(to_device(array)) for array in fixed], KernelLauncher()

    def again(self, env_count: int) -> DeviceReward:
        return DeviceReward(self.config, env_count)

    def _code(self, part: Component) -> int:
        return part.code

    def _fill(self, ledger: Array, values: Array) -> int:
        hole = first_hole(ledger[:, self._watched])
        # All holes are found before anything is written: a refused step leaves states untouched.
        if hole < 0 and len(self._interpreted) < len(self.names):
            self._launch(reward_rows, device_view(ledger), *self._fixed, device_view(self.state), device_view(values))
        return hole
