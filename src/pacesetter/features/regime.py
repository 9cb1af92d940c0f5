"""Ten regime indicators, each bounded by construction, and the regime that a symbol is in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pacesetter.arrays import Array, Floats
from pacesetter.features.feature import FEATURES, on_observed, symbolwise
from pacesetter.features.rolling import (
    ratio,
    rolling_correlation,
    rolling_max,
    rolling_mean,
    rolling_rank,
    rolling_std,
    rolling_sum,
)
from pacesetter.features.technical import log_return
from pacesetter.panel import Panel

__all__ = ["REGIMES", "regime_labels"]


REGIMES = ("bull", "bear", "sideways", "high_volatility")
BULL, BEAR, SIDEWAYS, HIGH_VOLATILITY = range(4)
WARMING_UP = -1

SHORT, LONG, HISTORY = 20, 50, 120  # bars
HIGH_RANK = 0.8  # volatility above four fifths of its recent history
DIRECTION = 0.5  # of a bound of 1: the move is 0.55 deviations of a random walk


def _contrast(short: Floats, long: Floats) -> Floats:
    """(short − long) / (short + long): −1 … 1 for quantities that are not negative."""
    return ratio(short - long, short + long)


def volatility_rank(close: Floats) -> Floats:
    """Rank of today's volatility within its own recent history; [0, 1]."""
    # Ranked within the symbol's own past: no level of volatility is high for every asset.
    return rolling_rank(rolling_std(log_return(close, 1), SHORT), HISTORY)


def volatility_change(close: Floats) -> Floats:
    """Short against long volatility; [-1, 1], above 0 when markets heat up."""
    steps = log_return(close, 1)
    return _contrast(rolling_std(steps, SHORT), rolling_std(steps, LONG))


def downside_share(close: Floats) -> Floats:
    """Share of the squared returns that fell; [0, 1], 0.5 where nothing moved."""
    steps = log_return(close, 1)
    falls = np.minimum(steps, 0.0)
    return ratio(rolling_sum(falls**2, SHORT), rolling_sum(steps**2, SHORT), flat=0.5)


def trend_efficiency(close: Floats) -> Floats:
    """Net move over the way travelled (Kaufman); [-1, 1], ±1 for a straight line."""
    steps = log_return(close, 1)
    return ratio(rolling_sum(steps, SHORT), rolling_sum(np.abs(steps), SHORT))


def trend_fit(close: Floats) -> Floats:
    """Correlation of the log close with time; [-1, 1]."""
    time = np.broadcast_to(np.arange(close.shape[-1], dtype=float), close.shape)
    return rolling_correlation(np.log(close), time, LONG)


def trend_drawdown(close: Floats) -> Floats:
    """Close against its recent high; [-1, 0]."""
    return close / rolling_max(close, HISTORY) - 1


def momentum_short(close: Floats) -> Floats:
    """Self-normalised move over the short window; [-1, 1]."""
    return _momentum(close, SHORT)


def momentum_long(close: Floats) -> Floats:
    """Self-normalised move over the long window; [-1, 1]."""
    return _momentum(close, LONG)


def _momentum(close: Floats, bars: int) -> Floats:
    """tanh of Σr / √Σr², which is about standard normal on a random walk whatever its volatility."""
    steps = log_return(close, 1)
    return np.tanh(ratio(rolling_sum(steps, bars), np.sqrt(rolling_sum(steps**2, bars))))


def volume_level(volume: Floats) -> Floats:
    """Short against long mean volume; [-1, 1]."""
    return _contrast(rolling_mean(volume, SHORT), rolling_mean(volume, LONG))


def volume_agreement(close: Floats, volume: Floats) -> Floats:
    """Correlation of volume with the size of the move; [-1, 1]."""
    return rolling_correlation(volume, np.abs(log_return(close, 1)), SHORT)


def regime_labels(panel: Panel) -> Array:
    """(time, symbol) int8 positions in `REGIMES`; −1 while warming up and where no bar was observed.

    High volatility is named first; a calm market is a bull or a bear when its long move is large for its volatility.
    """
    labels = on_observed(_label, ("close",), panel)
    return np.where(np.isnan(labels), WARMING_UP, labels).astype(np.int8)


def _label(close: Floats) -> Floats:
    rank, direction = volatility_rank(close), momentum_long(close)
    named = np.select(
        [rank > HIGH_RANK, direction > DIRECTION, direction < -DIRECTION], [HIGH_VOLATILITY, BULL, BEAR], SIDEWAYS
    )
    return np.where(np.isnan(rank) | np.isnan(direction), np.nan, named)


_MEMORY_BARS: dict[Callable[..., Array], int] = {
    # HISTORY deviations, the first of which needs SHORT returns and so one close more.
    volatility_rank: HISTORY + SHORT,
    volatility_change: LONG + 1,
    downside_share: SHORT + 1,
    trend_efficiency: SHORT + 1,
    trend_fit: LONG,
    trend_drawdown: HISTORY,
    momentum_short: SHORT + 1,
    momentum_long: LONG + 1,
    volume_level: LONG,
    volume_agreement: SHORT + 1,
}
for _indicator, _bars in _MEMORY_BARS.items():
    _name = f"regime_{_indicator.__name__}"
    FEATURES.add(_name, symbolwise(_name, _indicator, _bars, kind="regime"))
