"""`granger`: a sparse vector autoregression, so that each link is what one symbol adds to all others.

x_j(t) = Σ_l Σ_i β_l[i, j] x_i(t − l) + e. The lasso chooses which predictors there are, with the penalty of Belloni,
Chen, Chernozhukov and Hansen (2012): the level that none of the N·N·L predictors of pure noise reaches in 95 of 100
windows, in units of each predictor's own standard error. Least squares on the chosen ones then gives the coefficients
and their heteroskedasticity-robust t-statistics. Increments have unit variance, so a coefficient is a strength.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import check_range
from pacesetter.leadlag.estimators.correlation import ABSOLUTE_SUM, DIFFERENCE, ConditionalWindows, ScoreRecipe
from pacesetter.leadlag.estimators.estimator import Estimator, Resources, Scorer
from pacesetter.leadlag.lasso import lasso
from pacesetter.leadlag.series import Series

__all__ = ["Granger", "GrangerWindows", "sparse_autoregression"]

REFITS = 2  # penalty loadings are measured again on the residuals


@dataclass(frozen=True)
class Granger(Estimator):
    """Σ_l |β_l[i, j]| − Σ_l |β_l[j, i]| of a vector autoregression by lasso, refitted by least squares."""

    max_lag: Annotated[int, "longest delay"] = 5
    chance: Annotated[float, "probability that a window of pure noise has any link; it sets the penalty"] = 0.05

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of lags 1 … max_lag; refuses a chance outside (0, 1)."""
        resources.refuse_backends("granger")
        check_range(1e-9, 1 - 1e-9, owner="lag", chance=self.chance)
        return GrangerWindows(series, ScoreRecipe(self.max_lag, ABSOLUTE_SUM, DIFFERENCE), self.chance)


class GrangerWindows(ConditionalWindows):
    """Sparse autoregressions of one window at a time."""

    def __init__(self, series: Series, recipe: ScoreRecipe, chance: float) -> None:
        super().__init__(series, self._coefficients, recipe)
        self.chance = chance

    def statistics(self, end: int, lookback: int) -> Array:
        """(lag, i, j) robust t-statistic of x_i(t − lag) for x_j(t) given what else was chosen; 0 where it was not."""
        return sparse_autoregression(self.series.window(end, lookback), self.recipe.max_lag, self.chance)[1]

    def _coefficients(self, window: Array, lags: Any) -> Any:
        return iter(sparse_autoregression(window, len(lags), self.chance)[0] if len(lags) else ())


def sparse_autoregression(window: Array, lags: int, chance: float = 0.05) -> tuple[Array, Array]:
    """(lag, i, j) coefficients and robust t-statistics of increments (time, symbol); 0 where not chosen."""
    from scipy.special import ndtri  # here: it takes 0.3 s, and every command imports this module

    bars, symbols = window.shape
    lags = max(min(lags, bars - 2), 1)
    centred = window - window.mean(axis=0)
    deviation = centred.std(axis=0)
    x = centred / np.where(deviation > 0, deviation, np.inf)
    past = np.hstack([x[lags - lag : bars - lag] for lag in range(1, lags + 1)])  # column (lag − 1)·N + i
    now = x[lags:]
    gram, moments, squares = past.T @ past, past.T @ now, past**2
    # Two-sided Bonferroni over all N·N·L coefficients.
    level = -ndtri(chance / (2 * symbols * symbols * lags))
    coefficients, statistics = np.zeros((2, past.shape[1], symbols))
    for j in range(symbols):
        # At first nothing is explained: the target itself stands for the noise.
        residual = now[:, j]
        for _ in range(REFITS):
            # √Σx²e² is the deviation of the score Σx·e, whatever the heteroskedasticity: a predictor enters where its
            # score is beyond `level` deviations of noise.
            loadings = np.sqrt(squares.T @ residual**2)
            chosen = np.flatnonzero(lasso(gram, moments[:, [j]], level * loadings))
            # Least squares on the chosen ones, because the lasso's shrinkage biases the strengths towards 0.
            beta, residual, error = _refit(past[:, chosen], now[:, j])
        coefficients[chosen, j] = beta
        statistics[chosen, j] = np.divide(beta, error, out=np.zeros_like(beta), where=error > 0)
    shape = (lags, symbols, symbols)
    return coefficients.reshape(shape), statistics.reshape(shape)


def _refit(chosen: Array, target: Array) -> tuple[Array, Array, Array]:
    """Least-squares coefficients, residuals and White's standard errors."""
    # pinv: chosen predictors may be collinear, e.g. two share classes.
    inverse = np.linalg.pinv(chosen.T @ chosen, hermitian=True)
    beta = inverse @ (chosen.T @ target)
    residual = target - chosen @ beta
    spread = chosen * residual[:, None]
    # The sandwich (XᵀX)⁻¹ Xᵀ diag(e²) X (XᵀX)⁻¹.
    error = np.sqrt(np.maximum(np.diag(inverse @ (spread.T @ spread) @ inverse), 0.0))
    return beta, residual, error
