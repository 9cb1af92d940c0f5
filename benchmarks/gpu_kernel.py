"""The market kernel on one GPU: the same numbers as the CPU, and account-steps per second at a million accounts.

Runs from the repository root where only torch, numba, numba-cuda and numpy are installed:

    python benchmarks/gpu_kernel.py [--quick] [--record]
"""

from __future__ import annotations

import os
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"  # the comparison with the CPU is small on purpose

if find_spec("pacesetter") is None:  # not installed on a bare GPU machine: its packages are found in src
    package = types.ModuleType("pacesetter")
    package.__path__ = [str(Path(__file__).resolve().parents[1] / "src" / "pacesetter")]
    sys.modules["pacesetter"] = package

from record import publish, seconds, table

from pacesetter.market import Accounts, Column, Costs, Exits, Limits, MarketBars, MarketParameters
from pacesetter.market.batch import step_serial
from pacesetter.market.cuda import DeviceAccounts

TIE = 1e-12  # a relative change of this size in the state must explain a divergence
SAME = 1e-9


def market(bars: int, symbols: int, seed: int) -> MarketBars:
    """A random walk with gaps, halts and thin volume."""
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.02, (bars, symbols)), axis=0))
    open_ = np.vstack([close[:1], close[:-1]]) * np.exp(rng.normal(0, 0.01, close.shape))
    high = np.maximum(open_, close) * np.exp(np.abs(rng.normal(0, 0.01, close.shape)))
    low = np.minimum(open_, close) * np.exp(-np.abs(rng.normal(0, 0.01, close.shape)))
    volume = np.exp(rng.normal(7, 2, close.shape))
    mask = rng.random(close.shape) > 0.02
    return MarketBars.from_arrays(close, open=open_, high=high, low=low, volume=volume, mask=mask)


def every_rule() -> MarketParameters:
    """Parameters that switch every rule of the kernel on."""
    return MarketParameters(
        costs=Costs(minimum_commission=1.0, impact_bps=30.0, interest_bps_per_year=200.0, loan_bps_per_year=500.0),
        limits=Limits(
            gross_leverage=1.5,
            reserve_cash_fraction=0.05,
            volume_cap_fraction=0.1,
            position_loss_limit_fraction=0.15,
            shorting=True,
        ),
        exits=Exits(stop_loss_fraction=0.06, take_profit_fraction=0.1, trailing_stop_fraction=0.05),
    )


def parity(count: int, width: int, steps: int) -> list[Any]:
    """Step CPU and GPU side by side; count accounts that differ by more than 1e-9 of equity and explain each."""
    rng = np.random.default_rng(1)
    bars = market(steps + 2, max(16, width), seed=2)
    columns = rng.integers(0, bars.values.shape[1] - width + 1, count)
    cpu = Accounts(bars, every_rule(), columns=columns, positions_each=width)
    gpu = DeviceAccounts(cpu)
    worst, diverged, ties = 0.0, 0, 0
    for _ in range(steps):
        actions = rng.uniform(-1, 1, (count, width))
        before = (cpu.accounts.copy(), cpu.positions.copy())
        cpu.step(actions)
        gpu.step(torch.as_tensor(actions).cuda())
        gap = difference(cpu.ledger, gpu.ledger.cpu().numpy())
        apart = np.flatnonzero(gap > SAME)
        worst = max(worst, float(gap[gap <= SAME].max(initial=0.0)))
        diverged += len(apart)
        ties += sum(is_tie(cpu, gpu, before, e, actions) for e in apart)
        # Continue the two that parted from the same state again, so that each divergence is seen once.
        cpu.accounts[apart] = gpu.accounts.cpu().numpy()[apart]
        cpu.positions[apart] = gpu.positions.cpu().numpy()[apart]
    return [width, count * steps, worst, diverged, ties]


def difference(ledger: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(env,) largest difference of any ledger column, relative to the larger of 1 and the values."""
    scale = np.maximum(1.0, np.maximum(np.abs(ledger), np.abs(other)))
    money = [Column.GROSS_PNL, Column.NET_PNL, Column.EQUITY_CHANGE, Column.REALISED, Column.UNREALISED, Column.CASH]
    money += [Column.UNREALISED_BEFORE, Column.COST, Column.INTEREST]
    scale[:, money] = np.maximum(1.0, np.abs(ledger[:, [Column.EQUITY_BEFORE]]))
    return (np.abs(ledger - other) / scale).max(axis=1)


def is_tie(cpu: Accounts, gpu: DeviceAccounts, before: tuple[Any, Any], e: int, actions: np.ndarray) -> bool:
    """Whether a change of 1e-12 in the CPU's state before the step makes it do what the GPU did."""
    rng = np.random.default_rng(e)
    tries = 256
    noise = [1 + TIE * rng.uniform(-1, 1, (tries, *array[e].shape)) for array in before]
    accounts, positions = (np.repeat(array[e : e + 1], tries, 0) * by for array, by in zip(before, noise, strict=True))
    ledger, fills = np.zeros((tries, len(Column))), np.zeros((tries, *cpu.fills.shape[1:]))
    times, columns = np.full(tries, cpu.times[e] - 1), np.full(tries, cpu.columns[e])
    step_serial(
        *(accounts, positions, ledger, fills, cpu.bars, times, columns),
        *(np.repeat(actions[e : e + 1], tries, 0), np.full(tries, cpu.kinds[e]), cpu.parameters),
    )
    return bool((difference(ledger, gpu.ledger[e].cpu().numpy()[None]) <= SAME).any())


def speed(count: int, width: int, steps_per_launch: int, repeat: int) -> list[Any]:
    """Account-steps and position-steps per second with the default parameters and orders from a tensor."""
    rng = np.random.default_rng(3)
    bars = market(2_048, max(64, width), seed=4)
    columns = rng.integers(0, bars.values.shape[1] - width + 1, count)
    gpu = DeviceAccounts(Accounts(bars, columns=columns, positions_each=width))
    everyone = torch.ones(count, dtype=torch.bool, device="cuda")
    starts = torch.randint(0, 2_048 - steps_per_launch * (4 * repeat + 1) - 1, (count,), device="cuda")
    actions = torch.rand(steps_per_launch, count, width, dtype=torch.float64, device="cuda") * 2 - 1
    gpu.open(everyone, starts)
    gpu.step(actions)

    def work() -> None:
        for _ in range(repeat):
            gpu.step(actions, check=False)
        torch.cuda.synchronize()

    rate = count * steps_per_launch * repeat / seconds(work, repeat=3)
    return [count, width, steps_per_launch, rate / 1e9, rate * width / 1e9]


def main() -> None:
    quick = "--quick" in sys.argv
    count = 100_000 if quick else 1_000_000
    same = [parity(2_000 if quick else 20_000, 1, 100), parity(500 if quick else 2_000, 5, 100)]
    fast = [speed(count, 1, steps, repeat) for steps, repeat in ((1, 100), (16, 20))] + [speed(count // 10, 10, 16, 10)]
    body = f"{torch.cuda.get_device_name()}, float64\n\n"
    body += table(["positions", "account-steps", "largest difference", "diverged", "of these rounding ties"], same)
    body += "\n\nMoney relative to equity; a tie is a divergence that a change of 1e-12 in the state explains.\n\n"
    body += table(["accounts", "positions", "steps per launch", "G account-steps/s", "G position-steps/s"], fast)
    publish("gpu_kernel", body, "Market kernel on a GPU")
    for width, _, _, diverged, ties in same:
        if ties < diverged:
            sys.exit(f"{diverged - ties} accounts with {width} positions diverged for another reason than rounding")


if __name__ == "__main__":
    main()
