"""The answer of one window: for each ordered pair the strength, sign and delay by which i's past predicts j.

Leadership of i over j is the method's score: for most, the strength of i for j less that of j for i. Matrix, ranking,
links, lag map, network and strategy all read this one object; see docs/leadlag.md for the definitions and a worked
example.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacesetter.leadlag.answer.strength import StrengthMeasure, fold_delays, weigh_directions

__all__ = ["Answer", "answer_window"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Answer:
    """Who predicts whom in one window, as (symbol, symbol) matrices, NaN where a symbol cannot be scored.

    leadership  antisymmetric score of the method: positive where the row leads
    forward  strength by which the row's past predicts the column, 0 or more, 0 on the diagonal
    delays   bars after which the column follows the row most strongly; NaN for a method without delays
    signs    +1 the column follows in the same direction, −1 in the opposite, 0 where the method knows no sign
    """

    symbols: tuple[str, ...]
    method: str
    max_lag: int
    leadership: Array
    forward: Array
    delays: Array
    signs: Array

    @property
    def lag_map(self) -> Array:
        """Bars by which the row runs ahead of the column, negative where it follows; NaN without delays."""
        ahead = self.leadership
        # 0·ahead carries the NaN of unscored pairs, which the comparisons would turn into a lag of 0.
        return np.where(ahead > 0, self.delays, np.where(ahead < 0, -self.delays.T, 0.0)) + 0.0 * ahead + self._no_delay

    @property
    def _no_delay(self) -> float:
        return 0.0 if self.max_lag else np.nan

    def relation(self, leader: int, follower: int) -> str:
        """`leads, same sign`, `leads, opposite sign`, or `leads` where the method knows no sign."""
        sign = self.signs[leader, follower]
        return "leads" if not sign else f"leads, {'same' if sign > 0 else 'opposite'} sign"


def answer_window(window: Array, symbols: Sequence[str], gauge: StrengthMeasure) -> Answer:
    """The answer for prepared increments (time, symbol) by the gauge's method."""
    if not gauge.has_lags:
        score = gauge.scores(window[None])[0]
        blank = np.full(score.shape, np.nan)
        # What leads no other symbol has a strength of 0.
        return Answer(tuple(symbols), gauge.method, 0, score, np.maximum(score, 0.0), blank, np.zeros(score.shape))
    cube = gauge.dependence(window[None])[0]
    unscored = gauge.mark_unscored(window[None])[0]
    forward = fold_delays(cube, gauge.fold) + unscored
    leadership = weigh_directions(fold_delays(cube, gauge.score_fold) + unscored, gauge.weighing)
    # Autocorrelation is not a lead; 0·x keeps the NaN of a symbol that cannot be scored.
    np.fill_diagonal(forward, 0.0 * np.diag(forward))
    # Delay l is in row l − 1; at a tie argmax takes the shortest delay.
    place = np.abs(cube).argmax(axis=0)
    peak = np.take_along_axis(cube, place[None], axis=0)[0]
    signs = np.sign(peak) if gauge.is_signed else np.zeros(forward.shape)
    return Answer(tuple(symbols), gauge.method, gauge.max_lag, leadership, forward, place + 1.0 + 0.0 * forward, signs)
