"""The batch on a device, in numba's simulator: the same rows give the numbers of the CPU."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import warnings
import numpy as np
import pytest
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import Bank, Batch
from pacesetter.envs.batch.cuda import DeviceBatch
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.market import Limits, MarketParameters, Orders
from pacesetter.market.parameters import Margin, StartingHolding
from pacesetter.rewards import OBJECTIVES, TRADING, RewardConfig, Term

warnings.simplefilter("ignore", RuntimeWarning)  # whole numbers wrap round, as they must in a random stream
panel = Synthetic(symbols=3, bars=40, seed=1).read()
table = feature_table(panel, ["return_1", "regime_downside_share"])
rng = np.random.default_rng(0)
objectives = RewardConfig({**OBJECTIVES, "consistency": Term(smoothing_steps=3)})
held = MarketParameters(holdings=(StartingHolding(panel.symbols[0], 1.0),))
with pytest.raises(ConfigError, match="train.device=cpu"):
    DeviceBatch(Batch(Bank.from_panels(panel, table), 3, window_bars=3, market=held))
margined = MarketParameters(
    limits=Limits(position_cap_fraction=8, gross_leverage=8, shorting=True), margin=Margin("isolated"), funding=2.0,
    lot=0.5, tick=0.01, orders=Orders(buy_fraction=1.0),
)
for is_whole, options in (
    (False, {"action": "discrete"}),
    (False, {"action": "hybrid", "reward": RewardConfig(TRADING)}),
    (False, {"action": "discrete", "repetition_limit": 2, "reward": objectives}),
    (True, {"action": "target", "has_windows": False}),
    (False, {"action": "target", "market": MarketParameters(band=0.3)}),
    (False, {"action": "discrete", "market": margined}),
):
    bank = Bank.from_panels(panel, table, is_whole=is_whole)
    cpu = Batch(bank, 3, window_bars=3, episode_bars=4, **options)
    gpu = DeviceBatch(cpu)
    cpu.reset()
    gpu.reset()
    for _ in range(9):
        shape = cpu.inputs.shape
        if options["action"] == "discrete":
            for part, twin in zip(cpu.counterfactual(), gpu.counterfactual(), strict=True):
                assert np.allclose(part, twin, rtol=1e-12, atol=0)
        actions = rng.integers(0, 2, shape) if options["action"] == "discrete" else rng.random(shape)
        one, other = cpu.step(actions), gpu.step(actions)
        for entry in one.observation:
            assert np.array_equal(one.observation[entry], other.observation[entry]), entry
        assert np.array_equal(one.ledger, other.ledger)
        if options["action"] == "discrete":
            assert np.array_equal(cpu.action_masks(), gpu.action_masks())
        assert np.allclose(one.rewards, other.rewards, rtol=1e-12, atol=0)
        assert np.allclose(one.components, other.components, rtol=1e-12, atol=0)
        ended = one.terminated | one.truncated
        assert np.array_equal(ended, other.terminated | other.truncated)
        assert np.array_equal(one.finals[ended], other.finals[ended])
    with pytest.raises(ConfigError, match="outside its box"):
        gpu.step(actions * np.nan)
    with pytest.raises(ConfigError, match="do not match 3 environments"):
        gpu.step(actions.reshape(1, *actions.shape))
    kept = gpu.state_dict()
    later = gpu.step(actions)
    for name, wrong in (
        ("accounts", kept["accounts"][:1]),
        ("positions", kept["positions"].astype(np.float32)),
        ("parameters", None),
        ("cursor", kept["cursor"] + 1000),
    ):
        for room in (cpu, gpu):
            with pytest.raises(ConfigError, match=f"stored '{name}' does not match this batch of 3"):
                room.load_state_dict(kept | {name: wrong})
    for room in (cpu, gpu):
        room.load_state_dict(kept)
        again = room.step(actions)
        assert np.array_equal(again.ledger, later.ledger)
        assert np.allclose(again.rewards, later.rewards, rtol=1e-12, atol=0)
    taken_over = DeviceBatch(cpu)  # in the middle of an episode
    one, other = cpu.step(actions), taken_over.step(actions)
    assert np.array_equal(one.ledger, other.ledger)
    assert np.allclose(one.rewards, other.rewards, rtol=1e-12, atol=0)
print("same")
"""


def test_simulated_device_equals_cpu() -> None:
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "same", done.stderr
