"""The one path from a policy to a result: money, timing, what is seen, how it ends, how it is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.envs import PortfolioEnv
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.backtest.backtest import Backtest, PlayedMarket, backtest, backtest_many
from pacesetter.evaluation.backtest.episode import Episode
from pacesetter.features import ZScore, feature_table
from pacesetter.market import Column, Costs, Fill, Limits, MarketParameters, Orders
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy, Snapshot

FREE = MarketParameters(
    costs=Costs(commission_bps=0, spread_bps=0, slippage_bps=0),
    limits=Limits(position_cap_fraction=1.0, gross_leverage=2.0),
    orders=Orders(minimum_trade=0.0),
)


@dataclass
class Decides(Policy):
    """A policy from a function of what is seen."""

    decision: Callable[[Snapshot], Any]
    name: str = "test"
    action: str = "target"
    seen: list[Snapshot] = field(default_factory=list)

    def decide(self, seen: Snapshot) -> Any:
        self.seen.append(seen)
        return self.decision(seen)


@cache
def market() -> Panel:
    return load("synthetic", symbols=4, bars=300, seed=3)


def equal(seen: Snapshot) -> Any:
    return np.full(len(seen.panel.symbols), 1 / len(seen.panel.symbols))


def falling(symbols: int = 2) -> Panel:
    """Prices that lose 5 % a bar from bar 150 on."""
    closes = np.full((200, symbols), 100.0) * np.exp(0.01 * np.random.default_rng(0).standard_normal((200, symbols)))
    closes[150:] *= 0.95 ** np.arange(50)[:, None]
    return Panel.from_fields(
        pd.date_range("2020-01-01", periods=200, tz="UTC"), [f"S{k}" for k in range(symbols)], {"close": closes}
    )


def test_a_constant_weight_earns_what_its_fills_say() -> None:
    panel = market()
    result = backtest(Decides(equal), panel, first=200, market=FREE)
    equity, held = 100_000.0, np.zeros(4)
    for t, found in zip(range(200, 299), result.equity[1:], strict=True):
        wanted = equity / 4 / panel.close[t]
        equity += held @ (panel.open[t + 1] - panel.close[t]) + wanted @ (panel.close[t + 1] - panel.open[t + 1])
        held = wanted
        assert found == pytest.approx(equity, rel=1e-12)
    np.testing.assert_allclose(np.cumprod(1 + result.returns), result.equity[1:] / 100_000, rtol=1e-12)
    assert result.times.equals(panel.index[201:])
    assert result.bars_per_year == panel.bars_per_year


def test_the_environment_gives_the_same_money_and_the_same_observations() -> None:
    panel, rng = market(), np.random.default_rng(1)
    env = PortfolioEnv(panel, market=replace(MarketParameters(), bars_per_year=panel.bars_per_year), starts="fixed")
    observation, info = env.reset(seed=0)
    policy = Decides(lambda seen: rng.dirichlet(np.ones(4)))
    result = backtest(policy, panel, first=info["bar"])
    for seen, orders, equity in zip(policy.seen, result.orders, result.equity[1:], strict=True):
        for entry, values in observation.items():
            np.testing.assert_array_equal(seen.observation[entry], values)
        observation, _, _, _, info = env.step(orders)
        assert info["equity"] == equity


def test_a_policy_sees_the_bars_up_to_now_as_views_and_no_truth() -> None:
    panel, policy = market(), Decides(equal)
    backtest(policy, panel, first=200, last=205)
    assert [seen.t for seen in policy.seen] == [200, 201, 202, 203, 204]
    for seen in policy.seen:
        assert len(seen.panel) == seen.t + 1
        assert seen.first == 200
        assert seen.panel.truth is None
        assert np.shares_memory(seen.panel.blocks, panel.blocks)
        assert seen.masks is None
    policy = Decides(lambda seen: np.zeros(4), action="discrete")
    backtest(policy, panel, first=200, last=205)
    assert all(seen.masks is not None and seen.masks.shape == (4, 7) for seen in policy.seen)


def test_a_weight_that_is_nan_leaves_its_symbol_alone() -> None:
    once = Decides(lambda seen: equal(seen) if seen.t == seen.first else np.full(4, np.nan))
    result = backtest(once, market(), first=200)
    assert (result.fills[0, :, Fill.QUANTITY] > 0).all()
    assert not result.fills[1:, :, Fill.QUANTITY].any()
    some = Decides(lambda seen: equal(seen) if seen.t == seen.first else np.array([np.nan, np.nan, 0.0, 0.0]))
    wide = MarketParameters(limits=Limits(position_cap_fraction=1.0))
    result = backtest(some, market(), first=200, market=wide)
    assert not result.fills[1:, :2, Fill.QUANTITY].any()
    assert (result.fills[1, 2:, Fill.QUANTITY] < 0).all()


def test_a_position_beyond_the_cap_is_left_alone_too() -> None:
    panel = load("synthetic", symbols=1, bars=400, seed=3, regimes={"bull": (2.0, 0.5)}, groups=0)
    once = Decides(lambda seen: np.array([0.15 if seen.t == seen.first else np.nan]))
    result = backtest(once, panel, first=100)
    assert result.ledger[-1, Column.EXPOSURE] > 0.2
    assert not result.fills[1:, :, Fill.QUANTITY].any()


def test_an_account_that_ends_stays_flat_in_cash(tmp_path: Path) -> None:
    limits = Limits(position_cap_fraction=0.5, portfolio_loss_limit_fraction=0.1)
    policy = Decides(lambda seen: np.full(2, 0.5))
    result = backtest(policy, falling(), first=100, market=MarketParameters(limits=limits))
    asked = len(policy.seen)
    assert 51 < asked < 60
    assert not result.returns[asked:].any()
    assert (result.equity[asked:] == result.equity[asked]).all()
    assert (result.ledger[asked:, Column.CASH] == result.equity[-1]).all()
    assert np.isnan(result.orders[asked:]).all()
    assert (result.drawdown[asked:] == result.drawdown[asked - 1]).all()
    assert len(Backtest.load(result.save(tmp_path))) == 99


def test_a_stored_backtest_comes_back_bit_for_bit_and_can_be_inspected(tmp_path: Path) -> None:
    result = backtest(Decides(equal), market(), first=200)
    back = Backtest.load(result.save(tmp_path / "equal"))
    for part in ("ledger", "fills", "orders", "closes"):
        np.testing.assert_array_equal(getattr(back, part), getattr(result, part))
    assert back.times.equals(result.times)
    assert (back.name, back.symbols, back.bars_per_year) == (result.name, result.symbols, result.bars_per_year)
    episode = Episode.load(tmp_path / "equal")
    assert episode.summary()["return"] == pytest.approx(result.equity[-1] / result.equity[0] - 1)
    assert len(result.episode().trades()) == len(result.trades()) == 4


def test_an_episode_without_orders_is_no_backtest(tmp_path: Path) -> None:
    env = PortfolioEnv(market(), record=True)
    env.reset(seed=0)
    env.step(np.full(4, 0.1, dtype=np.float32))
    env.journal.save(tmp_path)
    with pytest.raises(RunError, match="not a backtest"):
        Backtest.load(tmp_path)


@pytest.mark.parametrize(
    ("period", "sentence"),
    [
        ({"first": 250, "last": 250}, "is empty"),
        ({"first": 250, "last": 300}, "outside the panel's 300 bars"),
        ({"first": -1}, "is empty"),
        ({"first": 5}, "no window of 24 bars"),
    ],
)
def test_a_period_that_cannot_be_played_is_refused(period: dict[str, int], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        backtest(Decides(equal), market(), **period)  # type: ignore[arg-type]


def test_orders_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"policy 'test' gave orders of shape \(3,\)"):
        backtest(Decides(lambda seen: np.zeros(3)), market(), first=200)
    with pytest.raises(ConfigError, match="nan"):
        backtest(Decides(lambda seen: np.full(4, np.nan), action="continuous"), market(), first=200)
    with pytest.raises(ConfigError, match="may hold 0% to 100% of one; allow it by leverage=2"):
        backtest(Decides(lambda seen: np.full(4, 2.0)), market(), first=200)


def test_a_bank_of_another_market_is_refused() -> None:
    for panel in (market().rows(0, 299), market().select(market().symbols[:3])):
        with pytest.raises(DataError, match="the bank is not of Panel"):
            backtest(Decides(equal), market(), first=200, bank=market_bank(panel))


def test_what_was_fitted_on_the_tested_bars_is_refused() -> None:
    panel = market()
    table = feature_table(panel)
    policy = Decides(equal)
    for late, sentence in ((ZScore().fit(table), "'scaler' of policy 'test'"), (None, "^policy 'test'")):
        policy.scaler = late  # type: ignore[attr-defined]
        policy.fitted_until = None if late else panel.index[201]  # type: ignore[attr-defined]
        with pytest.raises(DataError, match=sentence):
            backtest(policy, panel, first=200)
        backtest(policy, panel, first=200, last=202, is_unseen=True)
    policy.scaler = ZScore().fit(table, until=panel.index[200])  # type: ignore[attr-defined]
    policy.fitted_until = panel.index[200]  # type: ignore[attr-defined]
    backtest(policy, panel, first=200, last=202)


# ---- many at once ---------------------------------------------------------------------------------------------------


@dataclass
class DecidesForAll(Decides):
    """One that is asked for all accounts at once."""

    asks_many = True
    asked: list[int] = field(default_factory=list)

    def decide_many(self, accounts: list[Snapshot]) -> Any:
        self.asked.append(len(accounts))
        return [self.decision(seen) for seen in accounts]


def test_many_markets_side_by_side_are_each_played_as_alone() -> None:
    panel, policy = falling(), DecidesForAll(equal)
    calm = replace(panel, blocks=np.broadcast_to(panel.blocks[:, :1], panel.blocks.shape).copy())
    limited = replace(FREE, limits=replace(FREE.limits, portfolio_loss_limit_fraction=0.1))
    markets = [
        PlayedMarket(panel, market_bank(panel), FREE),
        PlayedMarket(calm, None, FREE),
        PlayedMarket(panel, None, limited),
    ]
    together = backtest_many(policy, markets, first=100)
    for market, result in zip(markets, together, strict=True):
        alone = backtest(Decides(equal), market.panel, first=100, market=market.rules)
        for part in ("ledger", "fills", "orders", "closes"):
            np.testing.assert_array_equal(getattr(result, part), getattr(alone, part))
        assert result.times.equals(alone.times)
    assert policy.asked[0] == 3
    assert policy.seen == []  # never alone


def test_a_policy_that_answers_for_one_account_plays_one_after_another() -> None:
    policy = Decides(equal)
    results = backtest_many(policy, [PlayedMarket(market()), PlayedMarket(market(), None, FREE)], first=280)
    assert [seen.t for seen in policy.seen] == [*range(280, 299)] * 2
    assert results[1].equity[-1] != results[0].equity[-1]
