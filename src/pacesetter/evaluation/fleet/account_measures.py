"""How an account of many symbols is spread: cash, positions, turnover; and whether it has collapsed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.market.ledger import Column, Fill

__all__ = ["allocation_gates", "measures"]

DUST = 1e-9  # of equity: what rounding leaves of a closed position
MOST_CASH, FEWEST_POSITIONS = 0.95, 2.0


def measures(result: Backtest) -> dict[str, float]:
    """Annualised Sharpe ratio, growth, mean share of cash, effective number of positions, turnover a bar."""
    return {
        "sharpe": float(sharpe(result.returns) * np.sqrt(result.bars_per_year)),
        "growth": float(result.equity[-1] / result.equity[0] - 1),
        "cash": float(np.mean(1 - result.ledger[:, Column.EXPOSURE])),
        "positions": _effective_positions(result),
        "turnover": float(result.ledger[:, Column.TURNOVER].mean()),
    }


def _effective_positions(result: Backtest) -> float:
    """1 / Σ of squared shares of what is invested (Herfindahl), the mean over bars with something invested."""
    held = (result.fills[:, :, Fill.QUANTITY] + result.fills[:, :, Fill.EXIT_QUANTITY]).cumsum(axis=0)  # (bar, symbol)
    values = np.abs(held * np.nan_to_num(result.closes))
    invested = values.sum(axis=1, keepdims=True)
    is_invested = invested[:, 0] > DUST * result.equity[1:]
    parts = values[is_invested] / invested[is_invested]
    return float(np.mean(1 / (parts**2).sum(axis=1))) if len(parts) else 0.0


def allocation_gates(figures: Mapping[str, float]) -> list[Gate]:
    """Whether by its `measures` an account has collapsed: to cash, which hides from the market, or into one symbol."""
    return [
        Gate("mean share of cash", figures["cash"], "<=", MOST_CASH),
        Gate("effective number of positions", figures["positions"], ">=", FEWEST_POSITIONS),
    ]
