"""Signatures of every pair of paths, to any depth and without a loop over pairs.

Of the signature of (X_i, X_j), the coefficients at the words i…ij say how the path so far of i goes with what j does
next: S(iᵏ⁻¹j) = ∫ X_iᵏ⁻¹/(k−1)! dX_j. On straight segments that is Σ_u Σ_m X_i(u)ᵐ X_i(u−1)ᵏ⁻¹⁻ᵐ ΔX_j(u) / k!, one
matrix product a level. The logarithm of the signature has Σ_m B_m h_iᵐ/m! S(iᵏ⁻¹⁻ᵐj) at the same words, h the whole
increment and B the Bernoulli numbers: with E = exp(h t), log(E)/(E − 1) generates them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import check_range
from pacesetter.leadlag.estimators.estimator import Estimator, Resources, Scorer, WindowScorer
from pacesetter.leadlag.series import Series

__all__ = ["Signature", "SignatureWindows", "log_words", "words"]


def words(path: Array, depth: int) -> Array:
    """(depth, symbol, symbol) signature coefficients at j, ij, iij … of each pair; `path` (time, symbol) from 0."""
    before, after, step = path[:-1], path[1:], np.diff(path, axis=0)
    polynomial = np.ones_like(step)
    levels = []
    for level in range(1, depth + 1):
        levels.append(polynomial.T @ step / factorial(level))
        polynomial = polynomial * before + after**level  # Σ_m after^m · before^(level−m), one degree higher
    return np.stack(levels)


def log_words(path: Array, depth: int) -> Array:
    """(depth, symbol, symbol) log-signature coefficients at j, ij, iij … in tensor words; `path` as in `words`."""
    from scipy.special import bernoulli  # here: it takes 0.3 s, and every command imports this module

    plain, numbers = words(path, depth), bernoulli(depth)
    whole = (path[-1] - path[0])[:, None]
    return np.stack(
        [
            sum(numbers[m] / factorial(m) * whole**m * plain[level - m] for m in range(level + 1))
            for level in range(depth)
        ]
    )


@dataclass(frozen=True)
class Signature(Estimator):
    """½ Σ_k S(iᵏ⁻¹j) − S(jᵏ⁻¹i), k = 2 … depth, of paths over deviation × √lookback; with `log`, of log-signatures.

    At depth 2 both are the area `levy_path` over the lookback.
    """

    depth: int = 3
    log: bool = False

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of words up to `depth`; refuses a depth below 2, which has no order of events."""
        resources.refuse_backends("signature")
        check_range(2, owner="lag", depth=self.depth)
        return SignatureWindows(series, self.depth, self.log)


class SignatureWindows(WindowScorer):
    """Signature scores of one window at a time."""

    def __init__(self, series: Series, depth: int, log: bool) -> None:
        self.series, self.depth, self.words = series, depth, log_words if log else words

    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) for one window."""
        weights = self.series.weights(end, lookback)
        bars = self.series.path[end - lookback : end + 1]
        # A random walk over deviation·√lookback ends with unit variance, so that levels of all depths compare.
        path = (bars - bars[0]) * np.nan_to_num(weights) / np.sqrt(lookback)
        # Level 1 is the net move of j alone: it has no order of events.
        leads = self.words(path, self.depth)[1:].sum(axis=0)
        out[:] = 0.5 * (leads - leads.T) + 0.0 * np.add.outer(weights, weights)
