"""US sectors lead Japanese ones across the night (Nakagawa et al. 2026): long and short Tokyo sectors by day.

Every bar is stamped when it is known: Tokyo's close at 06:00 UTC (06:30 since November 2024), New York's at 20:00 or
21:00. Before Tokyo opens on day d, the last New York session whose close lies before that open is known. The
standardised returns of both markets over the 60 Tokyo days before d have a joint correlation matrix; its three leading
eigenvectors map the US move to a prediction for each Japanese sector. The top 30 % are bought and the bottom 30 % sold
at Tokyo's open, gross 1, and closed at its close.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data.calendars import sessions
from pacesetter.errors import DataError
from pacesetter.lab.reproduce.result import Comparison, Reproduction, draw_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NightBars", "night_strategy", "read_night_bars", "us_japan"]

COLUMNS = ("date", "symbol", "market", "open", "close")
LOOKBACK, FACTORS, SHARE = 60, 3, 0.3
BASIS_POINT = 1e-4


@dataclass(frozen=True, eq=False)
class NightBars:
    """Tokyo days with what was known before each opened.

    days     (day,) Tokyo sessions
    us       (day, US symbol) close-to-close returns of the last New York session known before Tokyo's open
    japan    (day, symbol) close-to-close returns of Tokyo, known at its close
    day      (day, symbol) open-to-close returns of Tokyo: what a fill at the open earns
    """

    days: pd.DatetimeIndex
    us: Array
    japan: Array
    day: Array


def read_night_bars(path: str | Path) -> NightBars:
    """Bars of both markets from a Parquet or CSV file of date, symbol, market (XNYS or XTKS), open and close."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} is not a file; give data.path= a Parquet or CSV file of both markets")
    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise DataError(
            f"{path} has no column '{missing[0]}', and without `market` it is unclear when a bar was known; "
            f"it takes {', '.join(COLUMNS)}"
        )
    table["date"] = pd.to_datetime(table["date"])
    new_york, tokyo = (table[table["market"] == market] for market in ("XNYS", "XTKS"))
    if new_york.empty or tokyo.empty:
        raise DataError(f"{path} must hold bars of both markets, XNYS and XTKS, in its column 'market'")
    us, closes, opens = _pivot_field(new_york, "close"), _pivot_field(tokyo, "close"), _pivot_field(tokyo, "open")
    known = _last_session_before(pd.DatetimeIndex(us.index), pd.DatetimeIndex(closes.index))
    before = us.pct_change(fill_method=None).to_numpy()[known]
    japan = closes.pct_change(fill_method=None).to_numpy()
    return NightBars(pd.DatetimeIndex(closes.index), before, japan, (closes / opens - 1).to_numpy())


def _pivot_field(table: pd.DataFrame, field: str) -> pd.DataFrame:
    return table.pivot(index="date", columns="symbol", values=field).astype(float).sort_index()


def _last_session_before(new_york: pd.DatetimeIndex, tokyo: pd.DatetimeIndex) -> Array:
    """(day,) position of the last New York session whose close lies before each Tokyo open."""
    first, last = str(min(new_york[0], tokyo[0]).date()), str(max(new_york[-1], tokyo[-1]).date())
    closes = sessions("XNYS", first, last)["close"].reindex(new_york)
    opens = sessions("XTKS", first, last)["open"].reindex(tokyo)
    # a day outside the recorded calendar counts with the usual hours
    closed = closes.fillna(pd.Series(new_york.tz_localize("UTC") + pd.Timedelta(hours=21), new_york))
    opened = opens.fillna(pd.Series(tokyo.tz_localize("UTC"), tokyo))
    # The last session closed strictly before the open; one that closes at that very moment cannot be traded on.
    return np.asarray(np.searchsorted(closed.to_numpy(), opened.to_numpy(), side="left") - 1)


def night_strategy(bars: NightBars) -> pd.DataFrame:
    """Daily results of the strategy: `fair` filled at Tokyo's open, `look_ahead` from the close of the day before."""
    rows = []
    for day in range(LOOKBACK + 1, len(bars.days)):
        # Days before this one; today's US move is known before Tokyo opens, today's Japanese returns are not.
        past = np.hstack([part[day - LOOKBACK : day] for part in (bars.us, bars.japan)])
        today = bars.us[day]
        if not (np.isfinite(past).all() and np.isfinite(today).all() and np.isfinite(bars.day[day]).all()):
            continue
        weights = _weights(past, today)
        rows.append((bars.days[day], weights @ bars.day[day], weights @ bars.japan[day]))
    return pd.DataFrame(rows, columns=["day", "fair", "look_ahead"]).set_index("day")


def _weights(past: Array, today: Array) -> Array:
    """(Japanese symbol,) weights of gross 1 from both markets' past returns and the US move of the night."""
    mean, deviation = past.mean(axis=0), past.std(axis=0)
    z = (past - mean) / deviation  # (day, US and Japanese symbols)
    # eigh sorts upwards: the last columns are the leading factors.
    vectors = np.linalg.eigh(z.T @ z)[1][:, -FACTORS:]
    us = len(today)
    predicted = vectors[us:] @ (vectors[:us].T @ ((today - mean[:us]) / deviation[:us]))
    order, count = np.argsort(predicted), int(SHARE * len(predicted))
    weights = np.zeros(len(predicted))
    weights[order[-count:]], weights[order[:count]] = 0.5 / count, -0.5 / count
    return weights


def us_japan(path: str | None) -> Reproduction:
    """Annualised Sharpe ratios, gross and net of costs on the full turnover twice a day, and with look-ahead."""
    assert path is not None
    results = night_strategy(read_night_bars(path))
    fair = results["fair"]
    review = "probably the days: the review that published it drops other days with missing bars"
    lines = (
        Comparison("open → close, gross (plain PCA)", _sharpe(fair), 2.12, review),
        Comparison("open → close, 2 bps a side", _sharpe(fair - 2 * 2 * BASIS_POINT), 0.06, review),
        Comparison("open → close, 3 bps a side", _sharpe(fair - 2 * 3 * BASIS_POINT), -0.92, review),
        Comparison(
            "close → close: LOOK-AHEAD, cannot be traded",
            _sharpe(results["look_ahead"]),
            3.94,
            "not resolved; either way Tokyo's last close lies before the US move, and the gap cannot be bought",
        ),
    )
    notes = (
        f"{len(fair)} Tokyo days, {fair.index[0]:%Y-%m-%d} to {fair.index[-1]:%Y-%m-%d}",
        "published figures are those of an independent review; the paper has 2.22 with a prior on the factors",
        "costs of a side are paid on the full turnover at the open and again at the close",
    )
    return Reproduction("US sectors lead Japanese sectors across the night", lines, notes, partial(_draw, results))


def _draw(results: pd.DataFrame, axes: Axes) -> None:
    """Sums of daily returns: what can be traded, gross and net, and what look-ahead would have claimed."""
    lines = {
        "open → close, gross": results["fair"],
        "open → close, 2 bps a side": results["fair"] - 2 * 2 * BASIS_POINT,
        "close → close: look-ahead, cannot be traded": results["look_ahead"],
    }
    title = "Sum of daily returns, long and short Tokyo sectors of gross 1"
    draw_lines(axes, {name: line.cumsum() for name, line in lines.items()}, title, "sum of returns")


def _sharpe(returns: pd.Series) -> float:
    """Annualised by the days a year that the strategy traded."""
    years = (returns.index[-1] - returns.index[0]).days / 365.25
    return float(returns.mean() / returns.std() * np.sqrt(len(returns) / years))
