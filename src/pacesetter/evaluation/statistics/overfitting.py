"""What is left of a Sharpe ratio once it is known how many were tried.

Sharpe ratios here are per bar. Sources: Bailey and López de Prado, "The deflated Sharpe ratio" (2014) and "The Sharpe
ratio efficient frontier" (2012); Bailey, Borwein, López de Prado and Zhu, "The probability of backtest overfitting"
(2017); Geyer, "Practical Markov chain Monte Carlo" (1992), for the effective sample.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.statistics.metrics import check_returns
from pacesetter.rewards.sharpe import SAME, sharpe

__all__ = [
    "choice_sentence",
    "deflated_sharpe",
    "effective_bars",
    "expected_best_sharpe",
    "minimum_track_record",
    "overfitting_probability",
    "probabilistic_sharpe",
]

FEWEST_BARS = 100  # below which halves of the time say nothing of a choice


def probabilistic_sharpe(
    value: float, reference: float, bars: float, skewness: float = 0.0, kurtosis: float = 3.0
) -> float:
    """Probability that the true Sharpe ratio lies above `reference`, given `value` over `bars` bars.

    Φ[(SR − SR*)·√(n−1) / √(1 − γ₃·SR + (γ₄−1)/4·SR²)]
    """
    from scipy.stats import norm  # here, as it takes a second to import

    return float(norm.cdf((value - reference) * np.sqrt(bars - 1) / _error_scale(value, skewness, kurtosis)))


def _error_scale(value: float, skewness: float, kurtosis: float) -> float:
    """Standard error of an estimated Sharpe ratio times the root of its bars."""
    # Lo (2002) for normal returns, extended by Mertens to skewness and kurtosis: fat tails and losses in jumps make a
    # ratio less certain.
    return float(np.sqrt(1.0 - skewness * value + (kurtosis - 1.0) / 4.0 * value**2))


def expected_best_sharpe(trials: int, deviation: float) -> float:
    """Sharpe ratio that the best of `trials` skilless trials reaches on average; `deviation` is that of their ratios.

    σ·[(1−γ)·Φ⁻¹(1 − 1/N) + γ·Φ⁻¹(1 − 1/(N·e))], γ the Euler–Mascheroni constant; 0 for one trial.
    """
    from scipy.stats import norm

    if trials < 2:
        return 0.0
    # The expected maximum of N normals by extreme-value theory (Gumbel): a weighted mean of two quantiles.
    quantiles = norm.ppf([1 - 1 / trials, 1 - 1 / (trials * np.e)])
    return float(deviation * np.dot([1 - np.euler_gamma, np.euler_gamma], quantiles))


def deflated_sharpe(returns: ArrayLike, trial_sharpes: ArrayLike = ()) -> float:
    """Probability that returns (time,) have more skill than the best of all trials would have by luck.

    `trial_sharpes` (trial,) are per bar, one for every trial ever made; NaN counts as a trial whose result is unknown.
    They are taken to differ at least as much as skilless ones over as many effective bars do.
    """
    sample, tried = check_returns(returns), np.asarray(trial_sharpes, dtype=np.float64)
    bars = effective_bars(sample)
    # A trial that stayed in cash, with a ratio of exactly 0, counts as one but says nothing of how ratios differ.
    known = tried[np.isfinite(tried) & (tried != 0.0)]
    # 1/√(n − 1) is the standard error of a Sharpe ratio of 0 over n bars: by luck alone trials differ so much. Without
    # this floor trials that hardly trade would shrink the spread, and more trials would make evidence easier.
    deviation = max(float(known.std(ddof=1)) if len(known) > 1 else 0.0, 1 / np.sqrt(bars - 1))
    # Bailey, López de Prado (2014): the probabilistic ratio against the expected best of N skilless trials.
    value, skewness, kurtosis = _moments(sample)
    return probabilistic_sharpe(value, expected_best_sharpe(len(tried), deviation), bars, skewness, kurtosis)


def effective_bars(returns: ArrayLike) -> float:
    """Independent bars that are worth as much as returns (time,) with their memory; from 2 to the number of bars.

    n / (1 + 2·Σρ_k) over the autocorrelations ρ_k up to the first pair ρ_2m + ρ_2m+1 that is not positive.
    """
    sample = check_returns(returns)
    count, about = len(sample), sample - sample.mean()
    if about.std() <= SAME * abs(sample.mean()):
        return float(count)
    # by Fourier transform, padded so that the end does not meet the beginning
    spectrum = np.fft.rfft(about, 2 ** int(np.ceil(np.log2(2 * count))))
    covariance = np.fft.irfft(np.abs(spectrum) ** 2)[: count // 2 * 2]
    pairs = (covariance / covariance[0]).reshape(-1, 2).sum(axis=1)
    # Geyer's initial positive sequence: later autocorrelations of a finite sample are noise.
    until = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    # Returns that turn back are not counted as more bars than there are.
    return float(np.clip(count / max(2 * pairs[:until].sum() - 1, 1.0), 2.0, count))


def minimum_track_record(returns: ArrayLike, level: float = 0.95) -> float:
    """Bars that a Sharpe ratio like that of returns (time,) takes to be above 0 at `level`; infinite if it is not."""
    from scipy.stats import norm

    sample = check_returns(returns)
    value, skewness, kurtosis = _moments(sample)
    if value <= 0:
        return float("inf")
    # The effective bars at which `probabilistic_sharpe` against 0 reaches `level`, as bars with the memory of these.
    effective = (_error_scale(value, skewness, kurtosis) * norm.ppf(level) / value) ** 2
    return float(1 + effective * len(sample) / effective_bars(sample))


def _moments(returns: Array) -> tuple[float, float, float]:
    """Sharpe ratio, skewness and kurtosis (3 for a normal); those of a normal where the returns never change."""
    spread = returns - returns.mean()
    deviation = spread.std()
    if deviation <= SAME * abs(returns.mean()):
        return 0.0, 0.0, 3.0
    z = spread / deviation
    return float(sharpe(returns)), float(np.mean(z**3)), float(np.mean(z**4))


def overfitting_probability(returns: ArrayLike, blocks: int = 16) -> float:
    """Probability that the trial which is best in one half of the time is at or below the median in the other.

    Combinatorially symmetric cross-validation of returns (time, trial): time is cut into `blocks` equal stretches (the
    first bars left out where it does not divide), and every choice of half of them is once the half that chooses.
    """
    matrix = check_returns(returns, "the trials' returns")
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise DataError("overfitting needs at least two trials; give returns (time, trial)")
    if blocks < 2 or blocks % 2 or len(matrix) < 2 * blocks:
        raise ConfigError(f"blocks={blocks} must be even and leave {len(matrix)} bars two or more each")
    # Half against half: both have as many bars, so their Sharpe ratios are equally noisy (symmetric).
    chosen, left = _halves(matrix, blocks)
    best = chosen.argmax(axis=1)[:, None]
    mark = np.take_along_axis(left, best, axis=1)
    # mean rank of the winner among all trials, ties shared: at the middle or below it the choice was worth nothing
    rank = (left < mark).sum(axis=1) + ((left == mark).sum(axis=1) + 1) / 2
    return float(np.mean(rank <= (matrix.shape[1] + 1) / 2))


def choice_sentence(returns: Array) -> str:
    """What it is worth to choose the best of returns (time, trial); empty below two trials or a hundred bars."""
    if len(returns) < FEWEST_BARS or returns.shape[1] < 2:
        return ""
    chance = overfitting_probability(returns)
    return f"the best in one half of the time is at or below the median in the other with probability {chance:.2f}."


def _halves(matrix: Array, blocks: int) -> tuple[Array, Array]:
    """(choice, trial) Sharpe ratios in the half that chooses and in the other, from sums over each block."""
    size = len(matrix) // blocks
    # The oldest bars are left out, not the newest.
    cut = matrix[len(matrix) - size * blocks :].reshape(blocks, size, -1)  # (block, bar, trial)
    members = np.zeros((len(picks := list(combinations(range(blocks), blocks // 2))), blocks))
    np.put_along_axis(members, np.array(picks), 1.0, axis=1)
    centred = cut - matrix.mean(axis=0)  # sums of squares about the mean lose no digits
    bars = size * blocks // 2

    def ratios(which: Array) -> Array:
        # Sums by block are computed once; each of the C(16, 8) = 12,870 halves is then a sum of eight of them.
        mean, square = which @ centred.sum(axis=1) / bars, which @ np.square(centred).sum(axis=1) / bars
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
        total = mean + matrix.mean(axis=0)
        sharpes: Array = np.divide(total, deviation, out=np.zeros_like(total), where=deviation > SAME * np.abs(total))
        return sharpes

    return ratios(members), ratios(1.0 - members)
