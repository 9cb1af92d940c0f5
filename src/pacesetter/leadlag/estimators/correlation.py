"""Scores from lagged dependence: `ccf_lag1`, `ccf_auc`, `ccf_peak`, `mutual_information`, `transfer_entropy`.

For each lag there is a matrix C_l[i, j] of how x_i(t−l) goes with x_j(t). The lags are folded into one number per
direction (their signed or absolute sum, or their peak), and the two directions of a pair are weighed against each
other. A lag whose overlap is shorter than two increments counts as zero.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit, prange
from pacesetter.errors import check_range
from pacesetter.leadlag.estimators.dependence import DEPENDENCES, Dependence, Inner
from pacesetter.leadlag.estimators.estimator import Estimator, Resources, Scorer, WindowScorer
from pacesetter.leadlag.estimators.information import lagged_information, lagged_transfer
from pacesetter.leadlag.estimators.products import KEPT_EVERY, lagged_products
from pacesetter.leadlag.series import CONSTANT, Series, inverse_deviations

__all__ = [
    "ABSOLUTE_SUM",
    "DIFFERENCE",
    "PEAK",
    "PUBLISHED",
    "RELATIVE",
    "SIGNED_SUM",
    "SQUARED_SUM",
    "CcfAuc",
    "CcfLag1",
    "CcfPeak",
    "CorrelationTable",
    "LaggedWindows",
    "MutualInformation",
    "ScoreRecipe",
    "TransferEntropy",
    "fold_lag",
    "part_moments",
    "weigh_directions",
]


SIGNED_SUM, ABSOLUTE_SUM, PEAK, SQUARED_SUM = 0, 1, 2, 3  # how the lags fold; the last in hayashi_yoshida alone
DIFFERENCE, PUBLISHED, RELATIVE = 0, 1, 2  # how the two directions are weighed


@dataclass(frozen=True)
class ScoreRecipe:
    """How a score is made: lags 1 … max_lag, the fold over them, and the weighing of the two directions."""

    max_lag: int
    fold: int
    weighing: int

    def __post_init__(self) -> None:
        check_range(1, owner="lag", max_lag=self.max_lag)

    def lags(self, lookback: int) -> range:
        """The lags whose overlap has two increments or more."""
        return range(1, min(self.max_lag, lookback - 2) + 1)


@dataclass(frozen=True)
class CcfLag1(Estimator):
    """corr(x_i(t−1), x_j(t)) − corr(x_j(t−1), x_i(t))."""

    inner: Inner = "pearson"

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of lag 1 alone."""
        return _correlation_scorer("ccf_lag1", self.inner, series, ScoreRecipe(1, SIGNED_SUM, DIFFERENCE), resources)


@dataclass(frozen=True)
class CcfAuc(Estimator):
    """I_ij = Σ_l |corr_l|; sign(I_ij − I_ji)·max(I_ij, I_ji)/(I_ij + I_ji), or (I_ij − I_ji)/(I_ij + I_ji).

    The first, `published`, has sizes in [0.5, 1] (0 at a tie); the second, `difference`, can be near 0.
    """

    max_lag: int = 5
    variant: Literal["published", "difference"] = "published"
    inner: Inner = "pearson"

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of lags 1 … max_lag."""
        recipe = ScoreRecipe(self.max_lag, ABSOLUTE_SUM, PUBLISHED if self.variant == "published" else RELATIVE)
        return _correlation_scorer("ccf_auc", self.inner, series, recipe, resources)


@dataclass(frozen=True)
class CcfPeak(Estimator):
    """max_l |corr_l| forward − max_l |corr_l| backward; `lags` gives the lag of the larger peak."""

    max_lag: int = 5
    inner: Inner = "pearson"

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of lags 1 … max_lag."""
        return _correlation_scorer(
            "ccf_peak", self.inner, series, ScoreRecipe(self.max_lag, PEAK, DIFFERENCE), resources
        )


@dataclass(frozen=True)
class MutualInformation(Estimator):
    """Σ_l I(x_i(t−l); x_j(t)) − I(x_j(t−l); x_i(t)) in nats, each asset in `bins` quantile bins of the window."""

    max_lag: int = 1
    bins: int = 4

    name: ClassVar[str] = "mutual_information"
    measure: ClassVar[Any] = staticmethod(lagged_information)

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of lags 1 … max_lag; refuses fewer than two bins, since one holds no information."""
        resources.refuse_backends(self.name)
        check_range(2, owner="lag", bins=self.bins)
        measure = partial(self.measure, bins=self.bins)
        return LaggedWindows(series, measure, ScoreRecipe(self.max_lag, ABSOLUTE_SUM, DIFFERENCE))


@dataclass(frozen=True)
class TransferEntropy(MutualInformation):
    """Σ_l I(x_i(t−l); x_j(t) | x_j(t−1)) less the same from j to i, in nats: net transfer entropy."""

    bins: int = 3

    name: ClassVar[str] = "transfer_entropy"
    measure: ClassVar[Any] = staticmethod(lagged_transfer)


def _correlation_scorer(method: str, inner: Inner, series: Series, recipe: ScoreRecipe, resources: Resources) -> Scorer:
    # Only moments have running sums; ranks, distances and entropies need the whole window.
    if inner not in ("pearson", "squared"):
        resources.refuse_backends(f"{method} with inner='{inner}'")
        return LaggedWindows(series, DEPENDENCES[inner], recipe)
    bars, symbols = series.x.shape
    # 8 bytes for each running product (time, lag, i, j).
    backend = resources.choose(method, bars * recipe.max_lag * symbols * symbols * 8)
    if backend == "table":
        return CorrelationTable(series, recipe, inner == "squared")
    if backend == "gemm":
        return LaggedWindows(series, DEPENDENCES[inner], recipe)
    from pacesetter.leadlag.estimators.torch_backend import TorchCorrelation

    return TorchCorrelation(series, recipe, inner == "squared", resources)


class ScorerByLag(WindowScorer):
    """One whose scores come from a dependence at each of some lags, as its recipe says."""

    recipe: ScoreRecipe

    @abstractmethod
    def correlations(self, end: int, lookback: int) -> Array:
        """(lag, symbol, symbol) dependence of x_j(t) on x_i(t−lag), lags from 1."""


class LaggedWindows(ScorerByLag):
    """Scores of one window at a time from any dependence."""

    def __init__(self, series: Series, dependence: Dependence, recipe: ScoreRecipe) -> None:
        self.series, self.dependence, self.recipe = series, dependence, recipe

    def correlations(self, end: int, lookback: int) -> Array:
        """(lag, symbol, symbol) dependence of x_j(t) on x_i(t−lag), lags from 1."""
        lags = self.recipe.lags(lookback)
        symbols = len(self.series.symbols)
        return np.array([*self.dependence(self.series.window(end, lookback), lags)]).reshape(-1, symbols, symbols)

    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) for one window."""
        out[:] = 0.0
        for correlation in self.correlations(end, lookback):
            fold_lag(correlation, self.recipe.fold, out)
        weigh_directions(out, self.series.weights(end, lookback), self.recipe.weighing)

    def lags(self, end: int, lookback: int) -> Array:
        """(symbol, symbol) lag in bars of the larger peak: positive where i leads j, NaN where not scored."""
        sizes = np.abs(self.correlations(end, lookback))
        # A window of two increments has no lag with an overlap of two.
        if len(sizes) == 0:
            sizes = np.zeros((1, *sizes.shape[1:]))
        peak, lag = sizes.max(axis=0), sizes.argmax(axis=0) + 1.0
        signed = np.where(peak > peak.T, lag, np.where(peak < peak.T, -lag.T, 0.0))
        weights = self.series.weights(end, lookback)
        # 0·weight spreads the NaN of assets that cannot be scored.
        return signed + 0.0 * np.add.outer(weights, weights)


class ConditionalWindows(LaggedWindows):
    """Those whose coefficients are given all other symbols."""

    @abstractmethod
    def statistics(self, end: int, lookback: int) -> Array:
        """(lag, i, j) statistic of x_i(t − lag) for x_j(t) given all others; 0 where it was not chosen."""


class CorrelationTable(LaggedWindows):
    """Scores from a table of running lagged products, see `LaggedProducts`: two look-ups a pair and lag."""

    batched: ClassVar[bool] = True
    backend = "table"

    def __init__(self, series: Series, recipe: ScoreRecipe, square: bool) -> None:
        super().__init__(series, DEPENDENCES["squared" if square else "pearson"], recipe)
        self.products = lagged_products(series.x, recipe.max_lag)
        self.table_bytes = self.products.nbytes
        self._arguments = (series.totals, series.minimum, square, recipe.fold, recipe.weighing)

    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) for one window."""
        start, table = end - lookback, self.products
        if table.is_whole:
            places = table.held, end, start
        elif table.count_missing(start, end) <= KEPT_EVERY:
            table.hold(start, end)
            places = table.held, end - table.first, start - table.first
        else:
            bars = np.minimum(np.arange(start, start + table.max_lag + 1), end)
            places = table.rows(np.append(bars, end)), len(bars), 0
        arguments: tuple[Any, ...] = (*places, *self._arguments, end, lookback, out)
        _correlation_window(*arguments)

    def score_many(self, ends: Array, lookbacks: Array, out: Array) -> None:
        """Fill `out` (window, symbol, symbol), windows in parallel."""
        if self.products.is_whole:
            _correlation_windows(self.products.held, 0, *self._arguments, ends, lookbacks, np.arange(len(ends)), out)
            return
        for windows in _spans(ends, lookbacks, self.products.capacity):
            self._score_span(ends, lookbacks, windows, out)

    def _score_span(self, ends: Array, lookbacks: Array, windows: Array, out: Array) -> None:
        """Fill `out[windows]`, whose bars lie within one span, unless the rows of few windows cost less alone."""
        first, last, table = int((ends - lookbacks)[windows].min()), int(ends[windows].max()), self.products
        if table.count_missing(first, last) <= KEPT_EVERY * len(windows) and last - first < table.capacity:
            table.hold(first, last)
            _correlation_windows(table.held, table.first, *self._arguments, ends, lookbacks, windows, out)
            return
        for k in windows.tolist():
            self.score(int(ends[k]), int(lookbacks[k]), out[k])


def _spans(ends: Array, lookbacks: Array, capacity: int) -> Iterator[Array]:
    """Places of the windows in order of their ends, in groups that lie within `capacity` bars; a longer one alone."""
    order = np.argsort(ends, kind="stable")
    starts = (ends - lookbacks)[order]
    group_start, first = 0, int(starts[0]) if len(order) else 0
    for place in range(1, len(order)):
        earliest = min(first, int(starts[place]))
        if int(ends[order[place]]) - earliest >= capacity:
            yield order[group_start:place]
            group_start, first = place, int(starts[place])
        else:
            first = earliest
    if len(order):
        yield order[group_start:]


@njit(cache=True)
def part_moments(totals: Array, begin: int, end: int, mean: Array, scale: Array) -> None:
    """Sum / √count and 1/√(Σ(x − mean)²) of each asset's increments in (begin, end]; scale 0 where constant."""
    for i in range(mean.size):
        square = totals[end, 1, i] - totals[begin, 1, i]
        # Σx/√n instead of Σx/n: the covariance is then Σxy less the product of two such terms, and n cancels.
        mean[i] = (totals[end, 0, i] - totals[begin, 0, i]) / np.sqrt(end - begin)
        variance = square - mean[i] * mean[i]
        scale[i] = 1.0 / np.sqrt(variance) if variance > CONSTANT * square else 0.0


@njit(cache=True)
def _correlation_window(
    products: Array,
    until_row: int,
    begin_row: int,
    totals: Array,
    minimum: int,
    square: bool,
    fold: int,
    weighing: int,
    end: int,
    lookback: int,
    out: Array,
) -> None:
    symbols = out.shape[0]
    start = end - lookback
    correlation = np.empty((symbols, symbols))
    lead, lead_scale, follow, follow_scale = np.empty((4, symbols))
    out[:] = 0.0
    for lag in range(1, min(products.shape[1], lookback - 2) + 1):
        part_moments(totals, start, end - lag, lead, lead_scale)
        part_moments(totals, start + lag, end, follow, follow_scale)
        # From start + lag: a product belongs to the window only when its leading bar, `lag` earlier, does too.
        until, begin = products[until_row, lag - 1], products[begin_row + lag, lag - 1]
        for i in range(symbols):
            for j in range(symbols):
                covariance = until[i, j] - begin[i, j] - lead[i] * follow[j]
                correlation[i, j] = covariance * lead_scale[i] * follow_scale[j]
        if square:
            correlation *= correlation
        fold_lag(correlation, fold, out)
    inverse_deviations(totals, end, lookback, minimum, lead_scale)
    weigh_directions(out, lead_scale, weighing)


@njit(parallel=True, cache=True)
def _correlation_windows(
    products: Array,
    first: int,
    totals: Array,
    minimum: int,
    square: bool,
    fold: int,
    weighing: int,
    ends: Array,
    lookbacks: Array,
    windows: Array,
    out: Array,
) -> None:
    for place in prange(windows.size):
        k = windows[place]
        until, begin = ends[k] - first, ends[k] - lookbacks[k] - first
        _correlation_window(
            products, until, begin, totals, minimum, square, fold, weighing, ends[k], lookbacks[k], out[k]
        )


@njit(cache=True)
def fold_lag(correlation: Array, fold: int, out: Array) -> None:
    """Take one lag's matrix into what `out` holds of the lags before."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            if fold == SIGNED_SUM:
                out[i, j] += correlation[i, j]
            elif fold == ABSOLUTE_SUM:
                out[i, j] += abs(correlation[i, j])
            else:
                out[i, j] = max(out[i, j], abs(correlation[i, j]))


@njit(cache=True)
def weigh_directions(out: Array, weights: Array, weighing: int) -> None:
    """Turn the folded directions in `out` into the antisymmetric score, NaN for assets whose weight is NaN."""
    for i in range(out.shape[0]):
        out[i, i] = 0.0 * weights[i]
        for j in range(i):
            forward, backward = out[i, j], out[j, i]
            score = forward - backward
            if weighing != DIFFERENCE:
                total = forward + backward
                if weighing == PUBLISHED:
                    score = np.sign(score) * max(forward, backward)
                score = score / total if total > 0 else 0.0
            score += 0.0 * (weights[i] + weights[j])
            out[i, j], out[j, i] = score, -score
