"""Rewards on a device, in numba's simulator: every compiled component gives the numbers of the CPU."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import numpy as np
import pytest
from pacesetter.errors import DataError
from pacesetter.market.ledger import Column
from pacesetter.rewards import REWARDS, Reward, RewardConfig
from pacesetter.rewards.cuda import DeviceReward

names = [name for name in REWARDS if REWARDS[name].code >= 0]
assert {"pnl", "repetition", "profit", "risk", "activity", "timing", "exploration", "consistency"} <= set(names)
config = RewardConfig(dict.fromkeys(names, 0.1), clip=None)
cpu, gpu = Reward(config, 3), DeviceReward(config, 3)
draw = np.random.default_rng(0)
is_nonzero = np.zeros(len(names), bool)
for step in range(22):
    ledger = draw.normal(0, 0.2, (3, len(Column)))
    ledger[:, [Column.EQUITY_BEFORE, Column.EXPOSURE, Column.TURNOVER]] = draw.choice([0.0, 0.06, 0.5], (3, 3))
    ledger[0, Column.FILL_QUANTITY] = 1.0  # a long row of purchases
    ledger[:, Column.FLAGS] = draw.integers(0, 16, 3)
    one, other = cpu(ledger), gpu(ledger)
    assert np.allclose(one.raw, other.raw, rtol=1e-12, atol=1e-14)
    assert np.allclose(one.total, other.total, rtol=1e-12, atol=1e-14)
    assert np.allclose(cpu.state, gpu.state, rtol=1e-12, atol=1e-14)
    is_nonzero |= np.any(one.raw != 0, axis=0)
    if step == 11:
        cpu.reset([1])
        gpu.reset([1])
assert is_nonzero.all()
before = gpu.state.copy()
ledger[2, Column.DRAWDOWN] = np.nan
with pytest.raises(DataError, match="ledger column 'drawdown' of environment 2 is nan"):
    gpu(ledger)
assert np.array_equal(gpu.state, before)
twice = gpu.again(6)
assert type(twice) is DeviceReward and len(twice.state) == 6
print("same")
"""


def test_simulated_device_equals_cpu() -> None:
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "same", done.stderr
