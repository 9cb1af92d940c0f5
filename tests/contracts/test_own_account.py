"""An agent sees its own account everywhere: what it is shown in a fleet of 50 is what it would be shown alone."""

from __future__ import annotations

import numpy as np
import torch

from pacesetter.envs.batch.account_entries import (
    POSITION_SIZE,
    PortfolioEntry,
    PositionEntry,
    write_own_accounts,
    write_own_masks,
)
from pacesetter.envs.batch.loops import account_rows
from pacesetter.learning.experience.advisers import allowed_orders
from pacesetter.market import MarketBars, MarketParameters
from pacesetter.market.orders import Discrete
from pacesetter.market.state import Account, Position
from pacesetter.policies.agent import per_symbol

SYMBOLS = 50
RULES = MarketParameters()


def vector_of(account: np.ndarray, positions: np.ndarray, bar: np.ndarray, rules: MarketParameters) -> np.ndarray:
    """What the environments' own code writes of an account."""
    vector = np.empty(len(positions) * POSITION_SIZE + len(PortfolioEntry), np.float32)
    account_rows(*(part[None] for part in (vector, account, positions, bar, rules.to_vector())))
    return vector


def test_the_observation_in_a_fleet_of_50_is_the_one_that_an_agent_gets_alone_with_the_same_position() -> None:
    rng = np.random.default_rng(0)
    closes = rng.uniform(20, 200, SYMBOLS)
    bar = MarketBars.from_arrays(np.stack([closes, closes])).values[-1]
    positions = np.zeros((SYMBOLS, len(Position)))
    held = np.arange(SYMBOLS) % 3 > 0
    positions[held, Position.QUANTITY] = (0.9 * 100_000 / held.sum() / closes)[held]  # hardly any cash is left
    positions[held, Position.ENTRY_PRICE] = (closes * rng.uniform(0.8, 1.2, SYMBOLS))[held]
    positions[held, Position.BEST_PRICE] = (closes * 1.25)[held]
    positions[held, Position.BARS_HELD] = rng.integers(1, 900, held.sum())
    joint = np.zeros(len(Account))
    joint[Account.CASH], joint[Account.EQUITY], joint[Account.PEAK_EQUITY] = 10_000, 100_000, 130_000
    seen = vector_of(joint, positions, bar, RULES)
    shown = per_symbol({"position": seen[:-7].reshape(SYMBOLS, -1), "portfolio": seen[-7:]})
    assert shown["portfolio"].dtype == np.float32
    for k in range(SYMBOLS):
        alone = np.zeros(len(Account))
        value = positions[k, Position.QUANTITY] * closes[k]
        alone[Account.CASH], alone[Account.EQUITY], alone[Account.PEAK_EQUITY] = 100_000 - value, 100_000, 100_000
        expected = vector_of(alone, positions[k : k + 1], bar[k : k + 1], RULES)
        np.testing.assert_array_equal(shown["position"][k], expected[:POSITION_SIZE])
        np.testing.assert_allclose(shown["portfolio"][k], expected[POSITION_SIZE:], rtol=0, atol=1e-7)


def test_the_joint_account_can_be_shown_instead() -> None:
    portfolio = np.arange(len(PortfolioEntry), dtype=np.float32)
    position = np.zeros((3, len(PositionEntry)), np.float32)
    joint = per_symbol({"position": position, "portfolio": portfolio}, own_account=False)["portfolio"]
    np.testing.assert_array_equal(joint, np.stack([portfolio] * 3))


def test_advisers_servers_and_backtests_show_the_same_accounts_and_masks() -> None:
    position = np.zeros((3, len(PositionEntry)), np.float32)
    position[:, PositionEntry.WEIGHT], position[:, PositionEntry.ROOM] = (0.1, 0.0, 0.15), (0.05, 0.15, 0.0)
    position[:, PositionEntry.IS_TRADING], position[0, PositionEntry.UNREALISED_RETURN] = 1.0, 0.02
    tensor = torch.as_tensor(position)
    arrays = write_own_accounts(np.zeros((3, len(PortfolioEntry)), np.float32), position)
    np.testing.assert_array_equal(arrays, write_own_accounts(torch.zeros(3, len(PortfolioEntry)), tensor).numpy())
    masks = write_own_masks(np.zeros((3, len(Discrete)), dtype=bool), position)
    np.testing.assert_array_equal(masks, allowed_orders(tensor).numpy())
    assert masks.tolist() == [
        [True, True, True, True, True, True, True],
        [True, True, True, True, False, False, False],
        [True, False, False, False, True, True, False],
    ]
