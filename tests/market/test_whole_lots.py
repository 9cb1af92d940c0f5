"""Whole lots, ticks, dividends and splits, by hand and against what adjusted prices say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import ConfigError
from pacesetter.market import Accounts, Column, Costs, Limits, MarketBars, MarketParameters, OrderKind, Orders, Position
from pacesetter.market.ledger import Fill
from pacesetter.market.lots import match_lots
from pacesetter.market.trades import trades
from pacesetter.market.whole_lots import to_lots, to_tick
from pacesetter.panel import Panel

REAL = Path("../shared/data/us500_dated_daily_2015_2017.parquet")
FREE = Costs(0, 0, 0, 0, 0, 0)


def rules(cash: float = 1_000.0, **options: object) -> MarketParameters:
    limits = Limits(position_cap_fraction=1.0, shorting=True, ruin_fraction=0.0)
    return MarketParameters(costs=FREE, limits=limits, orders=Orders(minimum_trade=0.0), initial_cash=cash, **options)


def market_of(close: np.ndarray, **fields: np.ndarray) -> MarketBars:
    index = pd.date_range("2024-01-01", periods=len(close), freq="D", tz="UTC")
    names = [f"S{k}" for k in range(close.shape[1])]
    return MarketBars.from_panel(Panel.from_fields(index, names, {"close": close, **fields}))


def play(bars: MarketBars, orders: list, market: MarketParameters, kind: OrderKind = OrderKind.TARGET) -> Accounts:
    account = Accounts(bars, market, kind=kind)
    account.history, account.all_fills = [], []
    for order in orders:
        account.step(np.broadcast_to(np.asarray(order, float), account.positions.shape[:2]))
        account.history.append(account.ledger[0].copy())
        account.all_fills.append(account.fills[0].copy())
    return account


def held(account: Accounts) -> list[float]:
    return account.positions[0, :, Position.QUANTITY].tolist()


def test_targets_become_whole_shares_by_largest_remainders() -> None:
    close = np.tile([130.0, 90.0, 70.0], (3, 1))
    account = play(market_of(close), [[0.34, 0.33, 0.33]], rules(lot=1.0))
    # 2.62, 3.67 and 4.71 shares: 2, 3 and 4 cost 810; 190 are left, which buy one at 70 (.71) and one at 90 (.67).
    assert held(account) == [2.0, 4.0, 5.0]
    assert account.ledger[0, Column.CASH] == pytest.approx(1_000 - 2 * 130 - 4 * 90 - 5 * 70)


def test_rounding_alone_never_trades() -> None:
    close = np.tile([130.0, 90.0, 70.0], (30, 1)) * (1 + 0.001 * np.sin(np.arange(30)))[:, None]
    account = play(market_of(close), [[0.34, 0.33, 0.33]] * 28, rules(lot=1.0))
    assert [bool(row[Column.TURNOVER]) for row in account.history].count(True) <= 2


def test_shorts_are_rounded_alike_and_a_close_is_whole() -> None:
    close = np.tile([130.0, 90.0], (6, 1))
    account = play(market_of(close), [[-0.5, 0.4], [-0.5, 0.4], [0.0, 0.0]], rules(lot={"S0": 1.0}))
    assert account.all_fills[0][:, Fill.QUANTITY].tolist() == pytest.approx([-3.0, 400 / 90])
    assert held(account) == [0.0, 0.0]


def test_a_small_account_buys_what_it_can_pay() -> None:
    close = np.tile([600.0, 90.0], (4, 1))
    account = play(market_of(close), [[0.5, 0.5]], rules(lot=1.0))
    # Half a share of the first is none; what is left buys more of the second only up to its own remainder.
    assert held(account) == [0.0, 6.0]


def test_an_account_that_can_pay_no_lot_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"one lot of S1 costs 9,000\.00, more than the 1,000\.00"):
        Accounts(market_of(np.tile([600.0, 90.0], (4, 1))), rules(lot=100.0))
    with pytest.raises(ConfigError, match=r"market.lot names S9, which is not traded; known: S0, S1"):
        Accounts(market_of(np.tile([600.0, 90.0], (4, 1))), rules(lot={"S9": 1.0}))
    with pytest.raises(ConfigError, match=r"market\.lot: lot has 0"):
        rules(lot=0.0)


def test_prices_are_rounded_against_the_trader() -> None:
    assert to_tick(10.021, 1.0, 0.05) == pytest.approx(10.05)
    assert to_tick(10.021, -1.0, 0.05) == pytest.approx(10.0)
    assert to_tick(10.05, 1.0, 0.05) == pytest.approx(10.05)
    assert to_tick(0.01, -1.0, 0.05) == pytest.approx(0.05)
    assert to_lots(-7.9, 2.0) == -6.0
    assert to_lots(0.3, 0.1) == pytest.approx(0.3)
    assert to_lots(1.7, 0.0) == 1.7
    account = play(market_of(np.full((3, 1), 10.021)), [10.0], rules(tick=0.05), OrderKind.QUANTITY)
    row = account.history[0]
    assert row[Column.FILL_PRICE] == pytest.approx(10.05)
    assert row[Column.SPREAD] == pytest.approx(0.29)
    assert row[Column.EQUITY] == pytest.approx(1_000 - 0.29)


def test_dividends_are_cash_and_shorts_pay_them() -> None:
    close, paid = np.full((4, 1), 50.0), np.array([[0.0], [0.0], [2.0], [0.0]])
    bars = market_of(close, dividend=paid)
    long = play(bars, [10.0, 0.0, 0.0], rules(dividends=True), OrderKind.QUANTITY)
    short = play(bars, [-10.0, 0.0, 0.0], rules(dividends=True), OrderKind.QUANTITY)
    off = play(bars, [10.0, 0.0, 0.0], rules(), OrderKind.QUANTITY)
    assert [row[Column.DIVIDEND] for row in long.history] == [0.0, 20.0, 0.0]
    assert long.ledger[0, Column.EQUITY] == 1_020.0
    assert short.ledger[0, Column.EQUITY] == 980.0
    assert off.ledger[0, Column.EQUITY] == 1_000.0


def test_a_split_multiplies_the_quantity_and_the_order() -> None:
    close, split = np.array([[90.0], [90.0], [30.0], [33.0], [33.0]]), np.zeros((5, 1))
    split[2] = 3.0
    account = play(market_of(close, split=split), [10.0, -5.0, 0.0, -15.0], rules(splits=True), OrderKind.QUANTITY)
    # 10 at 90 become 30 at 30; half are sold there, at what were 90.
    assert [row[Column.EQUITY] for row in account.history] == pytest.approx([1_000, 1_000, 1_045, 1_045])
    (trade,) = trades(np.array(account.all_fills))
    assert trade.pnl == pytest.approx(45.0)
    assert trade.quantity == 30.0
    assert trade.exit_bar == 3
    assert match_lots(np.array(account.all_fills)).drop_open().pnl.sum() == pytest.approx(45.0)


def test_unadjusted_prices_with_their_events_return_what_adjusted_ones_do() -> None:
    rng = np.random.default_rng(5)
    adjusted = 50 * np.cumprod(np.exp(rng.normal(0, 0.01, (300, 2))), axis=0)
    factor = np.ones((300, 2))
    factor[100:, 0] /= 3.0  # a split of three for one
    factor[200:, 1] *= 0.98  # a dividend of 2 %
    raw = adjusted * factor
    account = play(market_of(adjusted, close_unadjusted=raw), [[0.5, 0.5]], rules(1e6, prices="unadjusted"))
    quantities = account.positions[0, :, Position.QUANTITY].copy()
    for _ in range(298):
        account.step(np.zeros((1, 2)), [OrderKind.DISCRETE])
    assert account.positions[0, :, Position.QUANTITY] == pytest.approx(quantities * [3.0, 1.0])
    total = account.accounts[0, 0] + (quantities * raw[1] * adjusted[-1] / adjusted[1]).sum()
    # The dividend lies as cash: it does not earn what it would have, had it bought shares again.
    paid = quantities[1] * raw[199, 1] * 0.02
    put_back = paid * adjusted[-1, 1] / adjusted[199, 1]
    assert account.ledger[0, Column.EQUITY] == pytest.approx(total - put_back, rel=1e-12)


def test_rules_that_the_bars_cannot_serve_are_refused() -> None:
    bars = market_of(np.full((4, 1), 50.0))
    with pytest.raises(ConfigError, match=r"market.dividends=true needs a column dividend"):
        Accounts(bars, rules(dividends=True))
    with pytest.raises(ConfigError, match=r"market.splits=true needs a column split"):
        Accounts(bars, rules(splits=True))
    with pytest.raises(ConfigError, match=r"market.prices=unadjusted needs the column close_unadjusted"):
        Accounts(bars, rules(prices="unadjusted"))


@pytest.mark.proof
def test_real_unadjusted_stocks_return_what_adjusted_ones_do() -> None:
    if not REAL.is_file():
        pytest.skip(f"{REAL} is not beside the checkout")
    import pacesetter as ps

    panel = ps.load(str(REAL), allow=["high_low"])
    alive = [name for name, seen in zip(panel.symbols, panel.mask.T, strict=True) if seen.all()][:100]
    bars = MarketBars.from_panel(panel.select(alive))
    shares = np.full((1, len(alive)), 1 / len(alive))
    equity = []
    for prices in ("adjusted", "unadjusted"):
        account = Accounts(bars, rules(1e6, prices=prices), kind=OrderKind.TARGET)
        account.step(shares)
        for _ in range(len(bars) - 2):
            account.step(np.zeros_like(shares), [OrderKind.DISCRETE])
        equity.append(account.ledger[0, Column.EQUITY])
    # Dividends lie as cash: some 2 % a year of a market that rose by a third.
    assert equity[1] == pytest.approx(equity[0], rel=0.02)
