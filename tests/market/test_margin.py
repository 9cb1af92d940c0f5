"""Perpetuals: funding at its stamp, margin and liquidation, beside a second calculation and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.market import Accounts, Column, Costs, Flag, Limits, MarketBars, MarketParameters, OrderKind, Orders
from pacesetter.market.bars import Bar, Status
from pacesetter.market.parameters import Margin
from pacesetter.panel import Panel
from tests.market.independent import Venue

REAL = Path("../shared/data/perps36_hourly_funding_2024_2025.parquet")
FREE = Costs(0, 0, 0, 0, 0, 0)


def perpetual_market(bars: int = 400, symbols: int = 6, seed: int = 3) -> MarketBars:
    """A wild random walk with gaps, halts and funding every eight bars."""
    rng = np.random.default_rng(seed)
    jumps = rng.choice([-0.2, 0.0, 0.2], (bars, symbols), p=[0.01, 0.98, 0.01])  # through any margin
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.02, (bars, symbols)) + jumps, axis=0))
    opening = np.vstack([close[:1], close[:-1]]) * np.exp(rng.normal(0, 0.01, close.shape) + jumps)
    high = np.maximum(opening, close) * np.exp(np.abs(rng.normal(0, 0.01, close.shape)))
    low = np.minimum(opening, close) * np.exp(-np.abs(rng.normal(0, 0.01, close.shape)))
    funding = np.where(np.arange(bars)[:, None] % 8 == 0, rng.normal(0, 0.001, close.shape), np.nan)
    mask = rng.random(close.shape) > 0.02
    fields = {"open": opening, "high": high, "low": low, "close": close, "funding_rate": funding}
    return market_of(fields, mask)


def market_of(fields: dict[str, np.ndarray], mask: np.ndarray | None = None) -> MarketBars:
    import pandas as pd

    shape = np.shape(fields["close"])
    index = pd.date_range("2024-01-01", periods=shape[0], freq="h", tz="UTC")
    names = [f"P{k}" for k in range(shape[1])]
    return MarketBars.from_panel(Panel.from_fields(index, names, fields, mask))


def rules_of(mode: str, leverage: float = 8.0, **options: object) -> MarketParameters:
    return MarketParameters(
        costs=Costs(commission_bps=4, spread_bps=2, slippage_bps=1),
        limits=Limits(position_cap_fraction=1e9, gross_leverage=leverage, shorting=True),
        orders=Orders(minimum_trade=0.0),
        margin=Margin(mode, liquidation_fee_bps=30),
        **options,
    )


def compare(bars: MarketBars, mode: str, accounts: int, width: int, seed: int) -> tuple[float, Venue, int]:
    """The largest difference over equity between the kernel and the second calculation, under random orders."""
    rules, rng = rules_of(mode), np.random.default_rng(seed)
    columns = rng.integers(0, bars.values.shape[1] - width + 1, accounts)
    kernel = Accounts(bars, rules, columns=columns, positions_each=width, kind=OrderKind.QUANTITY)
    initial, maintenance = rules.margin.shares(rules.limits.gross_leverage)
    venue = Venue(accounts, width, 8.0, 2e-4, 4e-4, initial, maintenance, 30e-4, mode == "isolated")
    places = columns[:, None] + np.arange(width)
    values, worst, flagged = bars.values, 0.0, 0

    def named(t: int) -> dict[str, np.ndarray]:
        rows = values[t][places]
        prices = {name: rows[..., Bar[name.upper()]] for name in ("open", "high", "low", "close", "funding")}
        return prices | {"trades": rows[..., Bar.STATUS] == Status.TRADING}

    for t in range(len(values) - 1):
        now = named(t)
        money = rng.normal(0, 3.0, (accounts, width)) * kernel.accounts[:, 1][:, None]
        orders = np.where(rng.random((accounts, width)) < 0.1, money / np.maximum(now["close"], 1e-9), 0.0)
        orders = np.where(now["close"] > 0, orders, 0.0)
        flags = kernel.step(orders)
        equity = venue.step(orders, now, named(t + 1))
        worst = max(worst, float(np.max(np.abs(kernel.ledger[:, Column.EQUITY] - equity) / 100_000.0)))
        flagged += int((flags & Flag.LIQUIDATED != 0).sum())
        ended = equity < 20_000.0
        if ended.any() and t + 2 < len(values):
            kernel.open(ended, kernel.times)
            venue.restart(ended)
    return worst, venue, flagged


@pytest.mark.parametrize("mode", ["cross", "isolated"])
@pytest.mark.parametrize("width", [1, 3])
def test_random_orders_equal_a_second_calculation(mode: str, width: int) -> None:
    worst, venue, flagged = compare(perpetual_market(), mode, 40, width, seed=width)
    assert worst < 1e-9
    assert venue.liquidations > 50
    assert flagged > 20
    assert venue.covered > 0


@pytest.mark.proof
@pytest.mark.parametrize("mode", ["cross", "isolated"])
def test_a_million_account_bars_of_real_perpetuals(mode: str) -> None:
    if not REAL.is_file():
        pytest.skip(f"{REAL} is not beside the checkout")
    import pacesetter as ps

    bars = MarketBars.from_panel(ps.load(str(REAL), stamp="open"))
    worst, venue, _ = compare(bars, mode, 125, 3, seed=11)
    assert 125 * (len(bars) - 1) > 1_000_000
    assert worst < 1e-9
    assert venue.liquidations > 100


def play(bars: MarketBars, orders: list[float], rules: MarketParameters) -> np.ndarray:
    account = Accounts(bars, rules, kind=OrderKind.QUANTITY)
    rows = []
    for order in orders:
        account.step(np.full((1, bars.values.shape[1]), order))
        rows.append(account.ledger[0].copy())
    return np.array(rows)


def free_rules(mode: str = "cross", leverage: float = 5.0, **margin: float) -> MarketParameters:
    return MarketParameters(
        costs=FREE,
        limits=Limits(position_cap_fraction=100, gross_leverage=leverage, shorting=True, ruin_fraction=0.0),
        orders=Orders(minimum_trade=0.0),
        initial_cash=1_000.0,
        margin=Margin(mode, **margin),
    )


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def test_longs_pay_funding_at_the_open_of_its_bar() -> None:
    close = column(100, 100, 110, 120)
    bars = market_of({"close": close, "open": close, "high": close, "low": close, "funding_rate": close * 0 + 0.01})
    ledger = play(bars, [10.0, 0.0, 0.0], free_rules())
    # Bought at the open of bar 1, so that its funding is not yet due; then 10 · 110 · 1 %, and 10 · 120 · 1 %.
    assert ledger[:, Column.FUNDING].tolist() == pytest.approx([0.0, -11.0, -12.0])
    assert ledger[-1, Column.EQUITY] == pytest.approx(1_000 + 200 - 23)
    short = play(bars, [-10.0, 0.0, 0.0], free_rules())
    assert short[:, Column.FUNDING].tolist() == pytest.approx([0.0, 11.0, 12.0])


def test_a_long_is_liquidated_at_its_level_and_pays_the_fee() -> None:
    close = column(100, 100, 96, 90)
    low = column(100, 100, 80, 90)
    bars = market_of({"close": close, "open": column(100, 100, 99, 96), "high": column(100, 100, 100, 96), "low": low})
    rules = free_rules(initial=0.2, maintenance=0.1, liquidation_fee_bps=100)
    ledger = play(bars, [50.0, 0.0, 0.0], rules)
    # Cash is 1,000 − 5,000: −(−4,000) / (50 · 0.9) = 88.89, where 444.44 is left, less a fee of 44.44.
    assert int(ledger[1, Column.FLAGS]) & Flag.LIQUIDATED
    assert ledger[1, Column.EXIT_PRICE] == pytest.approx(4_000 / 45)
    assert ledger[1, Column.LIQUIDATION] == pytest.approx(4_000 / 45 * 50 * 0.01)
    assert ledger[1, Column.EQUITY] == pytest.approx(4_000 / 45 * 5 - 4_000 / 45 * 0.5)
    assert ledger[2, Column.OPEN_POSITIONS] == 0


@pytest.mark.parametrize("mode", ["cross", "isolated"])
def test_a_gap_through_the_liquidation_costs_no_more_than_the_margin(mode: str) -> None:
    close = column(100, 100, 60, 60)
    bars = market_of({"close": close, "open": column(100, 100, 60, 60), "high": close, "low": close})
    ledger = play(bars, [50.0, 5.0, 0.0], free_rules(mode, initial=0.2, maintenance=0.1, liquidation_fee_bps=100))
    # 50 · 40 = 2,000 are lost and 30 of fee, of which the margin of 1,000 pays all that it can.
    assert ledger[1, Column.COVERED] == pytest.approx(1_030)
    assert ledger[1, Column.EQUITY] == pytest.approx(0.0)
    assert ledger[1, Column.FILL_QUANTITY] == 0.0  # the order of that bar was cancelled
    change = ledger[:, [Column.NET_PNL, Column.INTEREST, Column.FUNDING, Column.DIVIDEND, Column.COVERED]].sum(axis=1)
    assert change == pytest.approx(ledger[:, Column.EQUITY_CHANGE])


def test_isolated_margin_leaves_the_other_position_alone() -> None:
    close = np.array([[100.0, 100.0], [100, 100], [75, 100], [75, 100]])
    bars = market_of({"close": close, "open": close, "high": close, "low": close})
    orders = [10.0, 0.0, 0.0]
    isolated = play(bars, orders, free_rules("isolated", 4.0, initial=0.25, maintenance=0.1, liquidation_fee_bps=0))
    crossed = play(bars, orders, free_rules("cross", 4.0, initial=0.25, maintenance=0.1, liquidation_fee_bps=0))
    # Ten at 100 have a margin of 250, which a fall to 75 uses up; crossed, 750 of equity bear 1,750 of value.
    assert isolated[1, Column.OPEN_POSITIONS] == 1
    assert isolated[1, Column.EQUITY] == pytest.approx(750)
    assert crossed[1, Column.OPEN_POSITIONS] == 2
    assert crossed[1, Column.EQUITY] == pytest.approx(750)


def test_the_mark_price_decides_and_not_the_last_trade() -> None:
    close, low = column(100, 100, 95, 95), column(100, 100, 50, 95)
    fields = {"close": close, "open": column(100, 100, 100, 95), "high": column(100, 100, 100, 95), "low": low}
    rules = free_rules(initial=0.2, maintenance=0.1, liquidation_fee_bps=0)
    spike = play(market_of(fields), [50.0, 0.0, 0.0], rules)
    marked = play(market_of(fields | {"mark_price": column(100, 100, 95, 95)}), [50.0, 0.0, 0.0], rules)
    assert int(spike[1, Column.FLAGS]) & Flag.LIQUIDATED
    assert not int(marked[1, Column.FLAGS]) & Flag.LIQUIDATED
    below = play(market_of(fields | {"mark_price": column(100, 100, 85, 95)}), [50.0, 0.0, 0.0], rules)
    assert int(below[1, Column.FLAGS]) & Flag.LIQUIDATED
    assert below[1, Column.EXIT_PRICE] == 95.0


def test_a_nearer_stop_comes_before_the_liquidation() -> None:
    from dataclasses import replace

    from pacesetter.market import Exits

    close, low = column(100, 100, 96, 90), column(100, 100, 80, 90)
    bars = market_of({"close": close, "open": column(100, 100, 99, 96), "high": column(100, 100, 100, 96), "low": low})
    rules = free_rules(initial=0.2, maintenance=0.1)
    stopped = play(bars, [50.0, 0.0], replace(rules, exits=Exits(stop_loss_fraction=0.05)))
    beyond = play(bars, [50.0, 0.0], replace(rules, exits=Exits(stop_loss_fraction=0.15)))
    assert int(stopped[1, Column.FLAGS]) & Flag.STOP_LOSS
    assert stopped[1, Column.EXIT_PRICE] == pytest.approx(95)
    assert int(beyond[1, Column.FLAGS]) & Flag.LIQUIDATED
    assert not int(beyond[1, Column.FLAGS]) & Flag.STOP_LOSS


def test_a_flat_rate_is_annual_and_none_is_none() -> None:
    close = column(100, 100, 100, 100)
    bars = market_of({"close": close, "open": close, "high": close, "low": close, "funding_rate": close * 0 + 0.5})
    flat = MarketParameters(costs=FREE, funding=0.252, orders=Orders(minimum_trade=0), limits=Limits(100))
    paid = play(bars, [10.0, 0.0], flat)
    assert paid[1, Column.FUNDING] == pytest.approx(-1_000 * 0.252 / 252)
    off = MarketParameters(costs=FREE, funding="none", orders=Orders(minimum_trade=0), limits=Limits(100))
    assert not play(bars, [10.0, 0.0], off)[:, Column.FUNDING].any()
    assert Accounts(bars, off).bars.shape[-1] == Bar.COST + 1


@pytest.mark.parametrize("kind", [OrderKind.CONTINUOUS, OrderKind.DISCRETE, OrderKind.TARGET, OrderKind.QUANTITY])
@pytest.mark.parametrize("mode", ["cross", "isolated"])
def test_no_order_is_liquidated_for_itself(mode: str, kind: OrderKind) -> None:
    """Where prices stand still an account is never liquidated: orders beyond the margin are cut."""
    rules, rng = rules_of(mode, leverage=20.0), np.random.default_rng(1)
    close = np.full((60, 3), 100.0)
    bars = market_of({"close": close, "open": close, "high": close, "low": close})
    account = Accounts(bars, rules, columns=[0] * 50, positions_each=3, kind=kind)
    largest = {OrderKind.QUANTITY: 50_000.0, OrderKind.TARGET: 20.0}.get(kind, 1.0)
    flags = gross = 0
    for _ in range(59):
        actions = rng.uniform(-largest, largest, (50, 3))
        actions = rng.integers(0, 7, (50, 3)).astype(float) if kind == OrderKind.DISCRETE else actions
        flags |= int(np.bitwise_or.reduce(account.step(actions)))
        gross = max(gross, float(account.ledger[:, Column.EXPOSURE].max()))
    assert not flags & Flag.LIQUIDATED
    assert flags & Flag.CUT or kind != OrderKind.QUANTITY
    assert gross > 10.0


@pytest.mark.parametrize(
    ("leverage", "options", "sentence"),
    [
        (10.0, {"initial": 0.2}, "market.margin.initial=0.2 allows a leverage of 5, below market.leverage=10"),
        (2.0, {"initial": 0.3, "maintenance": 0.3}, "maintenance=0.3 is not below the initial margin of 0.3"),
        (2.0, {"maintenance": 0.01, "liquidation_fee_bps": 200}, "give at most 100"),
    ],
)
def test_margins_that_contradict_the_leverage_are_refused(leverage: float, options: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        MarketParameters(limits=Limits(gross_leverage=leverage), margin=Margin("cross", **options))
