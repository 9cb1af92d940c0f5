"""Responses that five linear lags do not see, or that ask for planning: what a follower answers to in each world.

With z a leader's own move in bar t − delay, in units of its volatility v, and d a typical day's volatility:

    threshold    only large moves lead                0.7 · z · v  where |z| > `large_move`
    regime       the sign turns with volatility       0.45 · z · d, negative after a bar of a regime above 1
    product      two leaders together                 0.45 · z₁ · cut(z₂, ±3) · d
    fading       relations come and go                0.7 · max(cos(2π t / `fading_bars` + phase), 0) · z · v
    persistent   a slow response                      1.3 · f · d, f the mean of z, weights falling by `persistence`
    impact       plain; fills move the price          0.4 · z · v
    decay        a fast and a slow signal             0.15 · f · d by `fast` + 0.6 · f · d by `persistence`; the same
                                                      money is traded in every bar, so that impact has one rate
    cushion      a drift that is worth holding        0.02 · d; the account ends at a drawdown limit

All of them are divided by `difficulty`. Each is known at the close of the bar before.

With `fading_state` the fading of all relations is seen: log volatility moves by ±`fading_state` with the cosine, whose
phase all share, and while it is below 0 other leaders lead, who fade in and out alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, check_range
from pacesetter.truth import Relations

__all__ = ["STRENGTHS", "Leads", "PlantedWorld", "slow_mean"]

STRENGTHS = {
    "threshold": 0.7,
    "regime": 0.45,
    "product": 0.45,
    "fading": 0.7,
    "persistent": 1.3,
    "impact": 0.4,
    "decay": 0.6,
    "cushion": 0.02,
}
FAST_STRENGTH = 0.15  # of decay's fast signal, whose slow one has that above
LARGEST_SECOND_MOVE = 3.0  # of product's second leader


@dataclass(frozen=True, eq=False)
class Leads:
    """What leaders did, (time, symbol): own moves in units of volatility, and that volatility.

    wild    (time,) whether a bar's regime is above the common volatility
    daily   volatility of a typical bar
    """

    moves: Array
    volatility: Array
    wild: Array
    daily: float


@dataclass(frozen=True)
class PlantedWorld:
    """A kind of response with its difficulty.

    difficulty    1 as recorded; 2 halves the response        large_move    of threshold, in units of volatility
    fading_bars   from one height of a relation to the next   persistence   share of a slow signal left after a bar,
    fast          and that of decay's fast one              fading_state  by which log volatility shows the fading
    """

    name: str
    difficulty: float = 1.0
    large_move: float = 1.5
    fading_bars: float = 1200.0
    persistence: float = 0.9
    fast: float = 0.5
    fading_state: float = 0.0

    def __post_init__(self) -> None:
        check_range(1e-6, 1e6, owner="data", difficulty=self.difficulty)
        check_range(0, 100, owner="data", large_move=self.large_move)
        check_range(2, 1e9, owner="data", fading_bars=self.fading_bars)
        check_range(0, 0.9999, owner="data", persistence=self.persistence, fast=self.fast)
        check_range(0, 5, owner="data", fading_state=self.fading_state)

    def check_leaders(self, leaders: int) -> None:
        """Refuse another number of leaders than the world has."""
        needed = 2 if self.name == "product" else 1
        if leaders != needed:
            raise ConfigError(f"data.world={self.name} has groups of {needed} leaders; give data.leaders={needed}")

    def cosine(self, bars: int) -> Array:
        """(time,) of the fading that all relations share."""
        wave: Array = np.cos(2 * math.pi * np.arange(bars) / self.fading_bars)
        return wave

    def respond(
        self, schedule: Sequence[Relations], leads: Leads, generator: np.random.Generator
    ) -> tuple[Array, Array]:
        """(time, symbol) responses, and (signal, time, symbol) what they sum; `fading_state` has two sets."""
        phases = 2 * math.pi * generator.random(len(schedule[0].lags))
        turns = [np.full(len(phases), k * math.pi) if self.fading_state else phases for k in range(len(schedule))]
        signals = np.sum([self._signals(*each, leads) for each in zip(schedule, turns, strict=True)], axis=0)
        return signals.sum(axis=0), signals

    def _signals(self, relations: Relations, phases: Array, leads: Leads) -> Array:
        """(signal, time, symbol) of one set of relations."""
        response = np.zeros((2 if self.name == "decay" else 1, *leads.moves.shape))
        for follower in np.flatnonzero(relations.lags > 0):
            delay, columns = int(relations.lags[follower]), relations.leaders[follower]
            z, v = _lag_values(leads.moves[:, columns], delay), _lag_values(leads.volatility[:, columns[0]], delay)
            answer = np.stack(self._answer(z, v, leads, phases[follower]))
            response[:, :, follower] = relations.signs[follower] * answer / self.difficulty
        return response

    def _answer(self, z: Array, v: Array, leads: Leads, phase: float) -> tuple[Array, ...]:
        strength, move, bars = STRENGTHS[self.name], z[:, 0], np.arange(len(z))
        match self.name:
            case "threshold":
                return (strength * move * (np.abs(move) > self.large_move) * v,)
            case "regime":
                return (strength * move * leads.daily * _lag_values(np.where(leads.wild, -1.0, 1.0), 1),)
            case "product":
                return (strength * move * z[:, 1].clip(-LARGEST_SECOND_MOVE, LARGEST_SECOND_MOVE) * leads.daily,)
            case "fading":
                return (strength * np.maximum(np.cos(2 * math.pi * bars / self.fading_bars + phase), 0) * move * v,)
            case "persistent":
                return (strength * leads.daily * slow_mean(move, self.persistence),)
            case "decay":
                slow = strength * slow_mean(move, self.persistence)
                return FAST_STRENGTH * slow_mean(move, self.fast) * leads.daily, slow * leads.daily
            case "cushion":
                return (np.full(len(z), strength * leads.daily),)
            case _:
                return (strength * move * v,)


def slow_mean(moves: Array, persistence: float) -> Array:
    """(time,) f_t = persistence · f_{t−1} + (1 − persistence) · move_t, from 0."""
    mean: Array = (1 - persistence) * moves
    for t in range(1, len(mean)):
        mean[t] += persistence * mean[t - 1]
    return mean


def _lag_values(values: Array, bars: int) -> Array:
    """Values of `bars` bars ago along the first axis; 0 before the first."""
    past = np.zeros_like(values)
    past[bars:] = values[:-bars]
    return past
