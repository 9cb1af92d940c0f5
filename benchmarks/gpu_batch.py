"""The environments on one GPU: ledger and reward vectors of the CPU's batch, and environment-steps per second.

Runs from the repository root where only torch, numba, numba-cuda, numpy and pandas are installed:

    python benchmarks/gpu_batch.py [--quick] [--record]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from gpu_kernel import SAME, difference, market  # first: it finds the package where it is not installed
from record import publish, seconds, table

from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.cuda import DeviceBatch
from pacesetter.market.cuda import SIMULATED
from pacesetter.rewards import OBJECTIVES, TRADING, RewardConfig

FEATURES = 23
REWARDS: dict[str, RewardConfig | str] = {
    "P&L": "pnl",
    "seven components": RewardConfig(TRADING),
    "five objectives": RewardConfig(OBJECTIVES),
}


def bank_of(symbols: int, bars: int) -> Bank:
    """A bank of random walks with halts and of random features, one block for each symbol."""
    values = market(bars, symbols, seed=5).values.swapaxes(0, 1)[:, :, None]
    drawn = np.random.default_rng(6).standard_normal((symbols, 1, bars, FEATURES)).astype(np.float32)
    return Bank(
        bars=np.ascontiguousarray(values),
        windows=drawn,
        context=np.zeros((symbols, bars, 1, 0), np.float32),
        known=np.ones((symbols, 1, bars), bool),
        labels=np.zeros((symbols, 1, bars), np.int8),
        lasts=np.full(symbols, bars - 1),
        symbols=tuple((f"asset{column}",) for column in range(symbols)),
        times=(np.arange(bars).astype("datetime64[D]"),) * symbols,
        names={"window": tuple(f"feature{place}" for place in range(FEATURES))},
        places={},
        is_whole=False,
    )


def actions_for(batch: Batch, steps: int) -> list[Any]:
    """Random discrete orders of all environments, on the device."""
    drawn = np.random.default_rng(7).integers(0, 7, (steps, batch.env_count)).astype(np.float64)
    if SIMULATED:
        return list(drawn)
    import torch

    return list(torch.as_tensor(drawn).cuda())


def parity(bank: Bank, count: int, reward: str, steps: int) -> list[Any]:
    """Step CPU and GPU side by side through ends and restarts: the largest differences, and how many diverged."""
    cpu = Batch(bank, count, has_windows=False, episode_bars=20, reward=REWARDS[reward])
    gpu = DeviceBatch(cpu)
    cpu.reset()
    gpu.reset()
    gaps, apart = [], []
    for actions in actions_for(cpu, steps):
        one, other = cpu.step(to_host(actions)), gpu.step(actions)
        gaps.append(difference(one.ledger, to_host(other.ledger)))
        ours, theirs = one.components, to_host(other.components)
        apart.append((np.abs(ours - theirs) / np.maximum(1.0, np.abs(ours))).max(axis=0))
    has_diverged = np.maximum(np.max(gaps, axis=0), np.max(apart, axis=0)) > SAME
    worst = [float(np.max(part, where=~has_diverged, initial=0.0)) for part in (gaps, apart)]
    return [reward, count * steps, *worst, int(has_diverged.sum())]


def speed(bank: Bank, count: int, seen: str, reward: str, steps: int) -> list[Any]:
    """Environment-steps per second with random orders, ends and restarts counted in."""
    gpu = DeviceBatch(Batch(bank, count, has_windows=seen == "windows", reward=REWARDS[reward]))
    actions = actions_for(gpu.batch, 4)
    gpu.reset()

    def work() -> None:
        for step in range(steps):
            gpu.step(actions[step % len(actions)], check=False)
        wait()

    return [count, seen, reward, count * steps / seconds(work, repeat=3) / 1e6]


def to_host(array: Any) -> np.ndarray:
    """The values as a NumPy array."""
    return array if SIMULATED else array.cpu().numpy()


def wait() -> None:
    """Until the device is done."""
    if not SIMULATED:
        import torch

        torch.cuda.synchronize()


def main() -> None:
    symbols, bars, count, steps = (143, 3_000, 1_000_000, 200)
    if "--quick" in sys.argv:
        symbols, bars, count, steps = (4, 120, 8, 3) if SIMULATED else (16, 500, 20_000, 50)
    bank = bank_of(symbols, bars)
    same = [parity(bank, max(count // 50, 4), reward, 60 if not SIMULATED else 25) for reward in REWARDS]
    fast = [
        speed(bank, count, "indices", "P&L", steps),
        speed(bank, max(count // 64, 4), "indices", "P&L", steps),
        speed(bank, count, "indices", "seven components", steps),
        speed(bank, count, "indices", "five objectives", steps),
        speed(bank, max(count // 8, 4), "windows", "P&L", steps),
    ]
    body = f"{device_name()}, float64 accounts, {symbols} symbols of {bars} bars, 24-bar windows of 23 features\n\n"
    header = ["reward", "environment-steps", "largest difference of ledgers", "of reward vectors", "diverged"]
    body += table(header, same) + "\n\n"
    body += "Against the CPU, money relative to equity; episodes of 20 bars, restarts counted in. Reward vectors are\n"
    body += "relative to the larger of 1 and their size.\n\n"
    body += table(["environments", "seen", "reward", "M steps/s"], fast)
    publish("gpu_batch", body, "Trading environments on a GPU")


def device_name() -> str:
    if SIMULATED:
        return "numba's simulator"
    import torch

    return str(torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
