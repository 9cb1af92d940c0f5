"""Who earned it: profit and loss per asset, and how concentrated it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.structure.concentration import gini, herfindahl
from pacesetter.market.ledger import Column, Fill, Flag

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.backtest import Backtest

__all__ = ["Contribution", "asset_pnl", "contribution", "contribution_of"]


@dataclass(frozen=True, eq=False)
class Contribution:
    """`table` by symbol: `pnl` (money), `share` (of the absolute sum, signed); of a backtest `risk`, `turnover` too.

    The largest comes first. `risk` is the share of the account's variance, cov(own, account) / var(account), which sums
    to 1; `turnover` is traded value over equity a year.

    Herfindahl and Gini are of the absolute shares: 1/n and 0 when n assets move the account alike, NaN when none does.
    """

    table: pd.DataFrame
    herfindahl: float
    gini: float


def asset_pnl(result: Backtest) -> Array:
    """(time, symbol) money that each symbol earned in each bar, after commission, spread, slippage and impact.

    Borrow fees and interest belong to the account: a row sums to the ledger's net P&L plus the borrow fee.
    """
    fills = result.fills
    # Money earned = change of the holding's value − what was paid for the trades; a sale pays a negative amount.
    held = np.cumsum(fills[..., Fill.QUANTITY] + fills[..., Fill.EXIT_QUANTITY], axis=0)
    paid = fills[..., Fill.QUANTITY] * fills[..., Fill.PRICE] + fills[..., Fill.COMMISSION]
    paid_at_exit = fills[..., Fill.EXIT_QUANTITY] * fills[..., Fill.EXIT_PRICE] + fills[..., Fill.EXIT_COMMISSION]
    earned: Array = np.diff(held * result.closes, axis=0, prepend=0.0) - paid - paid_at_exit
    ends = (result.ledger[:, Column.FLAGS].astype(np.int64) & Flag.TERMINATED) != 0
    is_over = np.cumsum(ends) - ends > 0  # a ruined account holds no more what it never sold
    earned[is_over] = 0.0
    return earned


def contribution(result: Backtest) -> Contribution:
    """What each symbol of a backtest contributed to its result, its risk and its turnover."""
    equity = np.maximum(result.ledger[:, Column.EQUITY_BEFORE], 1e-12)[:, None]
    money = asset_pnl(result)
    earnings = contribution_of(money.sum(axis=0), result.symbols)
    earned = money / equity - (money / equity).mean(axis=0)
    total = earned.sum(axis=1)
    fills = result.fills
    traded = np.abs(fills[..., Fill.QUANTITY]) * fills[..., Fill.PRICE]
    traded += np.abs(fills[..., Fill.EXIT_QUANTITY]) * fills[..., Fill.EXIT_PRICE]
    own = pd.DataFrame(
        {
            "risk": ratio((earned * total[:, None]).sum(axis=0), (total**2).sum()),
            "turnover": (traded / equity).mean(axis=0) * result.bars_per_year,
        },
        index=pd.Index(result.symbols, name="symbol"),
    )
    return replace(earnings, table=earnings.table.join(own))


def contribution_of(pnl: Array, symbols: Sequence[str]) -> Contribution:
    """The same from what each symbol earned, (symbol,)."""
    size = np.abs(pnl)
    shares = ratio(size, size.sum())
    table = pd.DataFrame({"pnl": pnl, "share": np.sign(pnl) * shares}, index=pd.Index(symbols, name="symbol"))
    # Stable, so that symbols that earned nothing keep the panel's order.
    order = np.argsort(-size, kind="stable")
    return Contribution(table.iloc[order], float(herfindahl(shares)), float(gini(shares)))
