"""Prices in the account's currency, by hand and through an account."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pacesetter as ps
from pacesetter.errors import ConfigError, DataError
from pacesetter.market import Accounts, Column, Costs, Limits, MarketBars, MarketParameters, OrderKind, Orders

CLOSES = {
    "7203": [1_000.0, 1_100.0, 1_100.0, 1_210.0],
    "SPY": [50.0, 50.0, 55.0, 55.0],
    "USDJPY": [100.0, 100, 110, 110],
}


def closes(**changes: list[float]) -> pd.DataFrame:
    index = pd.date_range("2024-01-01 12:00", periods=4, freq="D", tz="UTC", name="timestamp")
    return pd.DataFrame(CLOSES | changes, index)


def test_prices_are_converted_by_rates_that_were_known() -> None:
    panel = ps.load(closes(), currency="USD", currencies={"7203": "JPY"})
    assert panel.symbols == ("7203", "SPY")
    assert panel.close[:, 0] == pytest.approx([10.0, 11.0, 10.0, 11.0])  # 1,100 yen are 10 dollars at 110
    assert panel.close[:, 1].tolist() == CLOSES["SPY"]
    assert panel["fx"][:, 0] == pytest.approx([1 / 100, 1 / 100, 1 / 110, 1 / 110])
    assert np.isnan(panel["fx"][:, 1]).all()
    assert "converted from JPY to USD" in panel.notes[0]


def test_a_file_of_rates_and_the_reverse_pair_say_the_same(tmp_path: Path) -> None:
    rates, bars = tmp_path / "rates.csv", closes().drop(columns="USDJPY")
    (1 / closes()[["USDJPY"]]).rename(columns={"USDJPY": "JPY/USD"}).to_csv(rates)
    panel = ps.load(bars, currency="usd", currencies={"7203": "JPY"}, fx=str(rates))
    assert panel.close == pytest.approx(ps.load(closes(), currency="USD", currencies={"7203": "JPY"}).close)


def test_the_open_is_converted_at_the_rate_of_the_close_before() -> None:
    frame = closes()
    long = pd.concat(
        [
            pd.DataFrame(
                {"symbol": name, "open": frame[name], "high": frame[name], "low": frame[name], "close": frame[name]}
            )
            for name in frame
        ]
    ).reset_index()
    panel = ps.load(long, currency="USD", currencies={"7203": "JPY"})
    assert panel.open[2, 0] == pytest.approx(1_100 / 100)
    assert panel.close[2, 0] == pytest.approx(1_100 / 110)
    assert panel.high[2, 0] == pytest.approx(11.0)
    assert panel.low[2, 0] == pytest.approx(10.0)


def test_an_account_in_dollars_by_hand() -> None:
    panel = ps.load(closes(), currency="USD", currencies={"7203": "JPY"})
    rules = MarketParameters(
        costs=Costs(0, 0, 0, 0, 0, 0), limits=Limits(1.0, gross_leverage=2.0), initial_cash=1_000.0, conversion_bps=100
    )
    account = Accounts(MarketBars.from_panel(panel), rules, kind=OrderKind.QUANTITY)
    account.step(np.array([[50.0, 5.0]]))  # 50 · 11 dollars and 1 % of them for the yen; 5 · 50 without
    assert account.ledger[0, Column.CASH] == pytest.approx(1_000 - 550 - 5.5 - 250)
    account.step(np.array([[0.0, 0.0]]))
    # The yen falls by a tenth and takes 50 dollars, the other symbol adds 25.
    assert account.ledger[0, Column.EQUITY] == pytest.approx(1_000 - 5.5 - 50 + 25)


def test_a_missing_pair_an_unknown_symbol_and_no_currency_are_refused() -> None:
    with pytest.raises(DataError, match=r"no exchange rate of JPY into USD: there is no symbol JPYUSD or USDJPY"):
        ps.load(closes().drop(columns="USDJPY"), currency="USD", currencies={"7203": "JPY"})
    with pytest.raises(
        ConfigError, match=r"data.currencies names 7230, of which there are no bars; did you mean '7203'"
    ):
        ps.load(closes(), currency="USD", currencies={"7230": "JPY"})
    with pytest.raises(ConfigError, match=r"data.currencies needs the account's own currency"):
        ps.load(closes(), currencies={"7203": "JPY"})
    with pytest.raises(DataError, match=r"7203 at 2024-01-01 has no exchange rate of JPY at or before it"):
        ps.load(closes(USDJPY=[np.nan, 100.0, 110.0, 110.0]), currency="USD", currencies={"7203": "JPY"})


def test_random_trades_in_three_currencies_equal_an_account_that_keeps_them_apart() -> None:
    """Each fill is paid in the symbol's own money, which is bought for dollars at that moment, for a fee."""
    rng, bars, names = np.random.default_rng(4), 300, ["US", "JP", "DE"]
    walk = np.exp(np.cumsum(rng.normal(0, 0.02, (bars, 3)), axis=0)) * [50.0, 2_000.0, 80.0]
    rates = np.exp(np.cumsum(rng.normal(0, 0.01, (bars, 2)), axis=0)) * [0.007, 1.1]  # dollars a yen, dollars a euro
    dividend = np.where(rng.random((bars, 3)) < 0.03, 0.01 * walk, 0.0)
    index = pd.date_range("2024-01-01 12:00", periods=bars, freq="D", tz="UTC", name="timestamp")
    long = pd.concat(
        [
            pd.DataFrame({"symbol": n, "close": walk[:, k], "dividend": dividend[:, k]}, index)
            for k, n in enumerate(names)
        ]
        + [
            pd.DataFrame({"symbol": "USDJPY", "close": 1 / rates[:, 0]}, index),
            pd.DataFrame({"symbol": "EURUSD", "close": rates[:, 1]}, index),
        ]
    )
    panel = ps.load(long.reset_index(), currency="USD", currencies={"JP": "JPY", "DE": "EUR"})
    assert set(panel.symbols) == set(names)
    panel = panel.select(names)
    rules = MarketParameters(
        costs=Costs(commission_bps=4, spread_bps=6, slippage_bps=1, borrow_bps_per_year=0),
        limits=Limits(1e9, gross_leverage=1e6, shorting=True),
        orders=Orders(minimum_trade=0.0),
        conversion_bps=7,
        dividends=True,
    )
    account = Accounts(MarketBars.from_panel(panel), rules, kind=OrderKind.QUANTITY)
    dollars, held, into = 100_000.0, np.zeros(3), np.column_stack([np.ones(bars), rates])
    for t in range(bars - 1):
        order = np.where(rng.random(3) < 0.3, rng.normal(0, 1, 3) * 10_000 / (walk[t] * into[t]), 0.0)
        order = np.where(order * held < 0, np.clip(order, -np.abs(held), np.abs(held)), order)
        account.step(order[None])
        dollars += (held * dividend[t + 1] * into[t + 1]).sum()
        # What is paid in the symbol's money at its close, with half the spread and slippage; a fee for the exchange.
        fee = np.array([0.0, 7e-4, 7e-4]) * np.abs(order) * walk[t + 1]
        paid = walk[t + 1] * (1 + np.sign(order) * 4e-4)
        commission = 4e-4 * np.abs(order) * (paid + np.sign(order) * np.array([0.0, 7e-4, 7e-4]) * walk[t + 1])
        dollars -= ((order * paid + fee + commission) * into[t + 1]).sum()
        held = held + order
        equity = dollars + (held * walk[t + 1] * into[t + 1]).sum()
        assert account.ledger[0, Column.EQUITY] == pytest.approx(equity, rel=1e-9)
    assert abs(equity / 100_000 - 1) > 0.01


def test_a_file_of_rates_that_is_missing_is_named_by_its_own_key() -> None:
    with pytest.raises(ConfigError, match=r"data\.fx=gone\.csv does not exist; give a file with closes of exchange"):
        ps.load(closes(), currency="USD", currencies={"7203": "JPY"}, fx="gone.csv")
