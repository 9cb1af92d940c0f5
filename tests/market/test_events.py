"""Everything on at once: money is conserved, and the compiled kernel equals the uncompiled one bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pacesetter.market import Accounts, Column, Costs, Exits, Flag, Limits, MarketBars, MarketParameters, OrderKind
from pacesetter.market.account_bars import apply_market
from pacesetter.market.bars import PLAIN, Bar
from pacesetter.market.events import settle_events
from pacesetter.market.ledger import Fill
from pacesetter.market.parameters import Margin
from pacesetter.market.rows import step_row
from pacesetter.market.state import Position

FLOWS = [Column.NET_PNL, Column.INTEREST, Column.FUNDING, Column.DIVIDEND, Column.COVERED]
RULES = MarketParameters(
    costs=Costs(interest_bps_per_year=200),
    limits=Limits(position_cap_fraction=3, gross_leverage=6, shorting=True, ruin_fraction=0.0),
    exits=Exits(stop_loss_fraction=0.1, take_profit_fraction=0.2),
    lot=0.5,
    tick=0.05,
    dividends=True,
    splits=True,
    delisting_return=-0.2,
)


def with_events(bars: MarketBars, seed: int) -> MarketBars:
    rng, shape = np.random.default_rng(seed), bars.values.shape[:2]
    values = np.zeros((*shape, len(Bar)))
    values[..., :PLAIN] = bars.values
    values[..., Bar.FUNDING] = rng.normal(0, 0.002, shape)
    values[..., Bar.DIVIDEND] = np.where(rng.random(shape) < 0.1, 0.5, 0.0)
    values[..., Bar.SPLIT] = np.where(rng.random(shape) < 0.03, rng.choice([0.5, 1.5, 2.0], shape), 0.0)
    return replace(bars, values=values)


@pytest.mark.parametrize("mode", ["none", "cross", "isolated"])
@pytest.mark.parametrize("kind", [OrderKind.CONTINUOUS, OrderKind.TARGET, OrderKind.QUANTITY])
def test_money_is_conserved_and_compilers_agree(mode: Any, kind: OrderKind, random_bars: Callable[..., Any]) -> None:
    rules, flags = replace(RULES, margin=Margin(mode, liquidation_fee_bps=100)), 0
    for seed in range(4):
        bars = with_events(random_bars(seed, 30, 3, 0.08), seed)
        compiled, plain = (Accounts(bars, rules, kind=kind) for _ in range(2))
        rng = np.random.default_rng(seed)
        for _ in range(29):
            action = rng.uniform(-1, 1, (1, 3)).round(1) * (2_000 if kind == OrderKind.QUANTITY else 1)
            flags |= int(compiled.step(action)[0])
            step_row(0, *plain.arrays(action))
            plain.times += 1
            row = compiled.ledger[0]
            assert np.array_equal(compiled.ledger, plain.ledger)
            assert np.array_equal(compiled.fills, plain.fills)
            assert abs(row[FLOWS].sum() - row[Column.EQUITY_CHANGE]) < 1e-9 * 100_000
            held = compiled.positions[0, :, Position.QUANTITY]
            assert row[Column.EQUITY] == pytest.approx(row[Column.CASH] + held @ bars.values[compiled.times[0], :, 3])
    assert mode != "none" or not flags & Flag.LIQUIDATED
    assert mode == "none" or kind != OrderKind.QUANTITY or flags & Flag.LIQUIDATED


def test_events_are_settled_on_what_was_held() -> None:
    account, positions = np.array([100.0, 0, 0, 0]), np.zeros((2, len(Position)))
    ledger, fills = np.zeros(len(Column)), np.zeros((2, len(Fill)))
    now, bar = np.zeros((2, 2, len(Bar)))
    positions[0, :3] = 10.0, 40.0, 44.0
    fills[:, Fill.ORDERED] = 4.0, 4.0
    bar[:, Bar.OPEN], bar[:, Bar.CLOSE], bar[:, Bar.FUNDING] = 20.0, 21.0, 0.01
    bar[:, Bar.DIVIDEND], bar[:, Bar.SPLIT], now[0, Bar.MARK] = 0.5, 2.0, 39.0
    settle_events(account, positions, ledger, fills, now, bar)
    assert ledger[Column.FUNDING] == pytest.approx(-10 * 39 * 0.01)  # at the mark of the close before
    assert ledger[Column.DIVIDEND] == 5.0
    assert account[0] == pytest.approx(100 - 3.9 + 5)
    assert positions[0, :3].tolist() == [20.0, 20.0, 22.0]
    assert fills[:, Fill.ORDERED].tolist() == [8.0, 8.0]


def test_rules_without_events_leave_plain_bars(random_bars: Callable[..., Any]) -> None:
    bars = random_bars(0, 30, 3)
    assert apply_market(bars.values, bars.symbols, MarketParameters()) is bars.values
    off = MarketParameters(funding="none")
    assert np.array_equal(apply_market(with_events(bars, 0).values, bars.symbols, off), bars.values)
