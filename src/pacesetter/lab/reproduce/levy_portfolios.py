"""Lévy lead–lag portfolios (after Cartea, Cucuringu and Jin) on a user's own daily closes.

Every day the Lévy areas of the last 30 days rank the symbols. The top 20 % lead, the bottom 20 % follow. Followers are
held in equal parts for a day, long where the leaders rose on average, short where they fell. The two Lévy scores and
the two kinds of return give four portfolios. The published ones earn from the close at which they decide, which cannot
be had; ours are shown that way and filled at the next close.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.data import load
from pacesetter.errors import DataError
from pacesetter.lab.reproduce.result import Comparison, Reproduction, draw_lines
from pacesetter.leadlag import LeadLag
from pacesetter.leadlag.strategy import fill_to_fill_returns, follower_weights, last_moves
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["levy_portfolios", "portfolio"]

LOOKBACK, SHARE = 30, 0.2
# a public study of 57 coins, daily: final wealth of one unit, and the annual Sharpe ratio by score (REFERENCE §6, §1)
WEALTH = {"log": 3.44, "simple": 4.32}
SHARPE = {"levy_returns": 1.34, "levy_path": -0.75}
OTHER = "other coins and days, unless the file is the study's"
NO_FIGURE = "ours alone: a fill that can be had"


def levy_portfolios(path: str | None) -> Reproduction:
    """Wealth and Sharpe ratios of the four portfolios on the closes of a file."""
    assert path is not None
    panel = load(path)
    if len(panel) < 3 * LOOKBACK or len(panel.symbols) < 5:
        raise DataError(
            f"{path} has {len(panel.symbols)} symbols and {len(panel)} bars; Lévy portfolios need 5 and {3 * LOOKBACK}"
        )
    earned = {
        (score, kind): portfolio(panel, score, kind)
        for score in ("levy_returns", "levy_path")
        for kind in ("log", "simple")
    }
    lines = [
        Comparison(
            f"wealth of levy_returns, {kind} returns, same close",
            float(np.prod(1 + earned["levy_returns", kind].to_numpy())),
            known,
            OTHER,
        )
        for kind, known in WEALTH.items()
    ]
    lines += [
        Comparison(f"Sharpe ratio of {score}, same close", _sharpe(earned[score, "simple"], panel), known, OTHER)
        for score, known in SHARPE.items()
    ]
    fair = portfolio(panel, "levy_returns", "simple", next_close=True)
    lines.append(Comparison("Sharpe ratio of levy_returns, next fill", _sharpe(fair, panel), None, NO_FIGURE))
    shown = {f"{score}, {kind} returns": series for (score, kind), series in earned.items()}
    notes = (
        *panel.notes,
        f"{len(panel.symbols)} symbols, {panel.index[0]:%Y-%m-%d} to {panel.index[-1]:%Y-%m-%d}, before costs",
        "`same close` earns from the close that it decides at, as the study does; `next fill` is what an order gets",
        "the two Lévy scores are different estimators; neither stands in for the other",
    )
    title = "Lévy lead–lag portfolios: leaders → followers"
    return Reproduction(title, tuple(lines), notes, partial(_draw, shown | {"levy_returns, next fill": fair}))


def portfolio(panel: Panel, score: str, kind: str, next_close: bool = False) -> pd.Series:
    """(time,) daily returns of the followers; `next_close` fills in the next bar instead of at the deciding close."""
    engine = LeadLag(score, increments="log" if kind == "log" else "simple").fit(panel)
    ends = np.arange(LOOKBACK, len(panel))
    moves = last_moves(panel)
    weights = follower_weights(engine.many(ends, LOOKBACK), moves[ends], SHARE)
    # `moves[1:]` begins at the close that was decided at: look-ahead, shown because the study has it.
    after = fill_to_fill_returns(panel) if next_close else np.vstack([moves[1:], np.full_like(moves[:1], np.nan)])
    earned = after[ends]
    known = np.flatnonzero(np.isfinite(earned).any(axis=1))
    return pd.Series(np.nansum(weights * earned, axis=1)[known], panel.index[ends][known])


def _sharpe(returns: pd.Series, panel: Panel) -> float:
    return float(returns.mean() / returns.std() * np.sqrt(panel.bars_per_year)) if returns.std() > 0 else float("nan")


def _draw(lines: dict[str, pd.Series], axes: Axes) -> None:
    wealth = {name: (1 + line).cumprod() for name, line in lines.items()}
    draw_lines(axes, wealth, "Wealth of one unit, before costs", "wealth")
