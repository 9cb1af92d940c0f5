"""A result by the regime that the market was in when it was decided, and against an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.evaluation.statistics.metrics import alpha_beta, check_returns, max_drawdown, sharpe, total_return
from pacesetter.features.regime import REGIMES, regime_labels
from pacesetter.leadlag.observed import mean_observed
from pacesetter.leadlag.strategy import last_moves
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.backtest import Backtest

__all__ = ["Index", "benchmark_table", "check_index", "index_returns", "market_regimes", "regime_table"]


def market_regimes(panel: Panel) -> Array:
    """(time,) position in `REGIMES` of the regime that most symbols are in at each close, −1 while none is known."""
    labels = regime_labels(panel)
    counts = np.stack([(labels == code).sum(axis=1) for code in range(len(REGIMES))])  # (regime, time)
    most: Array = np.where(counts.any(axis=0), counts.argmax(axis=0), -1)
    return most


def regime_table(result: Backtest, panel: Panel) -> pd.DataFrame:
    """A row for each regime: bars, total return over them, annualised Sharpe ratio, and share of bars that gained.

    A return belongs to the regime that was known when it was decided, at the close before. NaN below two bars.
    """
    # −1: the bar before, at whose close the order was decided.
    regimes = market_regimes(panel)[_places(result, panel) - 1]
    rows = {name: _figures(result.returns[regimes == code], result) for code, name in enumerate(REGIMES)}
    return pd.DataFrame(rows).T.astype({"bars": int}).rename_axis("regime")


def _figures(returns: Array, result: Backtest) -> dict[str, float]:
    if len(returns) < 2:
        return {"bars": len(returns)} | dict.fromkeys(("total_return", "sharpe", "positive"), float("nan"))
    return {
        "bars": len(returns),
        "total_return": float(total_return(returns)),
        "sharpe": float(sharpe(returns, result.bars_per_year)),
        "positive": float((returns > 0).mean()),
    }


class Index(NamedTuple):
    """A symbol that stands for the market, and its returns (time,) over a whole panel."""

    name: str
    returns: Array

    @classmethod
    def of(cls, panel: Panel, symbol: str) -> Index:
        """The symbol's own; refuses one that the panel lacks."""
        check_index(panel, symbol)
        return cls(symbol, index_returns(panel, symbol))


def check_index(panel: Panel, symbol: str | None) -> None:
    """Refuse an `evaluation.index` that the data lack; None names none."""
    if symbol is not None and symbol not in panel.symbols:
        raise ConfigError(
            f"evaluation.index={symbol} is not a symbol of the data{did_you_mean(symbol, panel.symbols)}; add it "
            "to data.symbols, and name what is traded by task.symbols"
        )


def index_returns(panel: Panel, symbol: str | None = None) -> Array:
    """(time,) returns from close to close of one symbol, or of all in equal parts; 0 where none was observed."""
    moves = last_moves(panel) if symbol is None else last_moves(panel.select([symbol]))
    return np.nan_to_num(mean_observed(moves, axis=1))


def benchmark_table(results: Mapping[str, Backtest], panel: Panel, index: Array | None = None) -> pd.DataFrame:
    """A row for each result against the index over the same bars: annualised alpha, beta, correlation, residual.

    `index` (time,) are the returns of one over the panel's bars; None: of all its symbols in equal parts. It pays no
    costs. `active_sharpe` is that of the returns above the index, `active_drawdown` the most they fell from their high.
    """
    index = index_returns(panel) if index is None else index
    return pd.DataFrame({name: _regress_on_index(result, index, panel) for name, result in results.items()}).T


def _regress_on_index(result: Backtest, index: Array, panel: Panel) -> dict[str, float]:
    own, other = check_returns(result.returns, f"the returns of {result.name}"), index[_places(result, panel)]
    alpha, beta = alpha_beta(own, other, result.bars_per_year)
    moves = own.std() > 0 and other.std() > 0
    return {
        "alpha": float(alpha),
        "beta": float(beta),
        "correlation": float(np.corrcoef(own, other)[0, 1]) if moves else float("nan"),
        "active_sharpe": float(sharpe(own - other, result.bars_per_year)),
        "active_drawdown": float(max_drawdown(own - other)),
    }


def _places(result: Backtest, panel: Panel) -> Array:
    """(n,) bars of the panel that the result's are."""
    places: Array = panel.index.get_indexer(result.times)
    if places.min(initial=0) < 0:
        raise DataError(f"{result!r} has bars that {panel!r} lacks; give the panel of the backtest")
    return places
