"""Baselines that allocate: cash, hold, equal weight, by volatility, by risk (skfolio), by momentum, at random."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.evaluation.baselines.baseline import Allocation, Baseline
from pacesetter.evaluation.baselines.programs import (
    Program,
    least_variance,
    most_utility,
    parity_of_risk,
    shrunk_covariance,
    solve,
)
from pacesetter.policies.policy import Snapshot

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = [
    "Cash",
    "EqualWeight",
    "Hold",
    "InverseVolatility",
    "MeanVariance",
    "MinimumVariance",
    "Momentum",
    "Random",
    "RiskParity",
]

QUARTER_BARS, YEAR_BARS, MONTH_BARS = 63, 252, 21
LEAST_VOLATILITY = 0.01  # of the largest: a price that stands still is not the safest holding


@dataclass(frozen=True)
class Cash(Baseline):
    """Holds nothing."""

    name: ClassVar[str] = "cash"
    reads_features: ClassVar[bool] = False

    def decide(self, snapshot: Snapshot) -> Array:
        return np.zeros(len(snapshot.panel.symbols))


@dataclass(frozen=True)
class EqualWeight(Allocation):
    """Equal shares of all symbols that trade."""

    name: ClassVar[str] = "equal_weight"

    @classmethod
    def lacks(cls, bank: Bank) -> str:
        return ""

    def allocate(self, returns: Array, snapshot: Snapshot) -> Array:
        return np.full(returns.shape[1], 1.0 / returns.shape[1])


@dataclass(frozen=True)
class Hold(EqualWeight):
    """Buys as much of each symbol once, at the first close, and keeps it: a weight may grow beyond the cap."""

    name: ClassVar[str] = "hold"

    def is_due(self, snapshot: Snapshot) -> bool:
        # Never renewed: rebalancing sells winners, and is another policy (`equal_weight`).
        return snapshot.t == snapshot.first


@dataclass(frozen=True)
class InverseVolatility(Allocation):
    """In proportion to the inverse of each symbol's volatility."""

    name: ClassVar[str] = "inverse_volatility"
    history_bars: int = QUARTER_BARS

    def allocate(self, returns: Array, snapshot: Snapshot) -> Array:
        volatility = returns.std(axis=0)
        # Without the floor a price that stands still would take the whole account.
        inverse = 1.0 / np.maximum(volatility, max(LEAST_VOLATILITY * volatility.max(), 1e-12))
        shares: Array = inverse / inverse.sum()
        return shares


@dataclass(frozen=True)
class Momentum(Allocation):
    """Equal parts of the `share` of the symbols that rose most over a year less its last month (Jegadeesh, Titman)."""

    name: ClassVar[str] = "momentum"
    history_bars: int = YEAR_BARS
    skipped_bars: int = MONTH_BARS
    share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.skipped_bars < self.history_bars and 0 < self.share <= 1):
            raise ConfigError(
                f"momentum: skipped_bars={self.skipped_bars} must be in history_bars={self.history_bars}, and "
                f"share={self.share} above 0 and at most 1"
            )

    def allocate(self, returns: Array, snapshot: Snapshot) -> Array:
        # The last month is left out because it reverses (Jegadeesh 1990).
        growth = np.log1p(returns[: len(returns) - self.skipped_bars]).sum(axis=0)
        count = max(round(self.share * len(growth)), 1)
        shares = np.zeros(len(growth))
        shares[np.argsort(-growth, kind="stable")[:count]] = 1.0 / count
        return shares


@dataclass(frozen=True)
class Random(Allocation):
    """Shares drawn evenly from all that add up to 1; the same seed and bar give the same."""

    name: ClassVar[str] = "random"
    seed: int = 0

    def allocate(self, returns: Array, snapshot: Snapshot) -> Array:
        # A generator for each bar: the shares do not depend on how often it was asked before.
        return np.random.default_rng([self.seed, snapshot.t]).dirichlet(np.ones(returns.shape[1]))


# ---- by risk --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Optimised(Allocation):
    """What a convex optimisation of skfolio finds on a year of returns, with a shrunk covariance (Ledoit, Wolf).

    No share is above the cap in the optimum itself, or above 1/k where k symbols could not take all. Equal shares
    where the solver finds nothing, as for prices that stand still.
    """

    history_bars: int = YEAR_BARS

    def allocate(self, returns: Array, snapshot: Snapshot) -> Array:
        # A cap below 1/k would leave no solution that adds up to 1.
        cap = max(self.cap, 1.0 / returns.shape[1])
        # The matrices are small: one thread is faster, and the result does not depend on how many there are.
        with _libraries().limit(limits=1):
            solved = self._solve(returns, cap)
            weights = np.maximum(self._fit(returns, cap) if solved is None else solved, 0.0)  # a solver leaves −1e-12
        shares: Array = weights / weights.sum()
        return shares

    def _solve(self, returns: Array, cap: float) -> Array | None:
        """What skfolio finds, bit for bit and in a tenth of the time; None where it needs its fallback."""
        try:
            root = np.linalg.cholesky(shrunk_covariance(returns))
        except np.linalg.LinAlgError:  # prices that stand still
            return None
        return solve(self.program(root, returns.mean(axis=0), cap))

    def _fit(self, returns: Array, cap: float) -> Array:
        from skfolio.moments import LedoitWolf
        from skfolio.optimization import EqualWeighted
        from skfolio.prior import EmpiricalPrior

        prior = EmpiricalPrior(covariance_estimator=LedoitWolf())
        optimiser = self.optimiser(prior_estimator=prior, max_weights=cap, fallback=EqualWeighted())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")  # for shares it is enough
            weights: Array = optimiser.fit(returns).weights_
        return weights

    @abstractmethod
    def program(self, root: Array, mean: Array, cap: float) -> Program:
        """What is solved, with the covariance L L' of `root` (k, k) and the mean returns (k,)."""

    @abstractmethod
    def optimiser(self, **options: object) -> Any:
        """The skfolio estimator to be fitted, with the options that all of them take."""


@cache
def _libraries() -> ThreadpoolController:
    """The loaded libraries that have threads; looked for once, since that takes as long as solving."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@dataclass(frozen=True)
class MinimumVariance(Optimised):
    """The shares whose return varies least."""

    name: ClassVar[str] = "minimum_variance"

    def program(self, root: Array, mean: Array, cap: float) -> Program:
        return least_variance(root, cap)

    def optimiser(self, **options: object) -> Any:
        from skfolio.optimization import MeanRisk

        return MeanRisk(**options)


@dataclass(frozen=True)
class RiskParity(Optimised):
    """The shares with which every symbol contributes equally to the variance."""

    name: ClassVar[str] = "risk_parity"

    def program(self, root: Array, mean: Array, cap: float) -> Program:
        return parity_of_risk(root, cap)

    def optimiser(self, **options: object) -> Any:
        from skfolio.optimization import RiskBudgeting

        return RiskBudgeting(**options)


@dataclass(frozen=True)
class MeanVariance(Optimised):
    """The shares that maximise mean return − `risk_aversion` · variance, both per bar and measured on the history."""

    name: ClassVar[str] = "mean_variance"
    risk_aversion: float = 2.5

    def program(self, root: Array, mean: Array, cap: float) -> Program:
        return most_utility(root, mean, cap, self.risk_aversion)

    def optimiser(self, **options: object) -> Any:
        from skfolio.optimization import MeanRisk, ObjectiveFunction

        return MeanRisk(ObjectiveFunction.MAXIMIZE_UTILITY, risk_aversion=self.risk_aversion, **options)
