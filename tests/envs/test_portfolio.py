"""`pacesetter/Portfolio-v0`: many positions in one account, weights and orders, proposals of frozen agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pacesetter.envs import PortfolioEnv, PortfolioVectorEnv
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import feature_table
from pacesetter.market.orders import Discrete
from pacesetter.market.parameters import Costs, Limits, MarketParameters
from pacesetter.panel import Panel

ACTIONS = ("target", "continuous", "discrete")
FREE = MarketParameters(costs=Costs(0, 0, 0, 0, 0, 0), limits=Limits(position_cap_fraction=1.0))


@pytest.mark.parametrize("action", ACTIONS)
def test_checker_of_gymnasium(market: Panel, action: str) -> None:
    env = gymnasium.make("pacesetter/Portfolio-v0", panel=market, action=action)
    check_env(env.unwrapped)


@pytest.mark.parametrize("action", ACTIONS)
def test_checker_of_stable_baselines3(market: Panel, action: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(PortfolioEnv(market, action=action), warn=False)


def test_weights_are_held_and_windows_are_the_symbols_own(market: Panel) -> None:
    env = PortfolioEnv(market, market=FREE, starts="fixed")
    _, info = env.reset()
    seen, *_ = env.step(np.array([0.1, 0.0, 0.3, 0.2], np.float32))
    assert seen["position"][:, PositionEntry.WEIGHT] == pytest.approx([0.1, 0.0, 0.3, 0.2], abs=0.01)
    table = feature_table(market)
    columns = [table.names.index(name) for name in env.names["window"]]
    for row in range(4):
        assert np.array_equal(seen["window"][row], table.window(row, info["bar"] + 1, 24)[:, columns])
    assert info["symbols"] == market.symbols


def test_a_hand_computed_account_of_two_symbols(by_hand: Callable[..., dict[str, Any]]) -> None:
    market = by_hand([[100, 50], [100, 50], [100, 50], [100, 50], [110, 45], [110, 45]])
    env = PortfolioEnv(**market, market=FREE, starts="fixed")
    env.reset()
    env.step([0.5, 0.4])  # 500 and 800 shares
    _, reward, _, _, info = env.step([0.5, 0.4])
    assert info["equity"] == pytest.approx(100_000 + 500 * 10 - 800 * 5)
    assert reward == pytest.approx(np.log(1.01))


def test_a_symbol_that_lists_late_is_masked_until_it_trades(market: Panel) -> None:
    listed, late = 175, 2
    mask = market.mask.copy()
    mask[:listed, late] = False
    env = PortfolioEnv(replace(market, mask=mask, truth=None), action="discrete", starts="fixed")
    seen, info = env.reset()
    assert info["bar"] < listed
    for t in range(info["bar"], listed + 2):
        assert seen["position"][late, PositionEntry.IS_TRADING] == (t >= listed)
        assert env.action_masks().reshape(4, 7)[late, Discrete.BUY_LARGE] == (t >= listed)
        assert np.isfinite(seen["window"]).all()
        seen, *_ = env.step([0, 0, 0, 0])


def test_proposals_are_seen_alone_in_a_batch_and_at_the_end(market: Panel) -> None:
    def propose(observation: dict[str, Any]) -> Any:
        return np.tanh(observation["window"][:, :, -1, 0])

    options = {"panel": market, "propose": propose, "episode_bars": 3}
    alone, native = PortfolioEnv(**options), PortfolioVectorEnv(num_envs=2, **options)
    one, _ = alone.reset(seed=4)
    many, _ = native.reset(seed=3)
    assert one["proposals"] == pytest.approx(np.tanh(one["window"][:, -1, 0]))
    assert np.array_equal(one["proposals"], many["proposals"][1])
    assert alone.observation_space.contains(one)
    assert native.observation_space.contains(many)
    for _ in range(3):
        one, *_ = alone.step([0.1] * 4)
        infos = native.step(np.full((2, 4), 0.1))[4]
    assert np.array_equal(infos["final_obs"][1]["proposals"], one["proposals"])


def test_proposals_of_a_wrong_shape_and_hybrid_orders_are_refused(market: Panel) -> None:
    with pytest.raises(ConfigError, match="propose gave"):
        PortfolioEnv(market, propose=lambda seen: np.zeros(4)).reset()
    with pytest.raises(ConfigError, match="trades one symbol"):
        PortfolioEnv(market, action="hybrid")
    env = PortfolioEnv(market)
    env.reset()
    with pytest.raises(ConfigError, match="4 numbers each"):
        env.step([0.1])
    many = PortfolioVectorEnv(market, 2)
    many.reset()
    for turned_round in (np.full((4, 2), 0.1), np.full(8, 0.1)):
        with pytest.raises(ConfigError, match="do not match 2 environments with 4 numbers each"):
            many.step(turned_round)
    with pytest.raises(ConfigError, match="from 0 to 1"):
        env.step([0.1, 0.2, 0.3, np.nan])
    with pytest.raises(DataError, match="no symbol"):
        PortfolioEnv(market, ["S0", "S8"])
    for make in (PortfolioEnv, lambda panel, *rest, **options: PortfolioVectorEnv(panel, 2, *rest, **options)):
        with pytest.raises(ConfigError, match="must name symbols"):
            make(market, [])
        with pytest.raises(ConfigError, match="did you mean 'symbols'"):
            make(market, symbol="S1")
