"""Environments on bars with funding, margin and lots: what they reward is what the account earned."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.market import Column, Fill, Flag, Limits, MarketParameters, Orders
from pacesetter.market.bars import PLAIN
from pacesetter.market.orders import Discrete
from pacesetter.market.parameters import Margin
from pacesetter.panel import Panel


@pytest.fixture(scope="module")
def panel() -> Panel:
    bare = Synthetic(symbols=2, bars=120, seed=1, volatility=0.9).read()
    return bare.with_field("funding_rate", np.full(bare.mask.shape, 0.001))


def bank_of(panel: Panel, is_whole: bool = False) -> Bank:
    return Bank.from_panels(panel, feature_table(panel, ["return_1"]), is_whole=is_whole)


def test_rewards_have_funding_and_liquidations_in_them(panel: Panel) -> None:
    limits = Limits(position_cap_fraction=1.0, gross_leverage=2.0, shorting=True)
    market = MarketParameters(limits=limits, margin=Margin("cross", maintenance=0.48))
    batch = Batch(bank_of(panel, is_whole=True), 8, action="target", window_bars=2, market=market, has_windows=False)
    batch.seed(range(8))
    batch.reset()
    generator, flags, paid = np.random.default_rng(0), 0, 0.0
    for _ in range(150):
        step = batch.step(generator.choice([-1.0, 1.0], (8, 2)))
        ledger = step.ledger
        flags |= int(np.bitwise_or.reduce(ledger[:, Column.FLAGS].astype(int)))
        paid += float(np.abs(ledger[:, Column.FUNDING]).sum())
        alive = ledger[:, Column.EQUITY] > 0
        growth = np.log(ledger[alive, Column.EQUITY] / ledger[alive, Column.EQUITY_BEFORE])
        assert step.components[0, alive] == pytest.approx(growth, abs=1e-9)
    assert flags & Flag.LIQUIDATED
    assert paid > 0


@pytest.mark.parametrize("mode", ["cross", "isolated"])
def test_masks_under_a_margin_are_the_orders_that_are_sent(panel: Panel, mode: str) -> None:
    """No order beyond the margin is offered; what a venue cancels in the next bar nobody knew."""
    limits = Limits(position_cap_fraction=4.0, gross_leverage=4.0, shorting=True)
    market = MarketParameters(limits=limits, orders=Orders(buy_fraction=1.0), margin=Margin(mode, maintenance=0.2))
    batch = Batch(bank_of(panel), 8, window_bars=2, market=market, has_windows=False, episode_bars=60)
    batch.seed(range(8))
    batch.reset()
    generator, spent, liquidated = np.random.default_rng(0), 0, 0
    for _ in range(60):
        masks = batch.action_masks()
        for order in Discrete:
            trial = copy.deepcopy(batch)
            ledger = trial.step(np.full((8, 1), order)).ledger
            is_known = ledger[:, Column.FLAGS].astype(int) & Flag.LIQUIDATED == 0
            is_sent = (trial.fills[:, 0, Fill.ORDERED] != 0) | (order == Discrete.HOLD)
            assert np.array_equal(masks[is_known, order], is_sent[is_known])
            liquidated += int((~is_known).sum())
        spent += int((~masks[:, [Discrete.BUY_LARGE]]).sum())
        batch.step(np.array([[generator.choice(np.flatnonzero(row))] for row in masks]))
    assert spent > 20
    assert liquidated > 5


def test_an_order_below_one_lot_is_masked(panel: Panel) -> None:
    price = float(panel.close[0].max())
    market = MarketParameters(limits=Limits(position_cap_fraction=1.0), lot=12_000 / price)
    batch = Batch(bank_of(panel), 4, window_bars=2, market=market, has_windows=False)
    batch.seed(range(4))
    batch.reset()
    masks = batch.action_masks()
    # A large order spends 15,000, a small one 5,000; a lot costs some 12,000.
    assert not masks[:, Discrete.BUY_SMALL].any()
    assert masks[:, Discrete.BUY_LARGE].any()
    small = MarketParameters(limits=Limits(position_cap_fraction=1.0))
    free = Batch(bank_of(panel), 4, window_bars=2, market=small, has_windows=False)
    free.reset()
    assert free.action_masks()[:, Discrete.BUY_SMALL].all()


def test_a_bank_has_plain_bars_where_nothing_else_is_used(panel: Panel) -> None:
    bank = bank_of(panel)
    assert bank.with_market(MarketParameters()).bars.shape[-1] > PLAIN
    assert bank.with_market(MarketParameters(funding="none")).bars.shape[-1] == PLAIN
    with pytest.raises(ConfigError, match=r"market\.lot names XYZ, which is not traded"):
        bank.check_market(MarketParameters(lot={"XYZ": 1.0}))
    for made in (bank, bank_of(panel, is_whole=True)):
        with pytest.raises(ConfigError, match=r"one lot of S\d+ costs .*, more than the 15,000\.00 that one position"):
            made.check_market(MarketParameters(lot=1e5))
