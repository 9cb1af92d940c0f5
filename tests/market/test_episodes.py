"""Episodes computed by hand: bars, actions and rules on the left, the ledger's last row on the right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pacesetter.market import (
    Column,
    Costs,
    Discrete,
    Exits,
    Flag,
    Limits,
    MarketBars,
    MarketParameters,
    OrderKind,
    Orders,
)

BUY, HOLD, SELL = Discrete.BUY_LARGE, Discrete.HOLD, Discrete.SELL_ALL
# 252 bars a year, so that 252 bps a year are 1 bp a bar.
FREE = {"commission_bps": 0, "spread_bps": 0, "slippage_bps": 0, "borrow_bps_per_year": 0}
FLAT = (100, 100, 100, 100)
STOP, TARGET = Exits(stop_loss_fraction=0.05), Exits(take_profit_fraction=0.05)


@dataclass
class Episode:
    """Bars as (open, high, low, close) or (…, volume) per time, None where nothing traded; expected last ledger row."""

    name: str
    bars: list[Any]
    actions: list[Any]
    expected: dict[Column, float]
    flags: int = 0
    costs: dict[str, float] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    exits: Exits = field(default_factory=Exits)
    orders: Orders = field(default_factory=Orders)
    kind: OrderKind = OrderKind.DISCRETE
    band: float = 0.0


# BUY_LARGE spends 15 % of 100,000 at the close of 100: 150 shares, whatever the open then is.
EPISODES = [
    Episode(
        "an order sized at the close of 100 fills at the next open of 102 and is marked at 105, then 110",
        [FLAT, (102, 106, 101, 105), (105, 111, 104, 110)],
        [BUY, HOLD],
        # cash 100,000 − 150·102 = 84,700; equity 84,700 + 150·110
        {
            Column.CASH: 84_700,
            Column.EQUITY: 101_200,
            Column.GROSS_PNL: 750,
            Column.UNREALISED: 1_200,
            Column.UNREALISED_BEFORE: 450,
            Column.EXPOSURE_BEFORE: 15_750 / 100_450,
            Column.HOLDING_BARS: 2,
        },
    ),
    Episode(
        "half the spread and the slippage move the price, commission comes on top",
        [FLAT, FLAT],
        [BUY],
        # price 100·(1 + 10 bps + 10 bps) = 100.2; commission 10 bps of 150·100.2 = 15.03
        {Column.SPREAD: 15, Column.SLIPPAGE: 15, Column.COMMISSION: 15.03, Column.EQUITY: 99_954.97},
        Flag.OPENED,
        costs={"commission_bps": 10, "spread_bps": 20, "slippage_bps": 10},
    ),
    Episode(
        "the minimum commission is charged where the rate gives less, on both sides",
        [FLAT, FLAT, FLAT],
        [BUY, SELL],
        {Column.COMMISSION: 20, Column.REALISED: -20, Column.EQUITY: 99_960, Column.EXPOSURE: 0},
        Flag.CLOSED,
        costs={"commission_bps": 1, "minimum_commission": 20},
    ),
    Episode(
        "a stop fills at its level once the bar touches it",
        [FLAT, FLAT, (99, 99, 95, 96)],
        [BUY, HOLD],
        {Column.EXIT_PRICE: 95, Column.EXIT_QUANTITY: -150, Column.EQUITY: 99_250, Column.REALISED: -750},
        Flag.STOP_LOSS | Flag.CLOSED,
        exits=STOP,
    ),
    Episode(
        "a bar that gaps through the stop fills at its open",
        [FLAT, FLAT, (93, 97, 92, 96)],
        [BUY, HOLD],
        {Column.EXIT_PRICE: 93, Column.EQUITY: 98_950},
        Flag.STOP_LOSS | Flag.CLOSED,
        exits=STOP,
    ),
    Episode(
        "where a bar touches both, the stop goes before the take-profit",
        [FLAT, FLAT, (100, 106, 94, 100)],
        [BUY, HOLD],
        {Column.EXIT_PRICE: 95, Column.EQUITY: 99_250},
        Flag.STOP_LOSS | Flag.CLOSED,
        exits=Exits(stop_loss_fraction=0.05, take_profit_fraction=0.05),
    ),
    Episode(
        "a take-profit fills at its level once the bar touches it",
        [FLAT, FLAT, (100, 105, 99, 100)],
        [BUY, HOLD],
        {Column.EXIT_PRICE: 105, Column.EQUITY: 100_750},
        Flag.TAKE_PROFIT | Flag.CLOSED,
        exits=TARGET,
    ),
    Episode(
        "a bar that opens beyond the take-profit fills at its open",
        [FLAT, FLAT, (107, 108, 106, 107)],
        [BUY, HOLD],
        {Column.EXIT_PRICE: 107, Column.EQUITY: 101_050},
        Flag.TAKE_PROFIT | Flag.CLOSED,
        exits=TARGET,
    ),
    Episode(
        "a short's take-profit is below its entry",
        [FLAT, FLAT, (100, 104, 94, 96)],
        [SELL, HOLD],
        {Column.EXIT_PRICE: 95, Column.EXIT_QUANTITY: 150, Column.EQUITY: 100_750},
        Flag.TAKE_PROFIT | Flag.CLOSED,
        limits=Limits(shorting=True),
        exits=TARGET,
    ),
    Episode(
        "a short's trailing stop follows the low of 90, not the close of 92",
        [FLAT, (100, 101, 90, 92), (93, 95, 91, 94)],
        [SELL, HOLD],
        {Column.EXIT_PRICE: 94.5, Column.EQUITY: 100_825},
        Flag.TRAILING_STOP | Flag.CLOSED,
        limits=Limits(shorting=True),
        exits=Exits(trailing_stop_fraction=0.05),
    ),
    Episode(
        "the trailing stop follows the high of 110 before the bar, not the 120 inside it",
        [FLAT, (100, 110, 99, 108), (107, 120, 104, 115)],
        [BUY, HOLD],
        {Column.EXIT_PRICE: 104.5, Column.EQUITY: 100_675},
        Flag.TRAILING_STOP | Flag.CLOSED,
        exits=Exits(trailing_stop_fraction=0.05),
    ),
    Episode(
        "on closes only, a stop fills at the close that reveals it",
        [FLAT, FLAT, (94, 94, 94, 94)],
        [BUY, HOLD],
        {Column.EXIT_PRICE: 94, Column.EQUITY: 99_100},
        Flag.STOP_LOSS | Flag.CLOSED,
        exits=STOP,
    ),
    Episode(
        "a halted bar cancels the order",
        [FLAT, None],
        [BUY],
        {Column.FILL_QUANTITY: 0, Column.CASH: 100_000, Column.EQUITY: 100_000},
        Flag.HALTED,
    ),
    Episode(
        "a delisting pays out the last close without costs, whatever the order, and ends the account",
        [FLAT, (100, 100, 90, 90), None, None],
        [BUY, HOLD, SELL],
        # 15 of commission for the purchase
        {Column.EXIT_PRICE: 90, Column.FILL_QUANTITY: 0, Column.EQUITY: 98_485, Column.COST: 0},
        Flag.DELISTED | Flag.CLOSED | Flag.TERMINATED,
        costs={"commission_bps": 10},
    ),
    Episode(
        "the delisting of one of two symbols goes on with the other",
        [[FLAT, FLAT], [FLAT, FLAT], [None, FLAT], [None, FLAT]],
        [[0.5, 0.5]] * 3,
        {Column.CASH: 50_000, Column.OPEN_POSITIONS: 1, Column.HOLDING_BARS: 3},
        Flag.DELISTED | Flag.CLOSED,
        limits=Limits(position_cap_fraction=1),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "a tenth of a volume of 1,000 fills 100 of the 150 shares",
        [(*FLAT, 1_000)] * 2,
        [BUY],
        {Column.FILL_QUANTITY: 100, Column.CASH: 90_000},
        Flag.CUT | Flag.OPENED,
        limits=Limits(volume_cap_fraction=0.1),
    ),
    Episode(
        "a sale cut to less than the minimum trade of 25 fills nothing",
        [(*FLAT, 1_500)] * 2 + [(*FLAT, 2)],
        [BUY, SELL],
        {Column.FILL_QUANTITY: 0, Column.CASH: 85_000},
        Flag.CUT,
        limits=Limits(volume_cap_fraction=0.1),
    ),
    Episode(
        "the cap of 200 leaves 50 of the 150 shares just bought to a stop in the same bar",
        [(*FLAT, 2_000), (100, 100, 94, 96, 2_000)],
        [BUY],
        {Column.FILL_QUANTITY: 150, Column.EXIT_QUANTITY: -50, Column.EXIT_PRICE: 95},
        Flag.OPENED | Flag.STOP_LOSS | Flag.REDUCED,
        limits=Limits(volume_cap_fraction=0.1),
        exits=STOP,
    ),
    Episode(
        "an order of 25, the minimum trade, is sent",
        [FLAT, FLAT],
        [0.00025],
        {Column.FILL_QUANTITY: 0.25},
        Flag.OPENED,
        kind=OrderKind.TARGET,
    ),
    Episode(
        "a position that is opened again is held for one bar",
        [FLAT] * 4,
        [BUY, SELL, BUY],
        {Column.HOLDING_BARS: 1, Column.FILL_QUANTITY: 150},
        Flag.OPENED,
    ),
    Episode(
        "a weight on the other side closes first",
        [FLAT] * 3,
        [0.1, -0.1],
        {Column.FILL_QUANTITY: -100, Column.OPEN_POSITIONS: 0},
        Flag.CLOSED,
        limits=Limits(shorting=True),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "a target of 10 % buys 100 shares, and 9.1 % after the fall to 90 is within a band of 2 %",
        [FLAT, FLAT, (90, 90, 90, 90), (90, 90, 90, 90)],
        [0.1, 0.1, 0.1],
        # 9,000 of 99,000; without a band 10 more shares would be bought
        {Column.FILL_QUANTITY: 0, Column.EXPOSURE: 9 / 99, Column.EQUITY: 99_000},
        kind=OrderKind.TARGET,
        band=0.02,
    ),
    Episode(
        "8.2 % after a fall to 80 with a band of 1.5 % is brought back to 10 %, all the way",
        [FLAT, FLAT, (80, 80, 80, 80), (80, 80, 80, 80)],
        [0.1, 0.1, 0.1],
        # 8,000 of 98,000; 9,800 at 80 are 122.5 shares
        {Column.FILL_QUANTITY: 22.5, Column.EXPOSURE: 0.1},
        Flag.ADDED,
        kind=OrderKind.TARGET,
        band=0.015,
    ),
    Episode(
        "a target of 0 closes a position that is smaller than the band",
        [FLAT] * 4,
        [0.1, 0.04, 0.0],
        {Column.FILL_QUANTITY: -40, Column.EXPOSURE: 0},
        Flag.CLOSED,
        kind=OrderKind.TARGET,
        band=0.05,
    ),
    Episode(
        "a target from 10 % long to 10 % short closes in one bar and opens in the next, band or not",
        [FLAT] * 4,
        [0.1, -0.1, -0.1],
        {Column.FILL_QUANTITY: -100, Column.NET_EXPOSURE: -0.1},
        Flag.OPENED,
        limits=Limits(shorting=True),
        kind=OrderKind.TARGET,
        band=0.05,
    ),
    Episode(
        "impact of 100 bps · √(150/600) moves the price by 50 bps",
        [(*FLAT, 600)] * 2,
        [BUY],
        {Column.FILL_PRICE: 100.5, Column.IMPACT: 75, Column.EQUITY: 99_925},
        costs={"impact_bps": 100},
        limits=Limits(volume_cap_fraction=1.0),
    ),
    Episode(
        "a short of 150 gains 1,500 and pays 1 bp a bar on 15,000",
        [FLAT, FLAT, (90, 90, 90, 90)],
        [SELL, HOLD],
        {Column.BORROW: 1.5, Column.EQUITY: 101_498.5, Column.NET_EXPOSURE: -13_500 / 101_498.5},
        costs={"borrow_bps_per_year": 252},
        limits=Limits(shorting=True),
    ),
    Episode(
        "a long pays no borrow",
        [FLAT] * 3,
        [BUY, HOLD],
        {Column.BORROW: 0, Column.EQUITY: 100_000},
        costs={"borrow_bps_per_year": 252},
    ),
    Episode(
        "the proceeds of a short are its collateral and earn nothing",
        [FLAT] * 3,
        [SELL, HOLD],
        # of the cash of 115,010, 15,000 are owed
        {Column.CASH: 115_020.001, Column.INTEREST: 10.001},
        costs={"interest_bps_per_year": 252},
        limits=Limits(shorting=True),
    ),
    Episode(
        "a short's stop is above its entry",
        [FLAT, FLAT, (101, 106, 100, 104)],
        [SELL, HOLD],
        {Column.EXIT_PRICE: 105, Column.EQUITY: 99_250},
        Flag.STOP_LOSS | Flag.CLOSED,
        limits=Limits(shorting=True),
        exits=STOP,
    ),
    Episode(
        "cash earns 1 bp a bar",
        [FLAT, FLAT],
        [HOLD],
        {Column.INTEREST: 10, Column.EQUITY: 100_010, Column.EQUITY_CHANGE: 10, Column.NET_PNL: 0},
        costs={"interest_bps_per_year": 252},
    ),
    Episode(
        "leverage of 2 borrows 100,000 and pays 1 bp a bar for it",
        [FLAT, FLAT, FLAT],
        [BUY, HOLD],
        {Column.CASH: -100_010, Column.INTEREST: -10, Column.EXPOSURE: 200_000 / 99_990},
        costs={"loan_bps_per_year": 252},
        limits=Limits(gross_leverage=2, position_cap_fraction=2),
        orders=Orders(buy_fraction=1),
    ),
    Episode(
        "an account beyond its leverage, which a halt keeps from selling, buys nothing",
        [[FLAT] * 3, [FLAT] * 3, [(80, 80, 80, 80)] * 2 + [FLAT], [None, None, FLAT]],
        [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.5]],
        # 160,000 held of an equity of 60,000, where 120,000 are allowed
        {Column.EQUITY: 60_000, Column.EXPOSURE: 160 / 60, Column.FILL_QUANTITY: 0},
        Flag.CUT | Flag.HALTED,
        limits=Limits(gross_leverage=2, position_cap_fraction=1),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "a loss of 45 on 2,000 shares leaves 10,000, a tenth, and ruins the account",
        [FLAT, FLAT, (55, 55, 55, 55)],
        [BUY, HOLD],
        {Column.EQUITY: 10_000, Column.DRAWDOWN: 0.9},
        Flag.RUINED | Flag.TERMINATED,
        limits=Limits(gross_leverage=2, position_cap_fraction=2),
        orders=Orders(buy_fraction=1),
    ),
    Episode(
        "a position 10 % down at the close is sold at the next open, against the agent's order",
        [FLAT, (100, 100, 90, 90), (91, 92, 90, 92)],
        [BUY, BUY],
        {
            Column.FILL_QUANTITY: -150,
            Column.FILL_PRICE: 91,
            Column.EQUITY: 98_650,
            Column.TURNOVER: 13_650 / 98_500,
        },
        Flag.POSITION_LIMIT | Flag.CLOSED,
        limits=Limits(position_loss_limit_fraction=0.1),
    ),
    Episode(
        "an account 20 % below its peak at the close is closed at the next open and ends",
        [FLAT, (100, 150, 100, 150), (150, 150, 120, 120), (125, 125, 125, 125)],
        [1.0, 1.0, 1.0],
        {Column.EQUITY: 125_000, Column.EXPOSURE: 0},
        Flag.PORTFOLIO_LIMIT | Flag.CLOSED | Flag.TERMINATED,
        limits=Limits(position_cap_fraction=1, portfolio_loss_limit_fraction=0.15),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "a volume cap lets it close 400 shares, then the other 600, and only then it ends",
        [(*FLAT, 10_000), (100, 100, 80, 80, 10_000), (85, 85, 85, 85, 4_000), (90, 90, 90, 90, 10_000)],
        [1.0, 1.0, 1.0],
        {Column.EQUITY: 400 * 85 + 600 * 90, Column.FILL_QUANTITY: -600},
        Flag.PORTFOLIO_LIMIT | Flag.CLOSED | Flag.TERMINATED,
        limits=Limits(position_cap_fraction=1, portfolio_loss_limit_fraction=0.15, volume_cap_fraction=0.1),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "a buy of everything keeps its own costs back",
        [FLAT, FLAT],
        [1.0],
        # a share costs 100 · 1.01 and 1 % of that
        {Column.FILL_QUANTITY: 100_000 / 102.01, Column.CASH: 0},
        Flag.CUT | Flag.OPENED,
        costs={"commission_bps": 100, "spread_bps": 200},
        limits=Limits(position_cap_fraction=1),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "a buy of everything keeps the minimum commission back",
        [FLAT, FLAT],
        [1.0],
        {Column.FILL_QUANTITY: 999.5, Column.CASH: 0},
        Flag.CUT | Flag.OPENED,
        costs={"minimum_commission": 50},
        limits=Limits(position_cap_fraction=1),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "cash of 20 is below the minimum trade of 25 and buys nothing",
        [[FLAT, FLAT]] * 3,
        [[0.9998, 0.0], [0.9998, 0.1]],
        {Column.CASH: 20, Column.FILL_QUANTITY: 0, Column.OPEN_POSITIONS: 1},
        Flag.CUT,
        limits=Limits(position_cap_fraction=1),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "two buys of 60,000 with 100,000 in cash shrink by the same factor of 5/6",
        [[FLAT, FLAT], [FLAT, (50, 50, 50, 50)], [FLAT, (50, 60, 50, 60)]],
        [[0.0, 0.0], [0.6, 0.6]],
        {
            Column.FILL_QUANTITY: 500 + 1_000,
            Column.CASH: 0,
            Column.OPEN_POSITIONS: 2,
            Column.HOLDING_BARS: 1,
            Column.EQUITY: 110_000,
        },
        Flag.CUT | Flag.OPENED,
        limits=Limits(position_cap_fraction=1),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "sells come first and pay for the buy",
        [[FLAT, FLAT]] * 3,
        [[0.0, 1.0], [1.0, 0.0]],
        {Column.FILL_QUANTITY: 0, Column.TURNOVER: 2, Column.CASH: 0, Column.OPEN_POSITIONS: 1},
        Flag.CLOSED | Flag.OPENED,
        limits=Limits(position_cap_fraction=1),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "a reserve of 40 % stays in cash",
        [FLAT, FLAT],
        [1.0],
        {Column.CASH: 40_000, Column.FILL_QUANTITY: 600},
        Flag.CUT | Flag.OPENED,
        limits=Limits(position_cap_fraction=1, reserve_cash_fraction=0.4),
        kind=OrderKind.TARGET,
    ),
    Episode(
        "a reserve of 40 % is not a free cash: 15 % of 60,000 buys 90 shares",
        [FLAT, FLAT],
        [BUY],
        {Column.CASH: 91_000, Column.FILL_QUANTITY: 90},
        limits=Limits(reserve_cash_fraction=0.4),
    ),
    Episode(
        "the order of an account is the mean over its positions, after smoothing",
        [[FLAT, FLAT]] * 2,
        [[0.8, -0.4]],
        {Column.ORDER: 0.1, Column.ORDER_SIZE: 0.3},
        kind=OrderKind.CONTINUOUS,
    ),
]


def market(rows: list[Any]) -> MarketBars:
    """Bars from the table's short form."""
    nested = [row if isinstance(row, list) else [row] for row in rows]
    filled = [[(np.nan,) * 5 if bar is None else (*bar, *(0,) * (5 - len(bar))) for bar in row] for row in nested]
    opening, high, low, close, volume = np.moveaxis(np.array(filled, dtype=float), -1, 0)
    given = volume if np.nansum(volume) > 0 else None
    return MarketBars.from_arrays(close, open=opening, high=high, low=low, volume=given, delisted_after_bars=2)


@pytest.mark.parametrize("episode", EPISODES, ids=lambda episode: episode.name)
def test_hand_computed(episode: Episode, play: Callable[..., Any]) -> None:
    costs = Costs(**FREE | episode.costs)
    parameters = MarketParameters(costs, episode.limits, episode.exits, episode.orders, band=episode.band)
    played = play(market(episode.bars), episode.actions, parameters, episode.kind)
    assert [played[column][-1] for column in episode.expected] == pytest.approx(
        list(episode.expected.values()), rel=1e-12, abs=1e-9
    )
    assert played.flags[-1] & episode.flags == episode.flags
    ended = bool(episode.flags & Flag.TERMINATED)
    assert bool(played.flags[-1] & Flag.TERMINATED) == ended
    assert not (played.flags[:-1] & Flag.TERMINATED).any()
