"""The answer of one window: for each ordered pair the strength, sign and delay by which i's past predicts j.

A method measures the dependence of x_j(t) on x_i(t − l) at each delay l, and folds the delays into one strength:

    strength of i for j     max_l |C_l[i, j]|      ccf_lag1 (one delay), ccf_peak
                            Σ_l |C_l[i, j]|        ccf_auc, mutual_information, transfer_entropy, granger
                            Σ_l C_l[i, j]²         hayashi_yoshida
    leadership              the method's published score: forward − backward; for ccf_lag1 with the sign of C, for
                            ccf_auc and hayashi_yoshida over forward + backward (`estimators.correlation`)
    delay of i for j        the l of the largest |C_l[i, j]|
    sign of i for j         that of C_l[i, j] at this delay; none where the dependence has no sign

Scores without delays (levy_path, levy_returns, signature) give a direction only: their antisymmetric score itself.

Matrix, ranking, links, lag map, network and strategy all read the one `Answer`; see docs/leadlag.md for the definitions
and a worked example.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacesetter.arrays import Array, Floats, Singles
from pacesetter.errors import ConfigError
from pacesetter.leadlag.estimators.correlation import (
    ABSOLUTE_SUM,
    DIFFERENCE,
    PEAK,
    PUBLISHED,
    SIGNED_SUM,
    SQUARED_SUM,
    CcfAuc,
    CcfLag1,
    CcfPeak,
    ConditionalWindows,
    ScorerByLag,
)
from pacesetter.leadlag.estimators.estimator import ESTIMATORS, MEGABYTE, Resources, Scorer
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.series import CONSTANT, end_to_end, required_observations
from pacesetter.registry import configure

__all__ = [
    "Answer",
    "StrengthMeasure",
    "answer_window",
    "fold_delays",
    "fold_in",
    "lagged_correlations",
    "weigh_directions",
    "weighted_products",
]

SIGNED_INNERS = ("pearson", "kendall")
READING = ("backend", "device", "increments", "residual")  # options that windows of increments do not need
UNSIGNED = ("mutual_information", "transfer_entropy")
BLOCK_MB = 64.0  # of drawn matrices in memory at once


class StrengthMeasure:
    """A method with its options, ready to measure windows of prepared increments (window, time, symbol).

    has_lags  whether it names delays; `max_lag` is then the longest
    is_signed whether the dependence has a sign, so that followers can be told from contrarians
    is_linear Pearson correlations: running sums and the closed form of the null serve it
    is_conditional  coefficients given all other symbols, with t-statistics of their own
    """

    def __init__(self, method: str, **options: Any) -> None:
        self.method = method
        own = {name: value for name, value in options.items() if name not in READING}
        # GEMM: each window (a draw of the null) is measured once, so a prefix table would not pay for itself.
        budget = own.pop("memory_budget_mb", None)
        self._resources = Resources(backend="gemm", memory_budget_mb=budget or 4096.0)
        self.block_bytes = min(budget or BLOCK_MB, BLOCK_MB) * MEGABYTE
        self.minimum = int(own.pop("min_observations", None) or 0)
        self.estimator = configure(ESTIMATORS[method], own, "lag")
        # Only a scorer knows its recipe, so one of a dummy window is asked what the method can do.
        scorer = self._scorer(np.zeros((1, 3, 2)))
        self.recipe = scorer.recipe if isinstance(scorer, ScorerByLag) else None
        self.has_lags = self.recipe is not None
        self.max_lag = 0 if self.recipe is None else self.recipe.max_lag
        inner = self.estimator.inner
        self.is_linear = isinstance(self.estimator, (CcfLag1, CcfAuc, CcfPeak)) and inner == "pearson"
        self.is_conditional = isinstance(scorer, ConditionalWindows)
        self.is_signed = self.has_lags and method not in UNSIGNED and inner in SIGNED_INNERS

    @property
    def fold(self) -> int:
        """How the delays fold into one strength; that of a single signed delay is its size."""
        return PEAK if self.score_fold == SIGNED_SUM else self.score_fold

    @property
    def score_fold(self) -> int:
        """How the delays fold into what the score weighs, with their sign where the method keeps it."""
        return self.recipe.fold if self.recipe is not None else ABSOLUTE_SUM

    @property
    def weighing(self) -> int:
        """How the score weighs the two directions of a pair."""
        return self.recipe.weighing if self.recipe is not None else DIFFERENCE

    def check(self, lookback: int) -> None:
        """Refuse a window that has no room for the longest delay."""
        # At lag l the overlap has lookback − l increments, and a correlation needs two.
        if self.max_lag and self.max_lag >= lookback - 1:
            raise ConfigError(
                f"lag.max_lag={self.max_lag} does not fit into lag.lookback={lookback} bars; "
                "lower the one or raise the other"
            )

    def dependence(self, windows: Array) -> Array:
        """(window, delay, i, j) dependence of x_j(t) on x_i(t − delay), delays from 1; needs a method with delays."""
        if self.is_linear:
            return np.stack([*_by_lag(np.nan_to_num(windows), self.max_lag)], axis=1)
        # Laid end to end after one first bar, window k ends at bar k·bars.
        scorer, bars = self._scorer(windows), windows.shape[1]
        assert isinstance(scorer, ScorerByLag)
        return np.stack([scorer.correlations(end * bars, bars) for end in range(1, len(windows) + 1)])

    def by_delay(self, windows: Floats) -> Iterator[Array]:
        """The same delay by delay, each (window, i, j) to be changed at will: of correlations one is held at a time."""
        if self.is_linear:
            return _by_lag(np.nan_to_num(windows), self.max_lag)
        return iter(np.moveaxis(self.dependence(windows), 1, 0))

    def draws_at_once(self, bars: int, symbols: int) -> int:
        """How many draws of a window the block in memory holds: their increments and six matrices each."""
        return max(int(self.block_bytes // (4 * symbols * (bars + 6 * symbols))), 1)

    def conditional_statistics(self, window: Array) -> Array:
        """(delay, i, j) t-statistic of x_i(t − delay) for x_j(t) given all other symbols; of conditional methods."""
        scorer = self._scorer(window[None])
        assert isinstance(scorer, ConditionalWindows)
        return scorer.statistics(len(window), len(window))

    def scores(self, windows: Array) -> Array:
        """(window, i, j) the estimator's own antisymmetric score."""
        draws, bars, assets = windows.shape
        matrices = np.empty((draws, assets, assets))
        self._scorer(windows).score_many(np.arange(1, draws + 1) * bars, np.full(draws, bars), matrices)
        return matrices

    def forward(self, windows: Array) -> Array:
        """(window, i, j) strength by which i's past predicts j, NaN where a symbol cannot be scored."""
        if not self.has_lags:
            return np.maximum(self.scores(windows), 0.0)
        return _fold(self.by_delay(windows), self.fold) + self.mark_unscored(windows)

    def leadership(self, windows: Floats) -> Floats:
        """(window, i, j) antisymmetric: the method's score, positive where i leads j."""
        if not self.has_lags:
            return self.scores(windows)
        strength = _fold(self.by_delay(windows), self.score_fold) + self.mark_unscored(windows)
        return weigh_directions(strength, self.weighing)

    def drawn_leadership(self, windows: Floats) -> Floats:
        """The same by correlations, of draws whose symbols can all be scored and that are 0 where one is missing."""
        return weigh_directions(_fold(_by_lag(windows, self.max_lag), self.score_fold), self.weighing)

    def mark_unscored(self, windows: Floats) -> Floats:
        """(window, i, j) 0, and NaN where one of the two has too few observations or does not vary."""
        known = np.isfinite(windows)
        x = np.where(known, windows, 0.0)
        square = (x * x).mean(axis=1)
        varies = square - x.mean(axis=1) ** 2 > CONSTANT * square
        enough = known.sum(axis=1) >= required_observations(windows.shape[1], self.minimum)
        # 0 or NaN instead of a mask: adding it leaves scored pairs alone and makes the others NaN.
        zero = np.where(enough & varies, 0.0, np.nan)
        return np.asarray(zero[:, :, None] + zero[:, None, :])

    def _scorer(self, windows: Floats) -> Scorer:
        return self.estimator.scorer(end_to_end(windows, self.minimum), self._resources)


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
    def lag_map(self) -> Floats:
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


def answer_window(window: Floats, symbols: Sequence[str], gauge: StrengthMeasure) -> Answer:
    """The answer for prepared increments (time, symbol) by the gauge's method."""
    if not gauge.has_lags:
        score = gauge.scores(window[None])[0]
        blank = np.full(score.shape, np.nan)
        # What leads no other symbol has a strength of 0.
        return Answer(tuple(symbols), gauge.method, 0, score, np.maximum(score, 0.0), blank, np.zeros(score.shape))
    unscored = gauge.mark_unscored(window[None])[0]
    strengths = {fold: np.zeros(unscored.shape) for fold in (gauge.fold, gauge.score_fold)}
    peak, place = np.zeros(unscored.shape), np.ones(unscored.shape)
    for delay, (dependence,) in enumerate(gauge.by_delay(window[None]), 1):
        # At a tie the shortest delay.
        is_larger = np.abs(dependence) > np.abs(peak)
        peak[is_larger], place[is_larger] = dependence[is_larger], delay
        for fold, strength in strengths.items():
            fold_in(strength, dependence.copy(), fold)
    forward = strengths[gauge.fold] + unscored
    leadership = weigh_directions(strengths[gauge.score_fold] + unscored, gauge.weighing)
    # Autocorrelation is not a lead; 0·x keeps the NaN of a symbol that cannot be scored.
    np.fill_diagonal(forward, 0.0 * np.diag(forward))
    signs = np.sign(peak) if gauge.is_signed else np.zeros(forward.shape)
    return Answer(tuple(symbols), gauge.method, gauge.max_lag, leadership, forward, place + 0.0 * forward, signs)


def lagged_correlations(windows: Array, max_lag: int) -> Array:
    """(window, lag, i, j) Pearson correlation of x_i(t − lag) and x_j(t) over the overlap, 0 where one is constant.

    The same numbers as `dependence.pearson`, for a stack of windows at once.
    """
    return np.stack([*_by_lag(windows, max_lag)], axis=1)


def _by_lag(windows: Floats, max_lag: int) -> Iterator[Array]:
    draws, bars, assets = windows.shape
    lags = min(max_lag, bars - 2)
    if lags < 1:  # no overlap is long enough
        yield np.zeros((draws, assets, assets))
    sums = _sums(windows)
    for lag in range(1, lags + 1):
        lead, follow = windows[:, : bars - lag], windows[:, lag:]
        mean, scale = _moments(sums - _sums(windows[:, bars - lag :]), bars - lag)
        other_mean, other_scale = _moments(sums - _sums(windows[:, :lag]), bars - lag)
        product = np.swapaxes(lead, 1, 2) @ follow
        product /= bars - lag
        product -= mean[:, :, None] * other_mean[:, None, :]
        product *= scale[:, :, None]
        product *= other_scale[:, None, :]
        yield product


def weighted_products(x: Singles, weights: Singles, lag: int) -> Singles:
    """(draw, i, j) Σ_t w(t)·x_i(t − lag)·x_j(t) of increments (time, symbol), for weights (draw, time − lag).

    All draws are one product of matrices, with the weighted past of every draw below that of the one before.
    """
    bars, symbols = x.shape
    lead = (weights[:, None, :] * x[: bars - lag].T).reshape(-1, bars - lag)
    return np.asarray((lead @ x[lag:]).reshape(len(weights), symbols, symbols))


def _sums(part: Floats) -> Floats:
    """(2, window, symbol) sums and sums of squares of (window, time, symbol)."""
    return np.stack([part.sum(axis=1), np.einsum("wti,wti->wi", part, part)])


def _moments(sums: Floats, bars: int) -> tuple[Array, Array]:
    """(window, symbol) mean and 1/deviation from the sums over so many bars; 0 for the latter where constant."""
    mean, square = sums / bars
    variance = square - mean**2
    varies = (variance > CONSTANT * square) & (square > 0.0)
    return mean, np.where(varies, 1 / np.sqrt(np.where(varies, variance, 1.0)), 0.0)


def fold_delays(dependence: Array, fold: int) -> Array:
    """(…, i, j) strength from the dependence (…, delay, i, j) at each delay."""
    return _fold((each.copy() for each in np.moveaxis(dependence, -3, 0)), fold)


def fold_in(strength: Array, dependence: Array, fold: int) -> None:
    """Fold the dependence at one more delay into a running strength, in place; the dependence becomes its size."""
    if fold == SIGNED_SUM:
        strength += dependence
        return
    if fold == SQUARED_SUM:
        strength += dependence**2
        return
    np.abs(dependence, out=dependence)
    if fold == ABSOLUTE_SUM:
        strength += dependence
    else:
        np.maximum(strength, dependence, out=strength)


def _fold(by_delay: Iterable[Array], fold: int) -> Floats:
    """The folded strength of what comes delay by delay."""
    rest = iter(by_delay)
    first = next(rest)
    strength = np.zeros_like(first)
    fold_in(strength, first, fold)
    for dependence in rest:
        fold_in(strength, dependence, fold)
    return strength


def weigh_directions(strength: Array, weighing: int) -> Array:
    """(…, i, j) the antisymmetric score from folded strengths (…, i, j); the same numbers as the estimators'."""
    back = np.swapaxes(strength, -1, -2)
    score = strength - back
    if weighing == DIFFERENCE:
        return np.asarray(score)
    total = strength + back
    if weighing == PUBLISHED:
        score = np.sign(score) * np.maximum(strength, back)
    # Two directions of no strength at all are equal, not unknown; NaN stays.
    return np.asarray(np.where(total == 0, 0.0, ratio(score, total)))
