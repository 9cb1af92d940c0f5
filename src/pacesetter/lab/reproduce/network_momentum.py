"""Network momentum on futures (Li and Ferreira 2025, arXiv 2501.07135): trends of what leads, not of the future itself.

A trend is the mean of three MACD lines, each in units of its own deviation. A future's *network* trend is that of the
others, weighed by how far they lead it: the Lévy area of standardised returns over LOOKBACK days, its positive part, to
a sum of one. Both are traded alike: y·exp(−y²/4)/.89, scaled to a volatility of 15 % for each future, a day after the
closes that they are computed from, with COST_BPS of what is turned over. The paper learns its graph; here it is the
plain matrix. Exchanges close at different hours, so a part of a one-day lead is stale prices: the same with a day's
pause in between measures it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.errors import DataError
from pacesetter.lab.reproduce.result import Comparison, Reproduction, draw_lines
from pacesetter.leadlag.engine import Engine
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FUTURES", "network_momentum", "network_trend", "read_futures", "trade_signal", "trend"]

FUTURES = (
    *("AUD", "EUR", "GBP", "JPY", "MXP", "US2", "US5", "US10", "US20", "CAD10", "GILT", "JGB", "SP500", "NASDAQ"),
    *("DAX", "FTSE100", "HANG", "CRUDE_W", "HEATOIL", "GAS_US", "GOLD", "COPPER", "PLAT", "CORN", "SOYBEAN", "WHEAT"),
    *("SUGAR11", "COTTON2"),
)
FIRST, LAST = "2005-01-01", "2015-12-31"
SPANS = ((8, 24), (16, 48), (32, 96))
LOOKBACK, REFIT = 126, 5  # days of a matrix, and days between two
TARGET, YEAR, COST_BPS = 0.15, 252, 2.0
SHORTEST = 756  # days before which the deviations of the trends are not known well


def read_futures(path: str | Path) -> pd.DataFrame:
    """Closes (day, future) of FUTURES from a long table of timestamp, symbol and close; refuses one without them."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} is not a file; give data.path= a table of timestamp, symbol and close")
    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    missing = [name for name in ("timestamp", "symbol", "close") if name not in table]
    if missing:
        raise DataError(f"{path} has no column '{missing[0]}'; it takes timestamp, symbol and close")
    table = table[table["symbol"].astype(str).isin(FUTURES)].assign(symbol=lambda part: part["symbol"].astype(str))
    closes = table.pivot_table(index="timestamp", columns="symbol", values="close", aggfunc="last").sort_index()
    absent = [name for name in FUTURES if name not in closes]
    if absent:
        raise DataError(f"{path} has no {absent[0]}; the study takes {len(FUTURES)} futures, see docs/reproduce.md")
    closes.index = pd.to_datetime(closes.index, utc=True)
    return closes[list(FUTURES)].astype(float).loc["2000":LAST].ffill(limit=5)


def trend(closes: pd.DataFrame) -> pd.DataFrame:
    """Mean of three MACD lines over the deviation of the price, each over its own deviation of a year."""
    lines = []
    for fast, slow in SPANS:
        line = (closes.ewm(span=fast).mean() - closes.ewm(span=slow).mean()) / closes.rolling(63).std()
        lines.append(line / line.rolling(YEAR).std())
    return sum(lines[1:], lines[0]) / len(lines)


def network_trend(closes: pd.DataFrame, own: pd.DataFrame) -> pd.DataFrame:
    """Trends of the others, weighed by the positive part of their Lévy area over each future."""
    index = pd.DatetimeIndex(closes.index)
    filled = closes.ffill().bfill()
    panel = Panel.from_fields(index, list(map(str, closes)), {"close": filled.to_numpy()})
    engine = Engine("levy_returns", increments="simple").fit(panel)
    out, values = np.full(closes.shape, np.nan), np.nan_to_num(own.to_numpy())
    for start in range(LOOKBACK + 1, len(closes), REFIT):
        leads = np.clip(np.nan_to_num(engine.scores(start, LOOKBACK)), 0, None)
        weights = leads / np.maximum(leads.sum(axis=0), 1e-12)  # column j: who leads j
        out[start : start + REFIT] = values[start : start + REFIT] @ weights
    network = pd.DataFrame(out, index, closes.columns)
    return network / network.rolling(YEAR).std()


def trade_signal(signal: pd.DataFrame, closes: pd.DataFrame, pause: int = 1) -> pd.DataFrame:
    """Daily `gross` and `net` returns of positions made of the signal, filled `pause` closes after its own."""
    returns = closes.pct_change(fill_method=None).fillna(0.0)
    volatility = returns.ewm(span=60, min_periods=60).std() * np.sqrt(YEAR)
    size = (signal * np.exp(-(signal**2) / 4) / 0.89).fillna(0.0)
    weights = (size * TARGET / volatility / closes.shape[1]).replace([np.inf, -np.inf], 0.0).fillna(0.0)
    # Decided at the close of t and filled at that of t + pause: the move after it is the first that is held.
    held = weights.shift(1 + pause).fillna(0.0)
    gross = (held * returns).sum(axis=1)
    costs = held.diff().abs().sum(axis=1) * COST_BPS / 1e4
    return pd.DataFrame({"gross": gross, "net": gross - costs}).loc[FIRST:]


def _sharpe(returns: pd.Series) -> float:
    return float(returns.mean() / returns.std() * np.sqrt(YEAR))


def network_momentum(path: str | None) -> Reproduction:
    """Net Sharpe ratios of both trends, of both together, and with a day's pause."""
    assert path is not None
    closes = read_futures(path)
    if len(closes.loc[:FIRST]) < SHORTEST:
        raise DataError(f"{path} begins {closes.index[0]:%Y-%m-%d}; trends need three years before 2005")
    own = trend(closes)
    network = network_trend(closes, own)
    results = {name: trade_signal(signal, closes) for name, signal in (("MACD", own), ("network", network))}
    at_once = {name: trade_signal(signal, closes, 0) for name, signal in (("MACD", own), ("network", network))}
    years = "the years: 2005–2015 here, 2005–2024 there; a learned graph there, the plain matrix here"
    error = 1 / np.sqrt(len(results["MACD"]) / YEAR)
    difference = results["network"]["net"] - results["MACD"]["net"]
    t_value = float(difference.mean() / difference.std() * np.sqrt(len(difference)))
    stale = [_sharpe(at_once[name]["net"]) - _sharpe(results[name]["net"]) for name in ("network", "MACD")]
    lines = (
        Comparison("net Sharpe ratio, network trend by Lévy area", _sharpe(results["network"]["net"]), 0.36, years),
        Comparison("net Sharpe ratio, own trend (MACD)", _sharpe(results["MACD"]["net"]), 0.23, "the years"),
        Comparison("network less own, t-value of the daily difference", t_value, None, "not published"),
        Comparison("network, gained by fills at the deciding close", stale[0], None, "stale closing times at most"),
        Comparison("own trend, gained by the same", stale[1], None, "for comparison: no closing times are mixed"),
    )
    notes = (
        f"{len(FUTURES)} futures, {len(results['MACD']):,} days; the error of a Sharpe ratio is {error:.2f}",
        f"costs of {COST_BPS:g} bps of what is turned over; filled at the close after the decision",
    )
    title = "Network momentum on 28 futures, 2005–2015"
    return Reproduction(title, lines, notes, partial(_draw, results))


def _draw(results: dict[str, pd.DataFrame], axes: Axes) -> None:
    shown = {f"{name}, net": part["net"].cumsum() for name, part in results.items()}
    draw_lines(axes, shown, "Sum of daily returns, each future at 15 % volatility", "sum of returns")
