"""The annualised Sharpe ratio: one definition for environments, learners and evaluation, for any form of returns.

It is the mean over the standard deviation with n − 1, and 0 of fewer than two returns and of those that never change,
as those of cash. A risk-free rate is never taken off.
"""

from __future__ import annotations

import math

import numpy as np

from pacesetter.arrays import Floats

__all__ = ["SAME", "sharpe", "sharpe_of_known", "sharpe_of_sums"]

SAME = 1e-9  # of the mean: a deviation below it is rounding, e.g. of interest on cash


def sharpe(returns: Floats, bars_per_year: float = 1.0) -> Floats:
    """The ratio of returns (time,), or (many,) ratios of returns (time, many)."""
    if len(returns) < 2:
        return np.zeros(np.shape(returns)[1:])
    mean, deviation = np.mean(returns, axis=0), np.std(returns, axis=0, ddof=1)
    # Without a bound a riskless account would have a Sharpe ratio of mean over rounding error.
    moves = deviation > SAME * np.abs(mean)
    per_bar = np.divide(mean, deviation, out=np.zeros_like(mean), where=moves)
    return np.asarray(per_bar * np.sqrt(bars_per_year))


def sharpe_of_known(returns: Floats, bars_per_year: float = 1.0) -> Floats:
    """(many,) Sharpe ratios of returns (time, many), leaving out NaN."""
    return np.array([sharpe(column[~np.isnan(column)], bars_per_year) for column in returns.T])


def sharpe_of_sums(count: float, total: float, squares: float, bars_per_year: float = 1.0) -> float:
    """The Sharpe ratio of `count` returns from Σr and Σr²."""
    if count < 2:
        return 0.0
    mean = total / count
    # Σr² − n·mean² cancels when returns hardly vary, and may come out below 0.
    variance = max(squares - count * mean**2, 0.0) / (count - 1)
    moves = variance > SAME * mean**2  # less than this is what the two sums have lost to rounding
    return mean / math.sqrt(variance) * math.sqrt(bars_per_year) if moves else 0.0
