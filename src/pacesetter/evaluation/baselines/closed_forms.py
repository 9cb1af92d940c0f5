"""Worlds whose best policy is written down: what to hold against decaying signals, and above a drawdown limit.

decay      Gârleanu and Pedersen (2013): quadratic costs. Trade a fixed part of the way to an aim that trusts a
           signal the less the faster it decays
cushion    Grossman and Zhou (1993): the account ends at a share `limit` of its highest value. Hold in proportion to
           what lies above that limit

Shorting is allowed and nothing is capped. Each is measured by its own `WorldGoal`. `OracleClosed` plays both by the
market kernel; the small accounts beside it are what tests compare the formulas with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.baselines.baseline import recent_returns
from pacesetter.evaluation.baselines.forecasting import Oracle
from pacesetter.evaluation.statistics.metrics import ended_growth
from pacesetter.market.parameters import BPS, MarketParameters
from pacesetter.policies.policy import Snapshot
from pacesetter.truth import Truth

__all__ = [
    "DecayProblem",
    "OracleClosed",
    "WorldGoal",
    "cushion_growth",
    "cushion_shares",
    "play_cushion",
]


@dataclass(frozen=True)
class WorldGoal:
    """What a world with a closed form asks for, per bar.

    aversion   of mean − aversion / 2 · variance of net returns        limit   drawdown at which the account ends, in
                                                                               cash; what counts is its log growth
    """

    aversion: float = 0.0
    limit: float = 0.0

    def worth(self, returns: Array) -> float:
        """Of net returns (bar,)."""
        if self.limit:
            return ended_growth(returns, self.limit)
        return float(returns.mean() - 0.5 * self.aversion * returns.var())


@dataclass(frozen=True, eq=False)
class DecayProblem:
    """One symbol with signals f that predict its next return, Σ f, and keep a share of themselves from bar to bar.

    E Σ_t (1 − ρ)^(t+1) · (x_t · Σ f_t − γ/2 · σ² · x_t²) − (1 − ρ)^t / 2 · λ · σ² · (x_t − x_{t−1})²

    persistence   (signal,) share of each signal that is left after a bar
    aversion γ, cost λ, discount ρ, variance σ²
    """

    persistence: Array
    variance: float
    aversion: float = 10.0
    cost: float = 50.0
    discount: float = 0.0

    def __post_init__(self) -> None:
        if not (self.variance > 0 and self.aversion > 0 and self.cost > 0 and 0 <= self.discount < 1):
            raise ConfigError(
                f"decay: variance={self.variance}, aversion={self.aversion} and cost={self.cost} must be above 0, and "
                f"discount={self.discount} at least 0 and below 1"
            )

    @property
    def curvature(self) -> float:
        """a: a/λ is the part of the way to the aim that is traded in a bar."""
        kept, aversion, cost = 1 - self.discount, self.aversion, self.cost
        # aversion · (1 − ρ) + λ · ρ, as in the paper's equation for a.
        slope = aversion * kept + cost * self.discount
        return (math.sqrt(slope**2 + 4 * aversion * cost * kept**2) - slope) / (2 * kept)

    @property
    def speed(self) -> float:
        """Part of the way to the aim that is traded in a bar."""
        return self.curvature / self.cost

    def aim(self, signals: Array) -> Array:
        """(time,) position to move towards, from (signal, time) signals."""
        trust = 1 / (1 + (1 - self.persistence) * self.curvature / self.aversion)
        wanted: Array = trust @ signals / (self.aversion * self.variance)
        return wanted

    def positions(self, signals: Array) -> Array:
        """(time,) the optimal positions from 0 on."""
        held, path = 0.0, np.zeros(signals.shape[1])
        for t, aim in enumerate(self.aim(signals)):
            held += self.speed * (aim - held)
            path[t] = held
        return path

    def utility(self, positions: Array, signals: Array) -> float:
        """Mean–variance utility a bar, after costs, of any (time,) positions; by expected returns, without noise."""
        traded = np.diff(positions, prepend=0.0)
        risk = 0.5 * self.aversion * self.variance * positions**2
        return float(np.mean(positions * signals.sum(axis=0) - risk - 0.5 * self.cost * self.variance * traded**2))


def cushion_shares(drift: Array, covariance: Array, equity: float, highest: float, limit: float) -> Array:
    """(symbol,) shares of equity with the highest growth while equity stays above `limit` · highest.

    w = Σ⁻¹ μ · (1 − limit · highest / equity)
    """
    if not 0 <= limit < 1:
        raise ConfigError(f"cushion: limit={limit} must be at least 0 and below 1")
    cushion = max(1 - limit * highest / equity, 0.0)
    shares: Array = np.linalg.solve(covariance, drift) * cushion
    return shares


def cushion_growth(drift: Array, covariance: Array, limit: float) -> float:
    """Long-run growth of log equity a unit of time by that rule: (1 − limit) · μ'Σ⁻¹μ / 2."""
    return float((1 - limit) * drift @ np.linalg.solve(covariance, drift) / 2)


def play_cushion(
    returns: Array, drift: Array, covariance: Array, limit: float, scale: float = 1.0
) -> tuple[float, bool]:
    """(mean log growth a bar, whether the account lived) of `scale` times the rule over (time, symbol) simple returns.

    An account that touches its limit ends there, in cash.
    """
    equity = highest = 1.0
    for row in returns:
        equity *= 1 + scale * float(cushion_shares(drift, covariance, equity, highest, limit) @ row)
        if equity <= limit * highest:
            return math.log(max(equity, 1e-300)) / len(returns), False
        highest = max(highest, equity)
    return math.log(equity) / len(returns), True


@dataclass(eq=False)
class OracleClosed(Oracle):
    """Plays the closed form of the world it is in, knowing what followers respond to; variances are counted."""

    name: ClassVar[str] = "oracle_closed"
    goal: WorldGoal = WorldGoal()
    impact: float = 0.0
    capital: float = 1e5

    @classmethod
    def for_goal(cls, goal: WorldGoal, truth: Truth | None, market: MarketParameters) -> OracleClosed:
        """The oracle of a world; refuses a market without what the formula reads."""
        if truth is None or (not goal.limit and truth.signals is None):
            raise DataError(
                f"{cls.name} reads the signals that a world is the sum of, and this market has none; give "
                "data.world=decay, or data.world=cushion with a limit"
            )
        made = cls(goal=goal, impact=market.costs.impact_bps * BPS, capital=market.initial_cash)
        made.truth = truth
        return made

    def decide(self, snapshot: Snapshot) -> Array:
        if snapshot.t == snapshot.first:
            self.variance = np.nanvar(recent_returns(snapshot.panel, len(snapshot.panel)), axis=0)
            self.problems = None if self.goal.limit else self._decay_problems(snapshot)
        if self.problems is None:
            return self._above_limit(snapshot)
        held = snapshot.observation["position"][:, PositionEntry.WEIGHT]
        signals = self._signals()[:, snapshot.t + 1]
        aims = [float(each.aim(part[:, None])[0]) for each, part in zip(self.problems, signals.T, strict=True)]
        speeds = np.array([each.speed for each in self.problems])
        return np.asarray(held + speeds * (np.array(aims) - held))

    def _above_limit(self, snapshot: Snapshot) -> Array:
        equity = 1.0 - float(snapshot.observation["portfolio"][PortfolioEntry.DRAWDOWN])
        return cushion_shares(
            self.forecast(snapshot), np.diag(self.variance), equity, highest=1.0, limit=1 - self.goal.limit
        )

    def _decay_problems(self, snapshot: Snapshot) -> list[DecayProblem]:
        """One a symbol: impact · traded² / depth is ½ · λσ² · traded², depth what a bar trades, in capitals."""
        panel, signals = snapshot.panel, self._signals()
        depth = np.mean(panel.close[:-1] * panel["volume"][1:], axis=0) / self.capital
        # The share of each that is left a bar later, of all symbols together: it is known to an oracle.
        kept = (signals[:, 1:] * signals[:, :-1]).sum((1, 2)) / np.square(signals).sum((1, 2))
        return [
            DecayProblem(kept, float(variance), self.goal.aversion, float(2 * self.impact / (room * variance)))
            for variance, room in zip(self.variance, depth, strict=True)
        ]

    def _signals(self) -> Array:
        assert self.truth is not None, "an oracle is made by `knowing`"
        assert self.truth.signals is not None, "of worlds"
        return self.truth.signals
