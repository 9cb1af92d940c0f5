"""Many accounts on an NVIDIA GPU: numba-cuda compiles the very same functions, on memory shared with torch."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np

from pacesetter.arrays import Array, DeviceArray
from pacesetter.compiled import load_numba
from pacesetter.errors import ConfigError
from pacesetter.market.batch import Accounts
from pacesetter.market.orders import OrderKind, check_actions
from pacesetter.market.rows import open_row, step_row

__all__ = [
    "SIMULATED",
    "DeviceAccounts",
    "KernelLauncher",
    "by_column",
    "cuda",
    "device_view",
    "thread_for_each",
    "to_device",
]

THREADS = 128


class Kernel(Protocol):
    """A function that numba-cuda compiles: `kernel[blocks, threads, stream](*arrays)`."""

    def __getitem__(self, launch: tuple[int, int, object], /) -> Callable[..., object]: ...
    def specialize(self, *arrays: object) -> Kernel: ...


load_numba()
cuda: Any = import_module("numba.cuda")  # by name, since its type hints do not know `grid`
import_module("numba.core.typing.arraydecl")  # its rules index an array by an IntEnum; those of numba-cuda do not
SIMULATED: bool = import_module("numba.core.config").ENABLE_CUDASIM


def open_rows(
    accounts: Array,
    positions: Array,
    ledger: Array,
    fills: Array,
    times: Array,
    parameters: Array,
    chosen: Array,
    at: Array,
) -> None:
    """The thread that opens one account, if it is chosen."""
    e = cuda.grid(1)
    if e < accounts.shape[0]:
        open_row(e, accounts, positions, ledger, fills, times, parameters, chosen, at)


def step_rows(
    accounts: Array,
    positions: Array,
    ledger: Array,
    fills: Array,
    bars: Array,
    times: Array,
    columns: Array,
    actions: Array,
    kinds: Array,
    parameters: Array,
) -> None:
    """The thread that steps one account as often as there are rows of actions (step, env, K)."""
    e = cuda.grid(1)
    if e < accounts.shape[0]:
        for s in range(actions.shape[0]):
            step_row(e, accounts, positions, ledger, fills, bars, times, columns, actions[s], kinds, parameters)
            times[e] += 1


open_on_device: Kernel = cuda.jit(open_rows)
step_on_device: Kernel = cuda.jit(step_rows)


class DeviceAccounts:
    """Accounts whose arrays are CUDA tensors of torch, without copies on either side; NumPy arrays in the simulator.

    Made from `Accounts`, whose state it takes over. All accounts have one order kind.
    """

    def __init__(self, accounts: Accounts) -> None:
        self.kind = OrderKind(accounts.kinds[0])
        if (accounts.kinds != self.kind).any():
            raise ConfigError("accounts on a device share one order kind; give them the same `kind`")
        self.bars = to_device(accounts.bars)
        self.times = to_device(accounts.times)
        self.columns = to_device(accounts.columns)
        self.kinds = to_device(accounts.kinds)
        self.parameters = to_device(accounts.parameters)
        self.accounts = by_column(accounts.accounts)
        self.positions = by_column(accounts.positions)
        self.ledger = by_column(accounts.ledger)
        self.fills = by_column(accounts.fills)
        self.shorting = bool(accounts.shorting)
        # What a launch takes, made once: torch tensors would be wrapped again at every launch.
        rows = (self.accounts, self.positions, self.ledger, self.fills)
        self._open_arguments = [device_view(array) for array in (*rows, self.times, self.parameters)]
        self._step_arguments = [device_view(array) for array in (*rows, self.bars, self.times, self.columns)]
        self._rules = [device_view(array) for array in (self.kinds, self.parameters)]

    def step(self, actions: DeviceArray, *, check: bool = True) -> None:
        """Step all accounts by `actions` (env, K), or by (step, env, K) in one launch; the ledger keeps the last.

        `check` refuses a NaN, an action outside its box and a step beyond the last bar, at the price of waiting for
        the device.
        """
        sequence = actions if len(actions.shape) == 3 else actions[None]
        if tuple(sequence.shape[1:]) != tuple(self.positions.shape[:2]):
            fitting = tuple(self.positions.shape[:2])
            raise ConfigError(f"actions have shape {tuple(actions.shape)}; give (account, position) = {fitting}")
        if check:
            check_actions(sequence, self.kind, self.shorting)
            if int(self.times.max()) + len(sequence) >= len(self.bars):
                raise ConfigError(f"{len(sequence)} steps go beyond the last bar, {len(self.bars) - 1}; open again")
        self._launch(step_on_device, *self._step_arguments, device_view(sequence), *self._rules)

    def open(self, chosen: DeviceArray, at: DeviceArray) -> None:
        """Start the `chosen` (env,) accounts over at the close of bars `at` (env,), both on the device."""
        self._launch(open_on_device, *self._open_arguments, device_view(chosen), device_view(at))

    def _launch(self, kernel: Kernel, *arrays: object) -> None:
        kernel[-(-len(self.accounts) // THREADS), THREADS, current_stream()](*arrays)


def thread_for_each(row: Callable[..., object]) -> Kernel:
    """The kernel of a function `row(e, *arrays)`: a thread for each e, as many as the first array has rows."""

    def rows(arrays: tuple[Array, ...]) -> None:
        e = cuda.grid(1)
        # The last block of threads is rarely full.
        if e < arrays[0].shape[0]:
            row(e, *arrays)

    kernel: Kernel = cuda.jit(rows)
    return kernel


class KernelLauncher:
    """Launches kernels of `thread_for_each`, each for arrays of the types that it was first given."""

    def __init__(self) -> None:
        self._kernels: dict[Kernel, Kernel] = {}

    def __call__(self, rows: Kernel, *arrays: DeviceArray) -> None:
        if rows not in self._kernels:  # compiled for these types once: looking at them takes longer than many a step
            self._kernels[rows] = rows.specialize(arrays)
        # On torch's own stream, so that both see each other's results without waiting.
        self._kernels[rows][-(-arrays[0].shape[0] // THREADS), THREADS, current_stream()](arrays)


def to_device(array: object) -> DeviceArray:
    """A copy of the array as a torch tensor on the device."""
    if SIMULATED:
        return np.array(array)
    import torch

    return cast("DeviceArray", torch.tensor(array, device="cuda"))


def by_column(array: Array, axis: int = 0) -> DeviceArray:
    """The same, with one column of all along `axis` side by side in memory, as neighbouring threads read it."""
    if SIMULATED:
        return to_device(array)
    import torch

    laid_out = torch.tensor(np.moveaxis(array, axis, -1).copy(), device="cuda")
    return cast("DeviceArray", laid_out.movedim(-1, axis))


def device_view(array: DeviceArray) -> DeviceArray:
    """The tensor's memory as numba sees it, without a copy."""
    return array if SIMULATED else cast("DeviceArray", cuda.as_cuda_array(array))


def current_stream() -> object:
    """torch's current stream, so that its work and ours stay in order."""
    if SIMULATED:
        return 0
    import torch

    stream: object = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    return stream
