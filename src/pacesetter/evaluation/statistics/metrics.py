"""Metrics of a series of returns: growth, risk, their ratios and tails; and all of it for one backtest.

Returns run along the first axis, (time,) or (time, many): what is one number for the former is (many,) for the latter.
A risk-free rate is never subtracted; pass excess returns if there is one. Per-bar figures are annualised by
`bars_per_year`, which a panel measures over its own span.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.leadlag.observed import ratio
from pacesetter.market.ledger import Column
from pacesetter.market.trades import count_round_trips
from pacesetter.rewards.sharpe import sharpe
from pacesetter.stamps import bars_per_day

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.backtest import Backtest

__all__ = [
    "MONTH_DAYS",
    "alpha_beta",
    "annual_return",
    "calmar",
    "check_returns",
    "drawdowns",
    "ended_growth",
    "expected_shortfall",
    "longest_drawdown",
    "max_drawdown",
    "metrics",
    "profit_factor",
    "sharpe",
    "sortino",
    "sums_stretch",
    "sums_volatility",
    "tail_ratio",
    "total_return",
    "value_at_risk",
    "volatility",
    "win_rate",
]

TAIL = 0.05  # share of the bars in each tail
MONTH_DAYS = 21  # of the sums whose volatility is shown beside that of bars


def ended_growth(returns: Array, limit: float) -> float:
    """Mean log growth per bar of returns (bar,) of an account that ends, in cash, at a drawdown `limit`."""
    equity = np.cumprod(1 + returns)
    left = equity / np.maximum.accumulate(np.maximum(equity, 1.0))
    touched = np.flatnonzero(left <= 1 - limit)
    last = int(touched[0]) if len(touched) else len(equity) - 1
    return math.log(max(float(equity[last]), 1e-9)) / len(equity)


def check_returns(returns: ArrayLike, what: str = "returns") -> Array:
    """(time, …) float64; refuses fewer than two bars, and what is not finite, by its bar."""
    array = np.asarray(returns, dtype=np.float64)
    if array.ndim == 0 or len(array) < 2:
        raise DataError(f"{what} cover {array.size} bars; statistics need at least two, choose a longer period")
    odd = ~np.isfinite(array).reshape(len(array), -1).all(axis=1)
    if odd.any():
        raise DataError(
            f"{what} are not finite in {odd.sum()} of {len(array)} bars, first in bar {odd.argmax()}; "
            "leave out the bars that have no result"
        )
    return array


# ---- growth and risk ------------------------------------------------------------------------------------------------


def total_return(returns: Array) -> Array:
    """Compounded over all bars, 0.1 for ten percent."""
    total: Array = np.prod(1.0 + returns, axis=0) - 1.0
    return total


def annual_return(returns: Array, bars_per_year: float) -> Array:
    """The annual rate that compounds to the total; −1 once everything is lost."""
    # A fractional power of a negative growth has no real value: more than everything cannot be lost.
    growth: Array = np.maximum(1.0 + total_return(returns), 0.0) ** (bars_per_year / len(returns))
    return growth - 1.0


def volatility(returns: Array, bars_per_year: float = 1.0) -> Array:
    """Standard deviation, annualised."""
    deviation: Array = np.std(returns, axis=0, ddof=1) * np.sqrt(bars_per_year)
    return deviation


def sums_volatility(returns: Array, bars: int, bars_per_year: float = 1.0) -> Array:
    """Volatility by the sums of `bars` returns in a row, annualised; NaN with fewer than two such sums side by side.

    Where returns follow each other, as those of stale prices do, it is above that of single bars, and a Sharpe ratio by
    bars flatters (Lo 2002). The sums overlap, with the correction of Lo and MacKinlay (1988) for it.
    """
    count = len(returns)
    if count < 2 * bars:
        return np.full(returns.shape[1:], np.nan)[()]
    total = np.cumsum(np.concatenate([np.zeros((1, *returns.shape[1:])), returns]), axis=0)
    deviations = total[bars:] - total[:-bars] - bars * np.mean(returns, axis=0)
    freedom = bars * (count - bars + 1) * (1 - bars / count)
    deviation: Array = np.sqrt(np.sum(deviations**2, axis=0) / freedom * bars_per_year)
    return deviation


def sums_stretch(returns: Array, bars: int) -> float:
    """How many times the volatility of single bars that of sums of `bars` is; 1 where it is not clearly above.

    Clearly: the ratio of variances is two standard errors of independent returns above 1 (Lo and MacKinlay 1988). A
    Sharpe ratio by bars is divided by it (Lo 2002). Below 1 it is never used: returns that turn back ease nothing.
    """
    single, sums = float(volatility(returns)), float(sums_volatility(returns, bars))
    if bars < 2 or not single > 0 or not np.isfinite(sums):
        return 1.0
    error = np.sqrt(2 * (2 * bars - 1) * (bars - 1) / (3 * bars * len(returns)))
    return sums / single if (sums / single) ** 2 > 1 + 2 * error else 1.0


def drawdowns(returns: Array) -> Array:
    """(time, …) share lost since the highest equity so far, the start included."""
    equity = np.cumprod(1.0 + returns, axis=0)
    # The high is at least 1, the start: a first bar that loses is a drawdown already.
    lost: Array = 1.0 - equity / np.maximum(np.maximum.accumulate(equity, axis=0), 1.0)
    return lost


def max_drawdown(returns: Array) -> Array:
    """The largest drawdown, 0.1 for ten percent."""
    deepest: Array = drawdowns(returns).max(axis=0)
    return deepest


def longest_drawdown(returns: Array) -> Array:
    """Most bars in a row below an earlier high."""
    places = np.arange(1, len(returns) + 1).reshape(-1, *[1] * (returns.ndim - 1))
    # The place of the latest bar at a high, 0 for the start; the distance from it is the time under water.
    last_high = np.maximum.accumulate(np.where(drawdowns(returns) > 0.0, 0, places), axis=0)
    longest: Array = (places - last_high).max(axis=0)
    return longest


# ---- ratios ---------------------------------------------------------------------------------------------------------


def sortino(returns: Array, bars_per_year: float = 1.0) -> Array:
    """Mean over the root mean square of the losses, annualised; NaN without a loss."""
    # Over all bars, not over the losing ones only (Sortino): rare losses then weigh less than frequent ones.
    downside = np.sqrt(np.mean(np.minimum(returns, 0.0) ** 2, axis=0))
    return ratio(np.mean(returns, axis=0) * np.sqrt(bars_per_year), downside)


def calmar(returns: Array, bars_per_year: float) -> Array:
    """Annual return over the largest drawdown; NaN without one."""
    return ratio(annual_return(returns, bars_per_year), max_drawdown(returns))


def win_rate(gains: Array) -> Array:
    """Share of wins among what won or lost; NaN where nothing did."""
    # Bars in cash neither win nor lose.
    return ratio((gains > 0).sum(axis=0), (gains != 0).sum(axis=0))


def profit_factor(gains: Array) -> Array:
    """Sum of the gains over the sum of the losses; NaN without a loss."""
    return ratio(np.maximum(gains, 0.0).sum(axis=0), -np.minimum(gains, 0.0).sum(axis=0))


# ---- tails ----------------------------------------------------------------------------------------------------------


def tail_ratio(returns: Array) -> Array:
    """The gain at the 95 % quantile over the loss at the 5 % quantile; NaN where the latter is 0."""
    # Sizes: the lower quantile is a loss, and of a strategy that rarely trades it may be 0.
    low, high = np.abs(np.quantile(returns, [TAIL, 1 - TAIL], axis=0))
    return ratio(high, low)


def value_at_risk(returns: Array) -> Array:
    """Loss of one bar that 5 % of the bars reach or exceed, as observed."""
    loss: Array = -np.quantile(returns, TAIL, axis=0)
    return loss


def expected_shortfall(returns: Array) -> Array:
    """Mean loss of the bars that reach the value at risk."""
    # Of many equal returns, e.g. bars in cash, all that reach the quantile count.
    beyond = returns <= -value_at_risk(returns)
    return ratio(-np.where(beyond, returns, 0.0).sum(axis=0), beyond.sum(axis=0))


def alpha_beta(returns: Array, benchmark: Array, bars_per_year: float) -> tuple[Array, Array]:
    """Annualised alpha and beta of returns (time, …) to those of a benchmark; NaN where that never moves."""
    spread = benchmark - benchmark.mean(axis=0)
    # cov / var, in which deviations of `returns` from their own mean are not needed: Σ spread = 0.
    beta = ratio(np.sum(spread * returns, axis=0), np.sum(spread * spread, axis=0))
    return (returns.mean(axis=0) - beta * benchmark.mean(axis=0)) * bars_per_year, beta


# ---- a whole backtest -----------------------------------------------------------------------------------------------


def metrics(result: Backtest, benchmark: ArrayLike | None = None) -> dict[str, float]:
    """Every figure of a backtest by name; `alpha` and `beta` too where a benchmark's returns (time,) are given.

    `volatility_21_days` and `sharpe_21_days` are by sums of 21 days, see `sums_volatility`; the others by bars.
    Rates are shares, `cost` is money, `cost_share` is of the first equity, `turnover` is annual, `exposure` the mean
    over the bars. `win_rate` and `profit_factor` are of bars, with `lot_` in front of closed lots, first in, first out;
    `holding_bars` is their mean by money. `round_trips`, from flat to flat, are counted apart.
    """
    returns, year = check_returns(result.returns, f"the returns of {result.name}"), result.bars_per_year
    monthly = sums_volatility(returns, MONTH_DAYS * bars_per_day(result.times), year)
    figures: dict[str, Any] = {
        "bars": len(returns),
        "total_return": total_return(returns),
        "annual_return": annual_return(returns, year),
        "volatility": volatility(returns, year),
        "sharpe": sharpe(returns, year),
        "volatility_21_days": monthly,
        "sharpe_21_days": ratio(np.mean(returns) * year, monthly),
        "sortino": sortino(returns, year),
        "calmar": calmar(returns, year),
        "max_drawdown": max_drawdown(returns),
        "longest_drawdown": longest_drawdown(returns),
        "win_rate": win_rate(returns),
        "profit_factor": profit_factor(returns),
        "tail_ratio": tail_ratio(returns),
        "value_at_risk": value_at_risk(returns),
        "expected_shortfall": expected_shortfall(returns),
    } | _trading(result)
    if benchmark is not None:
        figures["alpha"], figures["beta"] = alpha_beta(returns, _align_benchmark(benchmark, returns), year)
    return {name: float(value) for name, value in figures.items()}


def _align_benchmark(benchmark: ArrayLike, returns: Array) -> Array:
    index = check_returns(benchmark, "the benchmark's returns")
    if index.shape != returns.shape:
        raise DataError(
            f"the benchmark has {len(index)} bars and the result {len(returns)}; give it over the same bars"
        )
    return index


def _trading(result: Backtest) -> dict[str, object]:
    """Costs, turnover and exposure by the ledger, round trips, and the results of closed lots."""
    ledger, lots = result.ledger, result.lots().drop_open()
    cost, money = ledger[:, Column.COST].sum(), np.abs(lots.quantity) * lots.entry_price
    return {
        "cost": cost,
        "cost_share": cost / ledger[0, Column.EQUITY_BEFORE],
        "turnover": ledger[:, Column.TURNOVER].mean() * result.bars_per_year,
        "exposure": ledger[:, Column.EXPOSURE].mean(),
        # An open trade has no result yet, and counting its paper gain would flatter the last one.
        "round_trips": count_round_trips(result.fills),
        "lots": len(lots.pnl),
        "lot_win_rate": win_rate(lots.pnl),
        "lot_profit_factor": profit_factor(lots.pnl),
        "holding_bars": ratio(np.sum(money * (lots.exit_bar - lots.entry_bar)), np.sum(money)),
    }
