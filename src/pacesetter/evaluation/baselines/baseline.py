"""What a baseline is: a policy with plain options, registered in `BASELINES`; and the base of those that allocate.

An outside package adds one by an entry point of the group `pacesetter.baseline`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.registry import Registry, configure

__all__ = ["BASELINES", "Allocation", "Baseline", "cap_shares", "recent_returns"]

LEAST_OBSERVED = 0.5  # of the returns of a history; a symbol with fewer is left out


class Baseline(Policy):
    """A policy whose options are plain; members of `BASELINES` are dataclasses of it."""

    name: ClassVar[str]
    action: ClassVar[str] = "target"
    is_default: ClassVar[bool] = True  # False: played only where it is named
    reads_features: ClassVar[bool] = True  # False: bars and the account are enough

    @classmethod
    def lacks(cls, bank: Bank) -> str:
        """What the baseline needs and the bank lacks, in words; empty where it has all."""
        return ""

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        """The baseline with the options that the market gives it, and others; refuses unknown ones."""
        return configure(cls, options, cls.name)

    @abstractmethod
    def decide(self, snapshot: Snapshot) -> Array:
        """(symbol,) orders at the close of bar `snapshot.t`."""


BASELINES: Registry[type[Baseline]] = Registry(
    "baseline",
    entries={
        "cash": "pacesetter.evaluation.baselines.allocators:Cash",
        "equal_weight": "pacesetter.evaluation.baselines.allocators:EqualWeight",
        "hold": "pacesetter.evaluation.baselines.allocators:Hold",
        "inverse_volatility": "pacesetter.evaluation.baselines.allocators:InverseVolatility",
        "momentum": "pacesetter.evaluation.baselines.allocators:Momentum",
        "random": "pacesetter.evaluation.baselines.allocators:Random",
        "minimum_variance": "pacesetter.evaluation.baselines.allocators:MinimumVariance",
        "risk_parity": "pacesetter.evaluation.baselines.allocators:RiskParity",
        "mean_variance": "pacesetter.evaluation.baselines.allocators:MeanVariance",
        "carry": "pacesetter.evaluation.baselines.carry:Carry",
        "ridge": "pacesetter.evaluation.baselines.forecasting:Ridge",
        "lasso": "pacesetter.evaluation.baselines.forecasting:Lasso",
        "expected": "pacesetter.evaluation.baselines.forecasting:Expected",
        "rule": "pacesetter.evaluation.baselines.rules:Rule",
        "supervised": "pacesetter.evaluation.baselines.rules:Supervised",
        "lasso_sized": "pacesetter.evaluation.baselines.sized:LassoSized",
        "ridge_sized": "pacesetter.evaluation.baselines.sized:RidgeSized",
        "learned_sized": "pacesetter.evaluation.baselines.sized:LearnedSized",
        "lasso_formula": "pacesetter.evaluation.baselines.sized:LassoFormula",
        "ridge_formula": "pacesetter.evaluation.baselines.sized:RidgeFormula",
        "trees_sized": "pacesetter.evaluation.baselines.sized:TreesSized",
        "expert": "pacesetter.evaluation.baselines.teachers:Expert",
    },
)


@dataclass(frozen=True)
class Allocation(Baseline):
    """Shares of equity for the symbols that trade, renewed every `every_bars` bars; in between all is left as it is.

    cap            largest share of one symbol, the kernel's position cap: the excess goes to the other symbols in
                   proportion. Fewer than 1/cap symbols cannot take all, and the rest stays in cash: with the default
                   limit of 15 % that is any market of fewer than seven
    history_bars   latest returns that `allocate` sees. A symbol with fewer than half of them is left out; while that
                   is each one, everything stays in cash

    A symbol that is halted keeps its position, which the others leave room for; one that is delisted is paid out.
    """

    reads_features: ClassVar[bool] = False
    every_bars: int = 21
    cap: float = 0.15
    history_bars: int = 0

    @classmethod
    def lacks(cls, bank: Bank) -> str:
        return "" if bank.positions_each > 1 else "a second symbol (with one they equal equal_weight)"

    def __post_init__(self) -> None:
        if self.every_bars < 1 or self.history_bars < 0 or not 0 < self.cap <= 1:
            raise ConfigError(
                f"{self.name}: every_bars={self.every_bars} must be 1 or more, history_bars={self.history_bars} "
                f"not negative, and cap={self.cap} above 0 and at most 1"
            )

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        return configure(cls, {"cap": min(market.limits.position_cap_fraction, 1.0)} | options, cls.name)

    def decide(self, snapshot: Snapshot) -> Array:
        if not self.is_due(snapshot):
            return np.full(len(snapshot.panel.symbols), np.nan)
        trades, held = snapshot.panel.mask[snapshot.t], snapshot.observation["position"][:, PositionEntry.WEIGHT]
        returns = recent_returns(snapshot.panel, self.history_bars)
        chosen = trades & (np.isfinite(returns).sum(axis=0) >= LEAST_OBSERVED * self.history_bars)
        # NaN leaves a halted symbol as it is: an order for it could not be filled.
        orders = np.where(trades, 0.0, np.nan)
        if chosen.any():
            # What halted symbols tie up cannot be spent on others.
            room = max(1.0 - float(np.abs(held[~trades]).sum()), 0.0)
            orders[chosen] = cap_shares(room * self.allocate(np.nan_to_num(returns[:, chosen]), snapshot), self.cap)
        return orders

    def is_due(self, snapshot: Snapshot) -> bool:
        """Whether the shares are renewed at this close."""
        return (snapshot.t - snapshot.first) % self.every_bars == 0

    @abstractmethod
    def allocate(self, returns: Array, snapshot: Snapshot) -> Array:
        """(k,) shares ≥ 0 that add up to 1, from `returns` (bar, k) of the symbols that may be held."""


def recent_returns(panel: Panel, bars: int) -> Array:
    """(bars, symbol) latest returns, from one observed close to the next; NaN where none was, also before the panel.

    The close before the first of them is looked for among the `bars` + 1 latest only.
    """
    latest = slice(max(len(panel) - bars - 1, 0), None)
    close = np.where(panel.mask[latest], panel.close[latest], np.nan)
    # Not by pandas: policies ask at every bar, and its tables take most of the time then.
    known = np.maximum.accumulate(np.where(np.isnan(close), 0, np.arange(len(close))[:, None]), axis=0)
    last = np.take_along_axis(close, known, axis=0)
    returns = np.full((bars, close.shape[1]), np.nan)
    # Aligned at the newest bar; what lies before the panel stays NaN.
    returns[bars - len(close) + 1 :] = np.where(np.isnan(close[1:]), np.nan, last[1:] / last[:-1] - 1.0)
    return returns


def cap_shares(shares: Array, cap: float) -> Array:
    """(k,) shares of which none is above `cap`; the excess goes to the others in proportion while they have room.

    A share of 0 stays 0, and what exceeds every cap is left out of the sum.
    """
    wanted, result = float(shares.sum()), shares.astype(np.float64)
    while (over := result > cap).any():
        result[over] = cap
        # Those at the cap are full; a 0 stays 0, or the allocation's choice would be undone.
        free = (result > 0) & (result < cap)
        if free.any():
            # Divided first: the share of a tiny sum would overflow.
            result[free] = result[free] / result[free].sum() * (wanted - result[~free].sum())
    return result
