"""An oracle that plans: dynamic programming on a grid of signal and position, for one symbol at a time.

V_n(s, h) = max_w  w · s − λ/2 · σ² · w² − cost(|w − h|) + E V_{n−1}(s', w),    s' = p · s + noise

The cost is proportional, with the square-root impact of a fill where the market has one. The signal is the planted
response; p and the noise are counted on the bars known at the first decision, and so is the λ that earns most there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.evaluation.baselines.baseline import recent_returns
from pacesetter.evaluation.baselines.forecasting import LEAST_BARS, fill_returns
from pacesetter.evaluation.baselines.sized import VOLATILITY_BARS, OracleSized, recent_volatility
from pacesetter.policies.policy import Snapshot

__all__ = ["OraclePlanned", "plan", "transition_of"]

SIGNALS, POSITIONS, WIDTH = 41, 31, 4.0  # points of the grids, and deviations that the signal's reaches to
AVERSIONS = 2.0 ** np.arange(0, 9)
BARS_AHEAD = 60


def plan(signals: Array, levels: Array, transition: Array, risk: float, costs: Array, bars: int) -> tuple[Array, Array]:
    """(choice (signal, held level) of the level to hold now, its value) with `bars` bars to go.

    signals      (s,) expected return of the next bar        levels   (w,) shares of equity
    transition   (s, s) chance from row to column            risk     λ · σ²
    costs        (w, w) of going from row to column
    """
    reward = signals[:, None] * levels - 0.5 * risk * levels**2  # (s, w)
    value = np.zeros((len(signals), len(levels)))
    choice = np.zeros(value.shape, dtype=int)
    for _ in range(bars):
        # (s, h, w): what is left after trading from h to w, and what w is worth from the next bar on.
        total = (reward + transition @ value)[:, None, :] - costs
        choice, value = total.argmax(axis=2), total.max(axis=2)
    return choice, value


def transition_of(signals: Array, persistence: float, deviation: float) -> Array:
    """(s, s) chances of a signal that keeps `persistence` of itself and gets normal noise, on an even grid."""
    gaps = (signals - persistence * signals[:, None]) / max(deviation, 1e-12)
    # Never all 0: the nearest point has the smallest gap.
    chances = np.exp(-0.5 * (gaps**2 - (gaps**2).min(axis=1, keepdims=True)))
    shares: Array = chances / chances.sum(axis=1, keepdims=True)
    return shares


@dataclass(eq=False)
class OraclePlanned(OracleSized):
    """The planted response, traded by the plan of each symbol; `oracle_sized` looks one bar ahead."""

    name: ClassVar[str] = "oracle_planned"
    levels: Array = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    grids: Array = field(default_factory=lambda: np.zeros((0, 0)), init=False, repr=False)  # (symbol, s)
    choices: Array | None = field(default=None, init=False, repr=False)  # (symbol, s, held) level to hold

    def decide(self, snapshot: Snapshot) -> Array:
        if snapshot.t == snapshot.first:
            self._plan(snapshot)
        held, trades = snapshot.observation["position"][:, PositionEntry.WEIGHT], snapshot.panel.mask[snapshot.t]
        if self.choices is None:
            return np.where(held != 0, 0.0, np.nan)
        now = self._places(held)
        wanted = self._plan_targets(self.choices, self.forecast(snapshot), now)
        return np.where(trades & (wanted != now), self.levels[wanted], np.nan)

    def _plan(self, snapshot: Snapshot) -> None:
        panel = snapshot.panel
        if len(panel) < LEAST_BARS:
            return
        earned, responses = fill_returns(panel), self._response()[1 : snapshot.t + 2]
        volatility = recent_volatility(recent_returns(panel, len(panel)))
        variances = np.array([np.mean(part[np.isfinite(part)] ** 2) for part in volatility.T])
        depth = np.median(self._depth(panel), axis=0)
        self.levels = np.linspace(self.lowest, self.size, POSITIONS)
        sizes = np.abs(self.levels - self.levels[:, None])
        spreads = np.maximum(responses.std(axis=0), 1e-9)
        self.grids = spreads[:, None] * np.linspace(-WIDTH, WIDTH, SIGNALS)
        kept = (responses[1:] * responses[:-1]).sum(axis=0) / np.maximum((responses**2).sum(axis=0), 1e-18)
        best = 0.0
        for aversion in AVERSIONS:
            choices = np.stack(
                [
                    plan(
                        grid,
                        self.levels,
                        transition_of(grid, share, spread * np.sqrt(max(1 - share**2, 1e-6))),
                        aversion * variance,
                        sizes * self.cost + self.impact * sizes**1.5 / np.sqrt(room),
                        BARS_AHEAD,
                    )[0]
                    for grid, share, spread, variance, room in zip(
                        self.grids, kept, spreads, variances, depth, strict=True
                    )
                ]
            )
            ratio = self._ratio(choices, responses[VOLATILITY_BARS:], earned[VOLATILITY_BARS:], depth)
            if ratio > best:
                best, self.choices = ratio, choices

    def _ratio(self, choices: Array, responses: Array, earned: Array, depth: Array) -> float:
        """Net Sharpe ratio a bar of the plans on known bars."""
        held, nets = self._places(np.zeros(len(choices))), np.zeros(len(responses))
        for t, (response, gains) in enumerate(zip(responses, np.nan_to_num(earned), strict=True)):
            wanted = self._plan_targets(choices, response, held)
            traded = np.abs(self.levels[wanted] - self.levels[held])
            nets[t] = self.levels[wanted] @ gains - (traded * (self.cost + self.impact * np.sqrt(traded / depth))).sum()
            held = wanted
        return float(nets.mean() / nets.std()) if nets.std() > 0 else 0.0

    def _places(self, held: Array) -> Array:
        step = self.levels[1] - self.levels[0]
        places: Array = np.rint((held - self.levels[0]) / step).astype(int).clip(0, POSITIONS - 1)
        return places

    def _plan_targets(self, choices: Array, response: Array, held: Array) -> Array:
        steps = self.grids[:, 1] - self.grids[:, 0]
        places = np.rint((response - self.grids[:, 0]) / steps).astype(int).clip(0, SIGNALS - 1)
        wanted: Array = choices[np.arange(len(choices)), places, held]
        return wanted
