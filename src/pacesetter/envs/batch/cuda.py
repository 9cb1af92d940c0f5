"""A batch of environments on an NVIDIA GPU: the same rows compiled by numba-cuda, on tensors that torch shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from pacesetter.arrays import DeviceArray
from pacesetter.envs.batch.batch import GROWTH, LEDGER_SIZE, OUTCOME_SIZE, Batch, Step
from pacesetter.envs.batch.counterfactual import Counterfactual, repeated_reward
from pacesetter.envs.batch.loops import restart_where
from pacesetter.envs.batch.masks import limit_row, mask_row
from pacesetter.envs.batch.remembered import check_stored, load_reward, stored_reward
from pacesetter.envs.batch.rows import DISCRETE_COUNT, Cursor, Outcome, step_row, try_row
from pacesetter.envs.batch.sizing import (
    BatchSizer,
    check_stored_sizes,
    finish_row,
    show_row,
    size_views_row,
)
from pacesetter.errors import ConfigError
from pacesetter.market.cuda import SIMULATED, KernelLauncher, by_column, device_view, thread_for_each, to_device
from pacesetter.market.risk import RiskColumn, RiskSlot
from pacesetter.rewards.cuda import DeviceReward

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DeviceBatch"]


Row = Callable[..., object]
KERNELS: tuple[Row, ...] = (
    step_row,
    restart_where,
    mask_row,
    limit_row,
    try_row,
    size_views_row,
    show_row,
    finish_row,
)
step_rows, restart_rows, mask_rows, limit_rows, try_rows, *sizing_rows = map(thread_for_each, KERNELS)
size_rows, show_rows, finish_rows = sizing_rows


class DeviceBatch:
    """`batch` with all its arrays on the GPU; what a step gives are torch tensors (NumPy arrays in the simulator).

    Takes over where the batch stands. The arrays of accounts, and only those, are laid out with neighbouring
    environments side by side, as neighbouring threads read them. `pool` (start, 3) is the memory of its starts.
    """

    def __init__(self, batch: Batch) -> None:
        if batch.market.holdings:
            raise ConfigError("market.holdings are booked on the CPU only; set train.device=cpu, or leave them out")
        self.batch, bank = batch, batch.bank
        self.inputs, self.accounts, self.positions = map(by_column, (batch.inputs, batch.accounts, batch.positions))
        self.cursor, self.fills = by_column(batch.cursor), by_column(batch.fills)
        self.parameters = by_column(batch.parameters, axis=1)
        self.windows, self.context = to_device(bank.windows), to_device(bank.context)
        self._reward = None
        if not batch.is_pnl_only:
            self._reward = DeviceReward(batch.reward, batch.env_count)
            load_reward(self._reward, batch.state_dict())  # in the middle of an episode it remembers what came before
        self.pool = to_device(batch.starts.pool)
        settings, bars, offsets = map(to_device, (batch.settings, bank.bars, batch.starts.offsets))
        state = (settings, bars, self.parameters, self.accounts, self.positions, self.cursor)
        self._inputs, self._fills, *self._state = map(device_view, (self.inputs, self.fills, *state))
        self._starts = (device_view(self.pool), device_view(offsets))
        nothing = device_view(to_device(np.zeros((0, 1, 1), np.float32)))  # windows are left to torch
        self._tables = (nothing, device_view(self.context), nothing, nothing)
        self._launch = KernelLauncher()
        self.sizer = None if batch.sizer is None else DeviceSizer(batch.sizer, self)

    def reset(self) -> dict[str, DeviceArray]:
        """Begin an episode in every environment."""
        vectors, everyone = self._vectors(), to_device(np.ones(self.batch.env_count, dtype=bool))
        self._launch(restart_rows, device_view(everyone), *self._state, device_view(vectors), *self._starts)
        if self.sizer is not None:
            self.sizer.forget()
            self.sizer.show(vectors[0])
        if self._reward is not None:
            self._reward.reset(slice(None))
        return self._observation(vectors[0])

    def step(self, actions: DeviceArray | Tensor, *, check: bool = True) -> Step:
        """Step every environment; `check` refuses an action outside the box, at the price of waiting for the GPU."""
        if tuple(actions.shape) not in self.batch.action_shapes:
            raise self.batch.misfit()
        # Written into the same memory: the kernel was given its address once.
        self.inputs[...] = actions.reshape(self.inputs.shape)
        if check:
            self._check()
        if self.sizer is not None:
            self.sizer.size()
        ledger, outcome = (
            _new_memory((self.batch.env_count, LEDGER_SIZE)),
            _new_memory((OUTCOME_SIZE, self.batch.env_count), 1),
        )
        vectors = self._vectors()
        written = (device_view(ledger), self._fills, device_view(outcome), device_view(vectors))
        self._launch(step_rows, self._inputs, *self._state, *written, *self._starts, *self._tables)
        terminated, truncated = outcome[Outcome.TERMINATED] != 0, outcome[Outcome.TRUNCATED] != 0
        if self.sizer is not None:
            self.sizer.finish(terminated | truncated, ledger, vectors[1])
            self.sizer.show(vectors[0])
        rewards, components = outcome[Outcome.REWARD], outcome[GROWTH]
        if self._reward is not None:
            values = self._reward(ledger, terminated | truncated)
            self._reward.reset(terminated | truncated)
            rewards, components = values.total, values.raw.T
        return Step(self._observation(vectors[0]), rewards, terminated, truncated, components, ledger, vectors[1])

    def action_masks(self) -> DeviceArray:
        """(env, K · 7) True where a discrete order would be sent at this close; refuses other actions."""
        masks = _new_memory(self.batch.mask_shape, axis=1, dtype="bool")
        self._launch(mask_rows, device_view(masks), *self._state[1:])
        if self.batch.repetition_limit is not None:
            self._launch(limit_rows, device_view(masks), self._state[0], self._state[-1])
        return masks

    def counterfactual(self) -> Counterfactual:
        """What each of the seven orders would come to in every environment, which stays as it is."""
        rows, (_, width, entries) = self.batch.env_count * DISCRETE_COUNT, self.positions.shape
        ledger, outcome = _new_memory((rows, LEDGER_SIZE)), _new_memory((OUTCOME_SIZE, rows), 1)
        vectors = _new_memory((rows, self.batch.builder.vector_size), dtype="float32")
        copies = (_new_memory((rows, self.accounts.shape[1])), _new_memory((rows, width, entries)))
        written = (*copies, ledger, _new_memory((rows, width, self.fills.shape[2])), outcome, vectors)
        arrays = (device_view(_new_memory((rows, width))), *self._state, *map(device_view, written))
        self._launch(try_rows, *arrays)
        rewards = outcome[Outcome.REWARD] if self._reward is None else repeated_reward(self._reward)(ledger).total
        shape, ended = (self.batch.env_count, DISCRETE_COUNT), outcome[Outcome.TERMINATED] != 0
        places = self.cursor[:, : Cursor.FINAL_BLOCK] + to_device(np.array([0, 1]))
        return Counterfactual(rewards.reshape(shape), ended.reshape(shape), vectors.reshape(*shape, -1), places)

    def state_dict(self) -> dict[str, DeviceArray]:
        """Copies of all that changes, as `Batch.state_dict`."""
        sized = {} if self.sizer is None else self.sizer.state_dict()
        return {name: rows + 0 for name, rows in self._remembered.items()} | stored_reward(self._reward) | sized

    @property
    def _remembered(self) -> dict[str, DeviceArray]:
        return {
            "accounts": self.accounts,
            "positions": self.positions,
            "parameters": self.parameters,
            "cursor": self.cursor,
        }

    def load_state_dict(self, stored: Mapping[str, DeviceArray]) -> None:
        """Restore what `state_dict` gave, here or on the CPU; refuses what `Batch.load_state_dict` refuses."""
        given = check_stored(self.batch, stored)
        load_reward(self._reward, stored)
        if self.sizer is not None:
            self.sizer.load_state_dict(stored)
        for name, rows in self._remembered.items():
            rows[...] = to_device(given[name])

    def _check(self) -> None:
        low, high = self.batch.action_range
        fits = (self.inputs >= low) & (self.inputs <= high)
        if self.batch.action == "discrete":
            fits &= self.inputs == self.inputs.round()
        if not bool(fits.all()):
            raise ConfigError(
                f"an action is NaN or outside its box; a {self.batch.action} action must be from {low:g} to {high:g}"
            )

    def _observation(self, vectors: DeviceArray) -> dict[str, DeviceArray]:
        index = self.cursor[:, : Cursor.FINAL_BLOCK] + 0  # a copy: the cursor moves on
        windows: DeviceArray | None = None
        context: DeviceArray | None = None
        if self.batch.has_windows:
            block, t = index[:, 0], index[:, 1]
            bars = t[:, None] + to_device(np.arange(1 - self.batch.window_bars, 1))
            # Windows are left to torch's gather; the kernel handles accounts only.
            windows = self.windows[block[:, None], :, bars].swapaxes(1, 2)
            context = self.context[block, t]
        return self.batch.builder.arrange(vectors, index, windows, context)

    def _vectors(self) -> DeviceArray:
        return _new_memory((2, self.batch.env_count, self.batch.builder.vector_size), axis=1, dtype="float32")


class DeviceSizer:
    """The risk step of a `DeviceBatch`: the arrays of its `BatchSizer` on the GPU, from where they stand."""

    def __init__(self, sizer: BatchSizer, device: DeviceBatch) -> None:
        self.sizer, self.inputs, self._launch = sizer, device.inputs, KernelLauncher()
        self.base_quantities, self.sizes = by_column(sizer.base_quantities), by_column(sizer.sizes)
        self._targets = by_column(sizer.targets)
        _, bars, parameters, accounts, positions, self._cursor = device._state
        self._tables = tuple(map(device_view, map(to_device, sizer.tables)))
        self._risk, self._rules = device_view(to_device(sizer.risk)), parameters
        self._own, self._sizes = device_view(self.base_quantities), device_view(self.sizes)
        self._account, self._bars = (accounts, positions), bars
        self._written = (device_view(by_column(sizer.wanted)), device_view(self._targets), self._sizes)

    def size(self) -> None:
        """Replace the views in the inputs of the batch by targets."""
        state = (self._cursor, self._own, *self._account, self._bars, self._risk, self._rules)
        self._launch(size_rows, device_view(self.inputs), *self._tables, *state, *self._written)
        self.inputs[...] = self._targets

    def show(self, vectors: DeviceArray) -> None:
        """Let agents see their own position in the account vectors (env, size)."""
        state = (*self._account, self._cursor, self._bars)
        self._launch(show_rows, device_view(vectors), self._own, *state, self._sizes)

    def finish(self, has_ended: DeviceArray, ledger: DeviceArray, finals: DeviceArray) -> None:
        """The same in `finals` where episodes (env,) ended, which begin without a base again."""
        written = device_view(ledger), self._cursor, self._bars, self._risk, self._own, self._sizes
        self._launch(finish_rows, device_view(has_ended), device_view(finals), *written)

    def forget(self) -> None:
        """Begin all accounts without a base."""
        self.base_quantities[...] = 0.0
        self.sizes[...] = 0.0
        self.sizes[:, RiskColumn.SCALE] = float(self.sizer.risk[RiskSlot.SCALE])

    def state_dict(self) -> dict[str, DeviceArray]:
        """Copies of what changes, as `BatchSizer.state_dict`."""
        return {f"risk.{name}": rows + 0 for name, rows in self._remembered.items()}

    @property
    def _remembered(self) -> dict[str, DeviceArray]:
        return {"base_quantities": self.base_quantities, "sizes": self.sizes}

    def load_state_dict(self, stored: Mapping[str, object]) -> None:
        """Restore what `state_dict` gave, here or on the CPU."""
        given = check_stored_sizes(self.sizer, stored)
        for name, rows in self._remembered.items():
            rows[...] = to_device(given[name])


def _new_memory(shape: tuple[int, ...], axis: int = 0, dtype: str = "float64") -> DeviceArray:
    """New memory of the device in the same layout."""
    if SIMULATED:
        return np.empty(shape, dtype)
    import torch

    order = [size for place, size in enumerate(shape) if place != axis] + [shape[axis]]
    kinds = {"float64": torch.float64, "float32": torch.float32, "bool": torch.bool}
    return cast("DeviceArray", torch.empty(order, dtype=kinds[dtype], device="cuda").movedim(-1, axis))
