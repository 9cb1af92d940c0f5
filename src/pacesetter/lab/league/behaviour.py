"""How a policy behaved on the test set: what it earned, what it ordered, and whether it has collapsed.

Yardsticks are measured as agents are, so that a gate can be read beside the oracle's value on the same bars: one that
the oracle fails there asks for nothing that pays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.market.ledger import Fill
from pacesetter.market.orders import Discrete

__all__ = ["Behaviour", "behaviour", "gates_of"]

BINS = 20  # of continuous orders
WINDOW = 20  # bars in which different orders are counted
EVEN = float(np.log(len(Discrete)))  # entropy of seven orders used alike


@dataclass(frozen=True)
class Behaviour:
    """Figures of a backtest, after costs.

    sharpe      annualised                                  t           its t statistic
    exposure    mean share of equity that was invested      traded      fills per 1,000 bars and symbol
    buys, holds, sells   shares of the orders sent          entropy     of the orders decided, in nats: of the seven
                                                                        discrete ones, or in 20 bins
    least_entropy  that a policy with such orders is to have             coverage    share of those bins used
    variety     mean number of different orders in 20 bars, as a share of what is possible
    round_trips positions closed per 1,000 bars and symbol  is_finite   1 where equity never was NaN
    """

    sharpe: float
    t: float
    total_return: float
    drawdown: float
    exposure: float
    traded: float
    buys: float
    holds: float
    sells: float
    entropy: float
    least_entropy: float
    coverage: float
    variety: float
    round_trips: float
    is_finite: float


def behaviour(result: Backtest) -> Behaviour:
    """The figures of one backtest."""
    returns, ratio = result.returns, float(sharpe(result.returns, result.bars_per_year))
    sides = np.sign(result.fills[..., Fill.ORDERED])
    kinds, count, is_discrete = _kinds(result.orders)
    used = np.bincount(kinds.ravel(), minlength=count)
    shares = used[used > 0] / used.sum()
    held = np.cumsum(result.fills[..., [Fill.QUANTITY, Fill.EXIT_QUANTITY]].sum(axis=-1), axis=0)  # (bar, symbol)
    # 1e-9: a ruined account has no equity to be a share of.
    weights = np.abs(held * result.closes) / np.maximum(result.equity[1:], 1e-9)[:, None]
    is_open = np.abs(weights) > 1e-6
    return Behaviour(
        sharpe=ratio,
        t=ratio * float(np.sqrt(len(result) / result.bars_per_year)),
        total_return=float(np.prod(1 + returns) - 1),
        drawdown=float(result.drawdown.max()),
        exposure=float(np.nansum(weights, axis=1).mean()),
        traded=1e3 * float((result.fills[..., Fill.QUANTITY] != 0).mean()),
        buys=float((sides > 0).mean()),
        holds=float((sides == 0).mean()),
        sells=float((sides < 0).mean()),
        entropy=float(-(shares * np.log(shares)).sum()),
        least_entropy=0.5 * EVEN if is_discrete else 0.6,
        coverage=float((used > 0).mean()),
        variety=_variety(kinds, min(WINDOW, count)),
        round_trips=1e3 * float((is_open[:-1] & ~is_open[1:]).mean()),
        is_finite=float(np.isfinite(result.equity).all()),
    )


def _kinds(orders: Array) -> tuple[Array, int, bool]:
    """Orders (bar, symbol) as numbers of the seven discrete ones or of bins, how many there are, and which of both.

    A position left as it is (NaN) is a kind of its own where orders are continuous.
    """
    known = orders[np.isfinite(orders)]
    if len(known) == 0:
        return np.zeros(orders.shape, np.int64), BINS + 1, False
    # Targets of 0 and 1 alone look like discrete orders too; above 1 only order numbers go.
    if np.isin(known, list(Discrete)).all() and known.max() > 1:
        return np.nan_to_num(orders).astype(np.int64), len(Discrete), True
    low, high = float(known.min()), float(known.max())
    places = np.floor((np.nan_to_num(orders, nan=low) - low) / max(high - low, 1e-9) * BINS)
    places = np.minimum(places, BINS - 1).astype(np.int64)
    if len(known) == orders.size:
        return places, BINS, False
    return np.where(np.isfinite(orders), places, BINS), BINS + 1, False


def _variety(kinds: Array, most: int) -> float:
    if len(kinds) < WINDOW:
        return float("nan")
    # Sorted, a change between neighbours is a new kind: 1 + changes counts the different ones.
    windows = np.sort(np.lib.stride_tricks.sliding_window_view(kinds, WINDOW, axis=0), axis=-1)
    return float((1 + (np.diff(windows, axis=-1) != 0).sum(axis=-1)).mean() / most)


def gates_of(figures: Any) -> dict[str, Gate]:
    """The gates of a policy that has not collapsed, of a `Behaviour` or a row of a table with its names."""
    gates = (
        Gate("entropy of orders", figures.entropy, ">", figures.least_entropy),
        Gate("coverage", figures.coverage, ">", 0.9),
        Gate("most used side", max(figures.buys, figures.holds, figures.sells), "<=", 0.6),
        Gate("variety", figures.variety, ">", 0.3),
        Gate("bars with a fill", figures.traded / 1e3, ">", 0.05),
        Gate("round trips", figures.round_trips, ">=", 20.0),
        Gate("no NaN", figures.is_finite, ">=", 1.0),
    )
    return {gate.name: gate for gate in gates}
