"""Costs of single symbols, Almgren–Chriss impact and starting holdings, against numbers worked out by hand.

Runs `market.holdings`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pacesetter.build import build_panel, build_parts
from pacesetter.data import load
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.backtest.sensitivity import scaled_costs
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.features import feature_table
from pacesetter.jobs import resolve
from pacesetter.market import Accounts, Column, Costs, Fill, Limits, MarketBars, MarketParameters, OrderKind
from pacesetter.market.bars import Bar
from pacesetter.market.fill import impact
from pacesetter.market.parameters import Orders, StartingHolding, SymbolCost
from pacesetter.market.state import Account, Position
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import QUANTITIES, Policy

FREE = Costs(commission_bps=0.0, spread_bps=0.0, slippage_bps=0.0, borrow_bps_per_year=0.0)
DEAR = replace(FREE, by_symbol=(SymbolCost("B", 50.0),))


def play(policy: Any, panel: Any, rules: MarketParameters) -> Any:
    bank = market_bank(panel, feature_table(panel, ["return_1"]))
    return backtest(policy, panel, first=60, market=rules, bank=bank, window_bars=2)


class Still(Policy):
    """A policy that trades nothing."""

    name, action = "still", QUANTITIES

    def decide(self, seen: Any) -> Any:
        return np.zeros(len(seen.panel.symbols))


def test_one_symbol_pays_more_than_the_other() -> None:
    panel = load("synthetic", symbols=2, bars=80, seed=1)
    rules = MarketParameters(costs=replace(FREE, by_symbol=(SymbolCost(panel.symbols[1], 50.0),)))
    policy = make_baseline("equal_weight", market_bank(panel, feature_table(panel, ["return_1"])), rules)
    played = play(policy, panel, rules)
    fills = played.fills[0]
    opens = panel["open"][61]
    np.testing.assert_allclose(fills[:, Fill.PRICE] / opens, [1.0, 1.005])
    paid = abs(fills[1, Fill.QUANTITY]) * opens[1] * 0.005
    assert played.ledger[0, Column.SPREAD] == pytest.approx(paid)
    dearer = play(policy, panel, scaled_costs(rules, 2.0))
    assert dearer.ledger[:, Column.SPREAD].sum() == pytest.approx(2 * played.ledger[:, Column.SPREAD].sum(), rel=0.02)


def test_almgren_chriss_adds_half_the_permanent_to_the_temporary_impact() -> None:
    costs = replace(FREE, impact_bps=100.0, permanent_bps=40.0, impact_model="almgren_chriss")
    rules = MarketParameters(costs=costs, limits=Limits(volume_cap_fraction=1.0)).to_vector()
    assert impact(25.0, 100.0, rules) == pytest.approx(0.5 * 0.004 * 0.25 + 0.01 * 0.25**0.6)
    linear = MarketParameters(
        costs=replace(FREE, impact_bps=100.0, impact_model="linear"), limits=Limits(volume_cap_fraction=1.0)
    ).to_vector()
    assert impact(25.0, 100.0, linear) == pytest.approx(0.01 * 0.25)
    root = MarketParameters(costs=replace(FREE, impact_bps=100.0), limits=Limits(volume_cap_fraction=1.0)).to_vector()
    assert impact(25.0, 100.0, root) == 0.01 * 0.5  # the square root, bit for bit as before


def test_what_is_left_of_an_impact_makes_the_same_side_cost_more_and_the_other_gains_nothing() -> None:
    panel = load("synthetic", symbols=2, bars=80, seed=1)
    costs = replace(FREE, impact_bps=100.0, impact_model="linear", impact_left=0.5)
    rules = MarketParameters(costs=costs, limits=Limits(volume_cap_fraction=1.0), orders=Orders(minimum_trade=0.0))
    quantities = np.array([30.0, 20.0, -40.0, -10.0])

    class Given(Still):
        def decide(self, seen: Any) -> Any:
            at = seen.t - seen.first
            return np.array([quantities[at] if at < len(quantities) else 0.0, 0.0])

    played = play(Given(), panel, rules)
    own = 0.01 * np.abs(quantities) / panel["volume"][61:65, 0]
    # Purchases move it up by their own impact; half is left at the next bar, a quarter at the one after it.
    left = 0.5 * (0.5 * own[0] + own[1])
    moves = np.array([own[0], own[1] + 0.5 * own[0], own[2], own[3] + max(0.5 * (own[2] - left), 0.0)])
    prices = panel["open"][61:65, 0] * (1 + np.sign(quantities) * moves)
    np.testing.assert_allclose(played.fills[:4, 0, Fill.PRICE], prices, rtol=1e-12)
    values = np.abs(quantities) * panel["open"][61:65, 0]
    np.testing.assert_allclose(played.ledger[:4, Column.IMPACT], values * moves)
    assert scaled_costs(rules, 1.5).costs.impact_left == 0.5  # a share, not a cost


def test_an_account_begins_with_its_holdings_and_moves_with_them() -> None:
    panel = load("synthetic", symbols=2, bars=80, seed=1)
    held = StartingHolding(panel.symbols[0], 10.0)
    rules = MarketParameters(costs=FREE, holdings=(held,))
    played = play(Still(), panel, rules)
    expected = 100_000.0 + 10.0 * panel.close[61:, 0]
    np.testing.assert_allclose(played.equity[1:], expected)
    assert played.ledger[0, Column.EQUITY_BEFORE] == pytest.approx(100_000.0 + 10.0 * panel.close[60, 0])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Costs(by_symbol=(SymbolCost("A", 1.0), SymbolCost("A", 2.0))), "names A twice"),
        (lambda: Costs(by_symbol=(SymbolCost("A", -50.0),)), "less than nothing"),
        (lambda: Costs(permanent_bps=1.0), "is a part of impact_model=almgren_chriss"),
        (lambda: Costs(impact_left=1.0), "impact_left"),
        (lambda: Costs(impact_bps=1_000.0, impact_left=0.9), "sale 0 or less"),
        (lambda: StartingHolding("A", float("nan")), "give a number"),
        (lambda: MarketParameters(holdings=(StartingHolding("A", -1.0),)), "is short"),
        (lambda: MarketParameters(costs=Costs(permanent_bps=1.0, impact_model="almgren_chriss")), "volume_cap"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make()


def test_a_holding_that_is_not_traded_is_refused() -> None:
    panel = load("synthetic", symbols=2, bars=80, seed=1)
    rules = MarketParameters(holdings=(StartingHolding("SPY", 1.0),))
    with pytest.raises(ConfigError, match="SPY, which is not traded"):
        play(Still(), panel, rules)


def test_every_episode_of_training_begins_with_the_holdings_of_its_symbols() -> None:
    panel = load("synthetic", symbols=2, bars=80, seed=1)
    rules = MarketParameters(costs=FREE, holdings=(StartingHolding(panel.symbols[0], 10.0),))
    table = feature_table(panel, ["return_1"])
    bank = Bank.from_panels(panel, table)
    options: Any = {"action": "continuous", "window_bars": 2, "market": rules, "episode_bars": 3, "starts": "fixed"}
    batch = Batch(bank, 2, **options)
    block, time = Cursor.BLOCK, Cursor.TIME
    shown = batch.reset()
    for _ in range(2):  # as it was reset, and as it restarted by itself after three bars
        starts = batch.cursor.copy()
        prices = bank.bars[starts[:, block], starts[:, time], 0, Bar.CLOSE]
        held = np.where(starts[:, block] == 0, 10.0, 0.0)
        np.testing.assert_array_equal(batch.positions[:, 0, Position.QUANTITY], held)
        np.testing.assert_allclose(batch.accounts[:, Account.EQUITY], 100_000.0 + held * prices)
        shares = shown["position"].reshape(2, -1)[:, PositionEntry.WEIGHT]
        np.testing.assert_allclose(shares, held * prices / (100_000.0 + held * prices), rtol=1e-6)
        steps = [batch.step(np.zeros(2)) for _ in range(3)]
        later = bank.bars[starts[:, block], starts[:, time] + 3, 0, Bar.CLOSE]
        np.testing.assert_allclose(steps[-1].ledger[:, Column.EQUITY], 100_000.0 + held * later)
        assert steps[-1].truncated.all()
        shown = steps[-1].observation
    whole = Batch(Bank.from_panels(panel, table, is_whole=True), **options)
    whole.reset()
    np.testing.assert_array_equal(whole.positions[0, :, Position.QUANTITY], [10.0, 0.0])


def test_training_refuses_a_holding_that_is_not_traded() -> None:
    small = ("data=synthetic", "data.symbols=2", "data.bars=300", "features.names=[return_1]")
    config = resolve([*small, "task.market.holdings=[{symbol: SPY, quantity: 10}]"])
    with pytest.raises(ConfigError, match="SPY, which is not traded"):
        build_parts(config, build_panel(config))


def test_accounts_without_costs_of_their_own_are_as_they_were() -> None:
    bars = MarketBars.from_arrays(np.full((3, 2), 10.0))
    assert not bars.values[..., Bar.COST].any()
    accounts = Accounts(bars, MarketParameters(costs=FREE), kind=OrderKind.QUANTITY)
    accounts.step(np.array([[5.0, 5.0]]))
    assert accounts.ledger[0, Column.SPREAD] == 0.0
