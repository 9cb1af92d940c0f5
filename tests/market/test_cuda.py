"""The CUDA path in numba's simulator: the same function objects give the same numbers as the CPU."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import numpy as np
import pytest
from pacesetter.errors import ConfigError
from pacesetter.market import Accounts, Column, Exits, Flag, Limits, MarketBars, MarketParameters, OrderKind
from pacesetter.market.cuda import DeviceAccounts

rng = np.random.default_rng(0)
close = 100 * np.exp(np.cumsum(rng.normal(0, 0.03, (20, 3)), axis=0))
bars = MarketBars.from_arrays(close, high=close * 1.02, low=close * 0.98, volume=np.full(close.shape, 900.0))
rules = MarketParameters(
    limits=Limits(shorting=True, gross_leverage=1.5, volume_cap_fraction=0.2),
    exits=Exits(stop_loss_fraction=0.03),
    band=0.05,
)
cases = (([0, 1, 2, 1, 0], 1, OrderKind.CONTINUOUS), ([0, 0], 3, OrderKind.CONTINUOUS), ([0, 0], 3, OrderKind.TARGET))
for columns, width, kind in cases:
    cpu = Accounts(bars, rules, columns=columns, positions_each=width, kind=kind)
    gpu = DeviceAccounts(cpu)
    actions = rng.uniform(-1, 1, (15, len(columns), width))
    for action in actions[:10]:
        cpu.step(action)
        gpu.step(action)
        assert np.array_equal(cpu.ledger, gpu.ledger)
    for action in actions[10:]:
        cpu.step(action)
    gpu.step(actions[10:])
    assert np.array_equal(cpu.ledger, gpu.ledger) and np.array_equal(cpu.fills, gpu.fills)
    assert np.array_equal(cpu.positions, gpu.positions) and cpu.ledger[:, Column.EQUITY].std() > 0
    with pytest.raises(ConfigError, match="action nan"):
        gpu.step(actions[0] * np.nan)
    with pytest.raises(ConfigError, match="5 steps go beyond the last bar, 19"):
        gpu.step(actions[:5])
    with pytest.raises(ConfigError, match="actions have shape"):
        gpu.step(actions[0][:1])
    gpu.open(np.arange(len(columns)) == 0, np.full(len(columns), 4))
    assert gpu.times[0] == 4 and gpu.times[1] == 15 and not gpu.positions[0].any() and gpu.positions[1].any()

from dataclasses import replace

from pacesetter.market.bars import Bar
from pacesetter.market.parameters import Margin

wide = np.zeros((*bars.values.shape[:2], len(Bar)))
wide[..., : bars.values.shape[-1]] = bars.values
wide[..., Bar.FUNDING], wide[5, :, Bar.DIVIDEND], wide[7, 0, Bar.SPLIT] = 0.002, 1.5, 2.0
for mode in ("cross", "isolated"):
    margined = replace(
        rules, limits=Limits(gross_leverage=8, shorting=True, position_cap_fraction=8), margin=Margin(mode), lot=1.0,
        tick=0.05, dividends=True, splits=True,
    )
    cpu = Accounts(replace(bars, values=wide), margined, columns=[0] * 20, positions_each=3, kind=OrderKind.TARGET)
    gpu, flags = DeviceAccounts(cpu), 0
    for action in rng.uniform(-1, 1, (15, 20, 3)).round():
        flags |= int(np.bitwise_or.reduce(cpu.step(action)))
        gpu.step(action)
        assert np.array_equal(cpu.ledger, gpu.ledger) and np.array_equal(cpu.fills, gpu.fills)
    assert flags & Flag.LIQUIDATED and cpu.ledger[:, Column.FUNDING].any()
print("same")
"""


def test_simulated_device_equals_cpu() -> None:
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "same", done.stderr
