"""How much money a policy can carry: the equity at which the impact of its own orders halves its net return."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pacesetter.arrays import Array
from pacesetter.evaluation.statistics.metrics import volatility
from pacesetter.market.ledger import Column, Fill
from pacesetter.market.parameters import BPS, EXPONENTS, Costs
from pacesetter.panel import Panel
from pacesetter.stamps import bars_per_day

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.backtest import Backtest

__all__ = ["Capacity", "find_capacity"]

LARGEST = 1e6  # times the equity played with: beyond it nothing is said


class Capacity(NamedTuple):
    """The equity at which net return halves, in the account's money; infinite where no impact does it.

    annual_return   mean net return a year at the equity that was played
    is_assumed      whether the impact is that of a square-root law with one day's volatility for a day's whole volume,
                    since the market's own rules charge none
    """

    equity: float
    annual_return: float
    is_assumed: bool

    @property
    def sentence(self) -> str:
        law = "an assumed impact of one day's volatility · √(share of volume)" if self.is_assumed else "impact"
        if not np.isfinite(self.equity):
            return f"Capacity: {law} does not halve the net return at any equity looked at."
        net = f"the net return of {self.annual_return:+.1%} a year"
        return f"Capacity: {net} halves at an equity of {_money(self.equity)} by {law}."


def find_capacity(result: Backtest, panel: Panel, costs: Costs) -> Capacity | None:
    """Capacity by the fills of a result: orders grow with equity, prices and volumes stay.

    None without a gain or a volume. η·(q/V)^β per fill as in the kernel, with the market's own η where it charges
    impact, else with Tóth et al. (2011): η = one day's volatility, β = ½, V of the bar scaled to the day.
    """
    year = result.bars_per_year
    earned = float(result.returns.mean() * year)
    if "volume" not in panel.fields or earned <= 0:
        return None
    places = panel.index.get_indexer(result.times)
    volume, equity = panel["volume"][places], result.ledger[:, Column.EQUITY_BEFORE]
    is_assumed = costs.impact_bps == 0 and costs.permanent_bps == 0
    daily = bars_per_day(result.times)
    own = _by_volatility(result, daily) if is_assumed else np.full(len(result.symbols), costs.impact_bps * BPS)
    quantity = np.abs(result.fills[..., Fill.QUANTITY])
    known = (quantity > 0) & (np.nan_to_num(volume) > 0)
    share = np.where(known, quantity / np.where(known, volume, 1.0), 0.0)
    if is_assumed:
        share = share / daily
    value = np.where(known, quantity * result.fills[..., Fill.PRICE], 0.0) / np.maximum(equity, 1e-12)[:, None]
    exponent, permanent = (0.5, 0.0) if is_assumed else (EXPONENTS[costs.impact_model], costs.permanent_bps * BPS)

    def drag(times: float) -> float:
        """Return a year that impact takes at so many times the equity."""
        paid = value * (permanent / 2 * times * share + own * (times * share) ** exponent)
        return float(paid.sum() / len(result) * year)

    # What is charged already is part of the net return.
    allowed = earned / 2 + (0.0 if is_assumed else drag(1.0))
    low, high = 0.0, LARGEST
    if drag(high) < allowed:
        return Capacity(float("inf"), earned, is_assumed)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if drag(middle) < allowed else (low, middle)
    return Capacity(high * float(equity[0]), earned, is_assumed)


def _by_volatility(result: Backtest, daily: int) -> Array:
    """(symbol,) volatility of a day, from the closes of the judged bars."""
    closes = np.where(result.closes > 0, result.closes, np.nan)
    moves = np.nan_to_num(closes[1:] / closes[:-1] - 1.0)
    return np.asarray(volatility(moves, daily)) if len(moves) > 1 else np.zeros(len(result.symbols))


def _money(amount: float) -> str:
    """Two digits that count: 12,000,000."""
    digits = 1 - int(np.floor(np.log10(max(amount, 1.0))))
    return f"{round(amount, digits):,.0f}"
