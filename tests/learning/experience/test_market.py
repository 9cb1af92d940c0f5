"""Environments of a fleet: each stays with its symbol, on a device as on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, DataError
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.market import Costs, Limits, MarketParameters
from pacesetter.rewards import RewardConfig


def test_every_environment_keeps_its_symbol_and_draws_its_starts(bank: Bank) -> None:
    torch.manual_seed(0)
    market = FleetMarket(bank, 3, window_bars=6, episode_bars=5)
    blocks = torch.arange(4).repeat_interleave(3)
    starts = [market.reset()["index"]]
    for _ in range(20):
        step = market.step(torch.zeros(12))
        assert torch.equal(step.observation["index"][:, 0], blocks)
        if step.truncated.all():
            assert torch.equal(step.finals["index"][:, 1], starts[-1][:, 1] + 5)
            starts.append(step.observation["index"])
    assert len(starts) == 5
    assert len(torch.unique(torch.stack(starts)[..., 1])) > 40


def test_markets_of_one_symbol_are_drawn_from_in_turn() -> None:
    panels = [Synthetic(symbols=2, bars=200, seed=seed).read() for seed in (1, 2)]
    torch.manual_seed(0)
    market = FleetMarket(Bank.from_panels(panels), 64, window_bars=4)
    assert market.symbols == panels[0].symbols
    blocks = market.reset()["index"][:, 0]
    assert set(blocks[:64].tolist()) == {0, 2}
    assert set(blocks[64:].tolist()) == {1, 3}


def test_fixed_starts_begin_at_the_first_bar_that_is_allowed(bank: Bank) -> None:
    market = FleetMarket(bank, 1, starts="fixed", first_bar=250, window_bars=6)
    assert market.reset()["index"][:, 1].tolist() == [250] * 4
    with pytest.raises(DataError, match="'S0' has no bar to start an episode at"):
        FleetMarket(bank, 1, first_bar=299, window_bars=6)


@pytest.mark.parametrize(
    ("shorting", "expected"), [(False, [0.0, 0.075, 0.15, 0.15]), (True, [-0.15, 0.0, 0.15, 0.15])]
)
def test_numbers_of_the_agents_are_targets_between_the_ends_of_the_position_cap(
    bank: Bank, shorting: bool, expected: list[float]
) -> None:
    free = Costs(commission_bps=0.0, spread_bps=0.0, slippage_bps=0.0)
    rules = MarketParameters(free, Limits(shorting=shorting))
    market = FleetMarket(bank, 1, action="target", starts="fixed", window_bars=6, market=rules)
    assert market.actions is None
    market.reset()
    step = market.step(torch.tensor([[-1.0], [0.0], [1.0], [1.0]]))
    weights = step.observation["position"][:, PositionEntry.WEIGHT]
    assert weights.tolist() == pytest.approx(expected, abs=0.01)  # filled at the open, seen at the close


def test_continued_episodes_end_at_multiples_of_their_bars_and_some_at_the_first(bank: Bank) -> None:
    torch.manual_seed(0)
    market = FleetMarket(bank, 16, window_bars=6, episode_bars=5, continued=0.75)
    market.batch.seed(range(64))
    since, lengths = market.reset()["index"][:, 1].clone(), []
    for _ in range(120):
        step = market.step(torch.zeros(64))
        ended = step.truncated
        lengths += (step.finals["index"][ended, 1] - since[ended]).tolist()
        since[ended] = step.observation["index"][ended, 1]
    whole = np.array([length for length in lengths if length % 5 == 0])
    assert len(whole) > 0.6 * len(lengths)  # the others met the last bar
    assert whole.max() >= 30
    assert 0.1 < (whole == 5).mean() < 0.5


def test_a_reward_paid_by_episode_is_the_sum_of_its_bars(bank: Bank) -> None:
    options: dict[str, Any] = {"action": "target", "window_bars": 6, "episode_bars": 5}
    config = RewardConfig({"pnl": 300.0}, clip=None)
    markets = [FleetMarket(bank, 2, reward=replace(config, paid=paid), **options) for paid in ("bar", "episode")]
    steps: list[list[Any]] = []
    for market in markets:
        torch.manual_seed(0)
        market.reset()
        steps.append([market.step(torch.rand(market.env_count) * 2 - 1) for _ in range(10)])
    plain, sparse = (torch.stack([step.rewards for step in own]) for own in steps)
    ended = torch.stack([step.truncated | step.terminated for step in steps[1]])
    assert torch.equal(ended.nonzero()[:, 0].unique(), torch.tensor([4, 9]))
    assert (sparse[~ended] == 0).all()
    torch.testing.assert_close(sparse[ended].view(2, -1), plain.view(2, 5, -1).sum(1), atol=1e-5, rtol=1e-5)


def test_a_whole_market_is_refused() -> None:
    panel = Synthetic(symbols=2, bars=100).read()
    with pytest.raises(ConfigError, match="one by one"):
        FleetMarket(Bank.from_panels(panel, is_whole=True), 1)


def test_full_observations_are_gathered_from_compact_ones(bank: Bank) -> None:
    market = FleetMarket(bank, 2, window_bars=6)
    seen = market.reset()
    full = market.tables(seen)
    assert {name: tuple(entry.shape[1:]) for name, entry in full.items() if name != "action_mask"} == market.shapes
    block, bar = seen["index"][5].tolist()
    np.testing.assert_array_equal(full["window"][5], bank.windows[block, 0, bar - 5 : bar + 1])


SIMULATED = """
import warnings
import torch
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.features import feature_table
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.market.risk import RiskOptions
from pacesetter.rewards import TRADING, RewardConfig

warnings.simplefilter("ignore", RuntimeWarning)
panel = Synthetic(symbols=2, bars=60, seed=1).read()
bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]))
options = {"window_bars": 3, "episode_bars": 3, "reward": RewardConfig(TRADING)}
around = RiskOptions(0.2, {"S0": 1.0}, 0.1)
for more in ({}, {"action": "target", "risk": around}):
    markets = [FleetMarket(bank, 2, device, **options, **more) for device in ("cpu", "cuda")]
    found = []
    for market in markets:
        torch.manual_seed(0)
        steps, stored = [market.reset()], None
        for number in range(8):
            if number == 5:
                stored, random = market.state_dict(), torch.get_rng_state()
            step = market.step(torch.arange(4) % 3)
            ended = step.terminated | step.truncated
            ends = {name: entry[ended] for name, entry in step.finals.items()}
            steps.append(step.observation | ends | {"rewards": step.rewards, "returns": step.returns})
        market.load_state_dict(stored)
        torch.set_rng_state(random)
        again = [market.step(torch.arange(4) % 3) for _ in range(3)][-1]
        assert torch.equal(again.rewards, step.rewards)
        assert torch.equal(again.observation["index"], step.observation["index"])
        found.append(steps)
    for one, other in zip(*found):
        for name in one:
            assert torch.allclose(one[name].double(), other[name].double(), rtol=1e-6, atol=1e-9), name
print("same")
"""


def test_the_simulated_device_equals_the_cpu_and_goes_on_from_its_state() -> None:
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, "-c", SIMULATED], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "same", done.stderr


BARE = """
import sys
for name in ("gymnasium", "stable_baselines3", "sb3_contrib", "talib", "scipy", "sklearn", "yaml", "hydra", "rich"):
    sys.modules[name] = None  # as if it were not installed
import pacesetter.learning.fleet.ppo, pacesetter.learning.fleet.storage, pacesetter.data.synthetic
print("runs")
"""


def test_a_bare_machine_can_import_it() -> None:
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True)
    assert done.stdout.strip() == "runs", done.stderr


def test_a_part_of_a_market_goes_on_as_it_does_in_the_whole(bank: Bank) -> None:
    options: dict[str, Any] = {"starts": "fixed", "first_bar": 100, "window_bars": 6}
    whole = FleetMarket(bank, 2, **options)
    part = whole.select({whole.symbols[3], whole.symbols[1]})
    assert part.symbols == (whole.symbols[1], whole.symbols[3])
    rows = torch.tensor([2, 3, 6, 7])
    seen, some = whole.reset(), part.reset()
    for _ in range(3):
        torch.testing.assert_close(whole.tables(seen)["window"][rows], part.tables(some)["window"])
        orders = torch.arange(8) % 7
        step, other = whole.step(orders), part.step(orders[rows])
        torch.testing.assert_close(step.returns[rows], other.returns)
        torch.testing.assert_close(step.costs[rows], other.costs)
        assert torch.equal(step.trades[rows], other.trades)
        seen, some = step.observation, other.observation
    assert step.trades.any()
    assert (step.costs[step.trades] > 0).all()
