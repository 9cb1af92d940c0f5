"""Stock ranking on NASDAQ 2013–2017 (Feng et al. 2019 and after): what plain forecasts have, and what a Sharpe says.

Papers train to 2015, choose on 2016 and test on 2017, and report the information coefficient (IC): the correlation over
stocks of a forecast with the next day's return, averaged over days. They also hold the five best each day. Forecasts
here: minus the last return; a ridge on each stock's own five lags; one ridge shared by all stocks on own lags, lags of
the market, and momentum; the links of the lead–lag engine; and the signals of agent=direct, each stock's own and those
that all stocks share. Intervals are those of blocks of days.

Direct's signals are fitted as the agent fits them: returns in units of volatility, less their mean over stocks. A
stock's own sparse weights are over the last return of all stocks, since 1,026 stocks with five lags are 5,130 inputs
for each. The pooled ones are over five lags. Sizing, costs and the account, which an IC does not see, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.lab.reproduce.result import COLOURS, Comparison, Reproduction
from pacesetter.leadlag.estimators.dependence import pearson
from pacesetter.leadlag.observed import mean_observed
from pacesetter.leadlag.shrinkage import noise_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RankingReturns", "daily_ic", "random_portfolios", "read_ranking_closes", "stock_ranking"]

PUBLISHED = {"linear": 0.019, "LSTM": 0.032, "StockMixer": 0.043}
WHY = "StockMixer, a single run; ours is flattered, since the best was found on the test days"
PUBLISHED_SHARPE, TOP = 1.465, 5
TRAIN_END, TEST_START, TEST_END = "2016-12-31", "2017-01-01", "2017-12-31"
LINEAR = "ridge, own five lags"
LAGS, PENALTY = 5, 0.01  # ridge penalty as a share of the rows
BLOCK_DAYS, DRAWS, PORTFOLIOS = 10, 2000, 5000
MOMENTUM = (20, 60)
VOLATILITY_DAYS, LARGEST_MOVE = 10, 5.0  # half-life of direct's volatility; moves beyond so many of it are cut
FOLDS, PENALTIES, LEAST_PENALTY = 3, 6, 0.8  # of direct's fit, fewer than an agent tries: there are 1,026 stocks
DIRECT, POOLED = "direct, each stock's own weights", "direct, pooled"
DAYS_A_YEAR = 252


@dataclass(frozen=True, eq=False)
class RankingReturns:
    """Returns (day, stock), NaN where unknown, and the first day of the test set."""

    days: pd.DatetimeIndex
    returns: Array
    first: int


def read_ranking_closes(path: str | Path) -> RankingReturns:
    """Closes from a Parquet or CSV file, dates in rows and a column for each stock."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} is not a file; give data.path= a table of closes, days in rows and stocks in columns")
    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, index_col=0)
    table.index = pd.to_datetime(table.index)
    closes = table.sort_index().loc[:TEST_END].astype(float)
    days = pd.DatetimeIndex(closes.index[1:])
    first = int(days.searchsorted(pd.Timestamp(TEST_START)))
    if first < 300 or len(days) - first < 60:
        raise DataError(f"{path} has {first} days before 2017 and {len(days) - first} in it; 300 and 60 are needed")
    returns = closes.pct_change(fill_method=None).iloc[1:].to_numpy()
    return RankingReturns(days, np.where(np.isfinite(returns), np.clip(returns, -0.9, 2.0), np.nan), first)


def forecasts(data: RankingReturns) -> dict[str, Array]:
    """Name → (day, stock) forecast of the next day's return, from returns up to the day; fitted before the test set."""
    x = np.nan_to_num(data.returns)
    past = np.stack([np.vstack([np.zeros((lag, x.shape[1])), x[: len(x) - lag]]) for lag in range(LAGS)], axis=-1)
    slow = [pd.DataFrame(x).rolling(bars, min_periods=1).sum().to_numpy() for bars in MOMENTUM]
    market = np.stack([np.broadcast_to(past[..., lag].mean(axis=1, keepdims=True), x.shape) for lag in range(2)], -1)
    shared = np.concatenate([past, market, np.stack(slow, axis=-1)], axis=-1)
    fit = slice(max(MOMENTUM), data.first - 1)  # the return of the day after is known before the test set
    target = np.vstack([x[1:], np.zeros((1, x.shape[1]))])
    alone = np.stack([_ridge(past[fit, k], target[fit, k], past[:, k]) for k in range(x.shape[1])], axis=1)
    rows = shared.reshape(-1, shared.shape[-1])
    pooled = _ridge(shared[fit].reshape(-1, shared.shape[-1]), target[fit].ravel(), rows).reshape(x.shape)
    return {
        "one-day reversal": -x,
        LINEAR: alone,
        "ridge shared by all stocks": pooled,
        "links of the lead–lag engine": _linked_signal(x, fit),
    }


def direct_forecasts(data: RankingReturns) -> tuple[dict[str, Array], dict[str, float]]:
    """The same by direct's sparse weights, and how many errors each is worth on held-out blocks of training days."""
    from pacesetter.methods.direct.pooling import common_weights
    from pacesetter.methods.direct.sparse import blocks_of, fit_sparse, signal_utility

    x, stop = np.nan_to_num(data.returns), data.first - 1
    volatility = pd.DataFrame(x).ewm(halflife=VOLATILITY_DAYS).std().shift(1).bfill().to_numpy() + 1e-4
    z = np.clip((x - x.mean(axis=1, keepdims=True)) / volatility, -LARGEST_MOVE, LARGEST_MOVE)
    rows = np.arange(MOMENTUM[0], stop)
    past = np.hstack([z[rows - lag] for lag in range(LAGS)])
    y, stocks = z[rows + 1], x.shape[1]
    options: dict[str, Any] = {"folds": FOLDS, "purge_bars": LAGS + 1}
    places = np.arange(LAGS * stocks).reshape(LAGS, stocks)  # of each stock's own lags
    own = fit_sparse(past[:, :stocks], y, points=PENALTIES, lowest=LEAST_PENALTY, shares=(0.5,), **options)
    common = common_weights(past, y, places, **options)
    held_out = [past[block] @ each for block, each in zip(blocks_of(len(past), FOLDS), common[1:], strict=True)]
    everything = np.hstack([np.vstack([np.zeros((lag, stocks)), z[: len(z) - lag]]) for lag in range(LAGS)])
    made = {DIRECT: z @ own.weights * volatility, POOLED: everything @ common[0] * volatility}
    return made, {DIRECT: own.sureness, POOLED: signal_utility(np.concatenate(held_out), y)[1]}


def _ridge(past: Array, target: Array, rows: Array) -> Array:
    scale = past.std(axis=0) + 1e-12
    z = (past - past.mean(axis=0)) / scale
    weights = np.linalg.solve(z.T @ z + PENALTY * len(z) * np.eye(z.shape[1]), z.T @ (target - target.mean()))
    return np.asarray(((rows - past.mean(axis=0)) / scale) @ weights)


def _linked_signal(x: Array, fit: slice) -> Array:
    """Σ_i C_1[i, j]·x_i(t)/σ_i over correlations of the training days beyond the level of noise."""
    window = x[fit]
    links = next(iter(pearson(window, range(1, 2))))
    level = noise_level(1, x.shape[1], len(window))
    strong = np.where(np.abs(links) > level, links, 0.0)
    deviation = window.std(axis=0) + 1e-12
    return np.asarray((x / deviation) @ strong * deviation)


def daily_ic(forecast: Array, returns: Array, first: int) -> Array:
    """(day,) correlation over stocks of the forecast made the day before with the day's return, from `first` on."""
    before, now = forecast[first - 1 : -1], returns[first:]
    known = np.isfinite(now) & np.isfinite(before)
    a, b = (np.where(known, part, np.nan) for part in (before, now))
    a, b = a - mean_observed(a, axis=1)[:, None], b - mean_observed(b, axis=1)[:, None]
    size = np.sqrt(np.nansum(a * a, axis=1) * np.nansum(b * b, axis=1))
    return np.asarray(np.nansum(a * b, axis=1) / np.where(size > 0, size, np.inf))


def interval(values: Array, seed: int = 0) -> tuple[float, float]:
    """95 % interval of the mean by blocks of days."""
    rng, count = np.random.default_rng(seed), -(-len(values) // BLOCK_DAYS)
    starts = rng.integers(0, len(values), (DRAWS, count))
    places = (starts[..., None] + np.arange(BLOCK_DAYS)).reshape(DRAWS, -1)[:, : len(values)] % len(values)
    low, high = np.quantile(values[places].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def random_portfolios(returns: Array, first: int, seed: int = 0) -> Array:
    """(PORTFOLIOS,) annualised Sharpe ratios of five stocks drawn at random each day."""
    rng, now = np.random.default_rng(seed), np.nan_to_num(returns[first:])
    days = np.arange(len(now))[:, None]
    places = (rng.integers(0, now.shape[1], (len(now), TOP)) for _ in range(PORTFOLIOS))
    return np.array([_sharpe(now[days, place].mean(axis=1)) for place in places])


def _sharpe(returns: Array) -> float:
    return float(returns.mean() / returns.std() * np.sqrt(DAYS_A_YEAR))


def _top_sentence(forecast: Array, data: RankingReturns) -> str:
    """What holding the five best of each day earned."""
    if not forecast.any():
        return "nothing is beyond chance, and no stock is ranked"
    best = np.argsort(-forecast[data.first - 1 : -1], axis=1)[:, :TOP]
    held = np.take_along_axis(np.nan_to_num(data.returns[data.first :]), best, axis=1).mean(axis=1)
    return f"its daily top 5 have a Sharpe ratio of {_sharpe(held):.2f} before costs"


def stock_ranking(path: str | None) -> Reproduction:
    """IC of plain forecasts beside three published models, and what the published Sharpe ratio is worth."""
    assert path is not None
    data = read_ranking_closes(path)
    direct, sureness = direct_forecasts(data)
    lines, shown = [], {}
    for name, forecast in (forecasts(data) | direct).items():
        values = daily_ic(forecast, data.returns, data.first)
        low, high = interval(values)
        shown[name] = (float(values.mean()), low, high)
        said = f"95 % {low:+.3f} to {high:+.3f}; {_top_sentence(forecast, data)}"
        if name in sureness:
            said += f"; on held-out training days {sureness[name]:+.1f} errors above 0"
        published = PUBLISHED["linear"] if name == LINEAR else None
        lines.append(Comparison(f"IC, {name}", float(values.mean()), published, said))
    best = max(middle for middle, _, _ in shown.values())
    lines.append(Comparison("IC, the best of these", best, PUBLISHED["StockMixer"], WHY))
    luck = random_portfolios(data.returns, data.first)
    everything = _sharpe(mean_observed(data.returns[data.first :], axis=1))
    share = float((luck > PUBLISHED_SHARPE).mean())
    band = f"95 % of random daily top 5: {np.quantile(luck, 0.025):.2f} to {np.quantile(luck, 0.975):.2f}"
    lines += [
        Comparison("Sharpe ratio, equal weight of all", everything, PUBLISHED_SHARPE, "StockMixer's daily top 5"),
        Comparison("share of random top 5 above it", share, None, band),
    ]
    days = data.days[data.first :]
    notes = (
        f"{data.returns.shape[1]:,} stocks, test {days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}; all are survivors to 2017",
        "published IC: " + ", ".join(f"{name} {ic:.3f}" for name, ic in PUBLISHED.items()) + ", single runs",
        "the closes are scaled by each stock's later maximum: only their returns are used",
        "direct: its sparse weights without sizing and costs; an agent sets those below 2 errors to 0",
    )
    return Reproduction("Stock ranking on NASDAQ, test 2017", tuple(lines), notes, partial(_draw, shown))


def _draw(shown: dict[str, tuple[float, float, float]], axes: Axes) -> None:
    """ICs with their intervals, and the published ones as lines."""
    names = list(shown)
    middle = np.array([shown[name][0] for name in names])
    errors = np.abs(np.array([shown[name][1:] for name in names]).T - middle)
    axes.errorbar(middle, range(len(names)), xerr=errors, fmt="o", color=COLOURS[0])
    axes.set_yticks(range(len(names)), names)
    for colour, (name, ic) in zip(COLOURS[1:], PUBLISHED.items(), strict=False):
        axes.axvline(ic, color=colour, label=f"{name}, published")
    axes.axvline(0, color="#808080", linewidth=0.8)
    axes.set_xlabel("information coefficient, 2017")
    axes.legend(frameon=False, fontsize=9)
