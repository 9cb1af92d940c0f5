"""The equity curve agrees with an independent engine, backtesting.py, on the same orders and costs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.market import Account, Accounts, Column, Costs, Limits, MarketBars, MarketParameters, OrderKind

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    backtesting = pytest.importorskip("backtesting")

CASH, COMMISSION_BPS = 1_000_000.0, 10.0


def market(bars: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.02, bars)))
    opening = np.concatenate([close[:1], close[:-1]]) * np.exp(rng.normal(0, 0.01, bars))
    high, low = np.maximum(opening, close) * 1.01, np.minimum(opening, close) * 0.99
    index = pd.date_range("2024-01-01", periods=bars)
    return pd.DataFrame({"Open": opening, "High": high, "Low": low, "Close": close, "Volume": 1.0}, index=index)


def ours(frame: pd.DataFrame, shares: np.ndarray) -> np.ndarray:
    """Equity at every close when the account is told to hold `shares` (time,)."""
    costs = Costs(commission_bps=COMMISSION_BPS, spread_bps=0, slippage_bps=0)  # their spread is on entries only
    rules = MarketParameters(costs, Limits(position_cap_fraction=1.0), initial_cash=CASH)
    columns = {name: frame[name.title()].to_numpy()[:, None] for name in ("open", "high", "low", "close")}
    accounts = Accounts(MarketBars.from_arrays(**columns), rules, kind=OrderKind.TARGET)
    equity = [CASH]
    for t in range(len(frame) - 1):
        weight = shares[t] * frame["Close"].iloc[t] / accounts.accounts[0, Account.EQUITY]
        accounts.step([[weight]])
        equity.append(accounts.ledger[0, Column.EQUITY])
    return np.array(equity)


def theirs(frame: pd.DataFrame, shares: np.ndarray) -> np.ndarray:
    class Follow(backtesting.Strategy):  # type: ignore[misc, name-defined]
        def init(self) -> None:
            pass

        def next(self) -> None:
            change = int(shares[len(self.data) - 1] - self.position.size)
            if change > 0:
                self.buy(size=change)
            elif change < 0:
                self.sell(size=-change)

    test = backtesting.Backtest(frame, Follow, cash=CASH, commission=COMMISSION_BPS * 1e-4, trade_on_close=False)
    result: Any = test.run()
    return result["_equity_curve"]["Equity"].to_numpy()


@pytest.mark.filterwarnings("ignore")
def test_equity_agrees_with_backtesting_py() -> None:
    frame = market()
    shares = np.repeat(np.random.default_rng(9).integers(0, 8, 40) * 500, 5).astype(float)
    shares[0] = 0.0  # their first decision is at the second bar
    assert ours(frame, shares) == pytest.approx(theirs(frame, shares), rel=1e-9)
