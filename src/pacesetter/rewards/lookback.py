"""Reward components of the lookback environment, over the ledger of a chosen window.

Each is about 1 at most in size. `signal` is the honest one: it is measured out of sample. `strength`, `stability` and
`mutual_information` look at the window itself and are there to shape. The ledger has `equity_before`, `equity_change`
and `cost` too, so that the trading components that read only these (`pnl`, `differential_sharpe`, `cost`) apply.
"""

from __future__ import annotations

from enum import IntEnum

from pacesetter.rewards.component import REWARDS, component
from pacesetter.rewards.elementwise import maximum

__all__ = ["LOOKBACK", "LOOKBACK_COLUMNS", "LookbackColumn"]

# Starting weights: the signal decides, a wide switch costs a twentieth of a perfect prediction.
LOOKBACK = {"signal": 1.0, "switching": 0.05}


class LookbackColumn(IntEnum):
    """The ledger of one lookback decision; the lower-case name is the one components read."""

    PREDICTION = 0  # cosine of what the leaders push with what the followers then earn, −1 … 1
    LINK_STRENGTH = 1  # mean size of a link in the window's matrix
    RANK_AGREEMENT = 2  # cosine of the leader scores with those of the decision before; 1 at the first
    INFORMATION = 3  # leaders to followers a bar later, as a share of its maximum, chance taken off
    PLACE = 4  # of the chosen window on the logarithmic scale: 0 is the shortest there is to choose, 1 the longest
    PLACE_BEFORE = 5  # the same of the window in force before
    EQUITY_BEFORE = 6  # 1: results are fractions of capital
    EQUITY_CHANGE = 7  # of the leaders → followers strategy, fill to fill, net
    COST = 8
    THIN = 9  # 1 where the window holds too little trading


LOOKBACK_COLUMNS = tuple(column.name.lower() for column in LookbackColumn)


def signal(prediction: float) -> float:
    """How well the window's leaders predict followers over the next bars, out of sample: a cosine."""
    return prediction


def strength(link_strength: float) -> float:
    """Mean size of a link. Short windows have strong links by chance: a shaping term, no goal."""
    return link_strength


def stability(rank_agreement: float) -> float:
    """−(1 − cosine of the leader scores with those before)/2: 0 when the ranking stays, −1 when it turns over."""
    return (rank_agreement - 1.0) / 2.0


def extremity(place: float, margin: float = 0.1) -> float:
    """−1 at either bound, rising in a line on the logarithmic scale to 0 at a share `margin` of the way inside."""
    # 0.5 − |place − 0.5| is the distance to the nearer bound.
    return -maximum(1.0 - (0.5 - abs(place - 0.5)) / margin, 0.0)


def switching(place: float, place_before: float) -> float:
    """−|log(lookback / lookback before)| / log(longest / shortest): −1 from one bound to the other."""
    return -abs(place - place_before)


def follow_through(equity_change: float) -> float:
    """Return of the leaders → followers strategy on the window, fill to fill, net of costs; a fraction of capital."""
    return equity_change


def mutual_information(information: float) -> float:
    """Mutual information of leaders and followers a bar later in the window, as a share of its maximum."""
    return information


def thinness(thin: float) -> float:
    """−1 where the window holds too little trading."""
    return -thin


for _formula in (signal, strength, stability, extremity, switching, follow_through, mutual_information, thinness):
    REWARDS.add(_formula.__name__, component(_formula))
