"""Who turns the proposals of symbol agents into shares of equity: a master, or a fixed allocation over what they want.

`compare_allocations` plays all of them over the same bars; `allocation_gates` tells whether a master has collapsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from pacesetter.agents.master import PROPOSALS, Master
from pacesetter.envs.bank import Bank
from pacesetter.envs.observation import PositionEntry
from pacesetter.evaluation.allocation import EqualWeight, InverseVolatility, RiskParity
from pacesetter.evaluation.backtest import Backtest, Policy, Seen, backtest
from pacesetter.evaluation.baseline import Allocation, capped, recent_returns
from pacesetter.evaluation.gates import Gate
from pacesetter.evaluation.metrics import sharpe
from pacesetter.evaluation.statistics import Difference, paired_difference
from pacesetter.learning.master_market import Advisers
from pacesetter.market.ledger import Column
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel

__all__ = [
    "FIXED",
    "AllocationComparison",
    "MasterPolicy",
    "ProposedAllocation",
    "allocation_gates",
    "compare_allocations",
]

Array = NDArray[Any]
FIXED: tuple[type[Allocation], ...] = (EqualWeight, InverseVolatility, RiskParity)
HOLD_ZONE = 0.1  # a proposal within it leaves a position as it is
MOST_CASH, FEWEST_POSITIONS = 0.95, 2.0


@dataclass(frozen=True, eq=False)
class MasterPolicy:
    """A master and its advisers in a backtest, without exploring; `fitted_until` is the last moment either has seen."""

    master: Master
    advisers: Advisers
    fitted_until: pd.Timestamp | None = None
    name: str = "master"
    action: ClassVar[str] = "weights"

    def decide(self, seen: Seen) -> Array:
        return np.asarray(self.master.act(_advised(self.advisers, seen)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ProposedAllocation:
    """A fixed allocation over the symbols that the agents want to hold: what they would buy, or hold and not sell.

    Shares are renewed when the symbols change, and where the allocation itself would renew them.
    """

    allocation: Allocation
    advisers: Advisers
    fitted_until: pd.Timestamp | None = None
    action: ClassVar[str] = "weights"

    @property
    def name(self) -> str:
        return f"{self.allocation.name} of proposals"

    def decide(self, seen: Seen) -> Array:
        proposals, trades = _advised(self.advisers, seen)[PROPOSALS], seen.panel.mask[seen.t]
        is_held = seen.observation["position"][:, PositionEntry.WEIGHT] > 0
        wanted = trades & ((proposals > HOLD_ZONE) | (is_held & (proposals >= -HOLD_ZONE)))
        if (wanted == is_held)[trades].all() and not self.allocation.is_due(seen):
            return np.full(len(trades), np.nan)
        orders = np.where(trades, 0.0, np.nan)
        if wanted.any():
            returns = np.nan_to_num(recent_returns(seen.panel, self.allocation.history_bars)[:, wanted])
            orders[wanted] = capped(self.allocation.allocate(returns, seen), self.allocation.cap)
        return orders


@torch.no_grad()
def _advised(advisers: Advisers, seen: Seen) -> dict[str, Array]:
    """What a master sees of the market, entries (symbol, …)."""
    device = advisers.rows.device
    rows = {name: torch.tensor(entry, device=device)[None] for name, entry in seen.observation.items()}
    return {name: entry[0].cpu().numpy() for name, entry in advisers(rows).items()}


# ---- comparing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AllocationComparison:
    """A master beside the fixed allocations over the same proposals and bars."""

    master: Backtest
    fixed: tuple[Backtest, ...]

    @property
    def best(self) -> Backtest:
        """The fixed allocation with the highest Sharpe ratio."""
        return max(self.fixed, key=lambda result: float(sharpe(result.returns)))

    def difference(self) -> Difference:
        """The yearly Sharpe ratio of the master less that of the best fixed allocation, with its interval."""

        def yearly(returns: Array) -> Array:
            return np.asarray(sharpe(returns) * np.sqrt(self.master.bars_per_year))

        return paired_difference(self.master.returns, self.best.returns, yearly)

    def table(self) -> pd.DataFrame:
        """A row each: yearly Sharpe ratio, growth, mean share of cash, effective positions, turnover a bar."""
        rows = {result.name: _measures(result) for result in (self.master, *self.fixed)}
        return pd.DataFrame.from_dict(rows, orient="index")


def compare_allocations(
    master: MasterPolicy,
    panel: Panel,
    *,
    first: int,
    bank: Bank,
    last: int | None = None,
    market: MarketParameters | None = None,
    window_bars: int = 24,
    fixed: Sequence[type[Allocation]] = FIXED,
) -> AllocationComparison:
    """Play the master and fixed allocations over its advisers' proposals; options are those of `backtest`."""
    rules = market or MarketParameters()

    def play(policy: Policy) -> Backtest:
        return backtest(policy, panel, first=first, last=last, market=rules, bank=bank, window_bars=window_bars)

    policies = [ProposedAllocation(kind.on(bank, rules), master.advisers, master.fitted_until) for kind in fixed]
    return AllocationComparison(play(master), tuple(play(policy) for policy in policies))


def allocation_gates(result: Backtest) -> list[Gate]:
    """Whether weights have collapsed: to cash, which hides from the market, or into one symbol, which bets on it."""
    found = _measures(result)
    return [
        Gate("mean share of cash", found["cash"], "<=", MOST_CASH),
        Gate("effective number of positions", found["positions"], ">=", min(FEWEST_POSITIONS, len(result.symbols))),
    ]


def _measures(result: Backtest) -> dict[str, float]:
    return {
        "sharpe": float(sharpe(result.returns) * np.sqrt(result.bars_per_year)),
        "growth": float(result.equity[-1] / result.equity[0] - 1),
        "cash": float(np.mean(1 - result.ledger[:, Column.EXPOSURE])),
        "positions": _effective_positions(result.orders),
        "turnover": float(result.ledger[:, Column.TURNOVER].mean()),
    }


def _effective_positions(orders: Array) -> float:
    """1 / Σ of squared shares of what is invested (Herfindahl), the mean over orders (n, K) that invest something."""
    weights = pd.DataFrame(orders).ffill().fillna(0.0).to_numpy()
    invested = weights.sum(axis=1, keepdims=True)
    parts = (weights / np.where(invested > 0, invested, 1.0))[invested[:, 0] > 0]
    return float(np.mean(1 / (parts**2).sum(axis=1))) if len(parts) else 0.0
